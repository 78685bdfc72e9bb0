"""Uploads from forms: allowed and refused ones."""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from storage_app import StorageApp, account, container

from martlet.http.environ import Environ
from martlet.http.response import Response
from proxy.info_registry import clear_info, collect_info
from proxy.middleware.signed_urls.formpost import filter_factory
from proxy.middleware.signed_urls.formpost_parts import FormError, parts_of

BOUNDARY = "----b"
EXPIRES = "4102444800"  # 2100
PATH = "/v1/AUTH_a/c/in-"
LIMITS = {"redirect": "", "max_file_size": "1000", "max_file_count": "2", "expires": EXPIRES}
HELLO = ("f", "hello.txt", b"hello")


def field(name: str, value: str) -> bytes:
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
    return head.encode()


def file(name: str, filename: str, content: bytes, headers: str = "") -> bytes:
    disposition = f'form-data; name="{name}"; filename="{filename}"'
    head = f"--{BOUNDARY}\r\nContent-Disposition: {disposition}\r\n{headers}\r\n"
    return head.encode() + content + b"\r\n"


def form(
    *files: tuple[Any, ...],
    key: str = "of account",
    digest: str = "sha256",
    path: str = PATH,
    end: str = f"--{BOUNDARY}--\r\n",
    **fields: str,
) -> bytes:
    """Return a signed form; ``fields`` overrides and extends LIMITS; ``_`` stands for ``-``."""
    limits = {name: fields.pop(name, value) for name, value in LIMITS.items()}
    message = "\n".join([path, *limits.values()])
    signature = hmac.new(key.encode(), message.encode(), digest).hexdigest()
    given = {**limits, "signature": signature, **fields}
    body = [field(name, value) for name, value in given.items()]
    body += [file(*entry) for entry in files or (HELLO,)]
    return b"".join(body) + end.encode()


@pytest.fixture
def inner() -> StorageApp:
    infos = {
        "/v1/AUTH_a": account(temp_url_key="of account"),
        "/v1/AUTH_a/c": container(temp_url_key_2="of container"),
    }
    return StorageApp(infos, lambda environ: Response(201))


@pytest.fixture
def app(inner: StorageApp) -> Iterator[Any]:
    yield filter_factory({})(inner)
    clear_info()


def post(ask: Any, app: Any, body: bytes, path: str = PATH, boundary: str = BOUNDARY) -> Any:
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    return ask(app, path, "POST", headers, body)


@pytest.mark.parametrize("key", ["of account", "of container"])
@pytest.mark.parametrize("digest", ["sha1", "sha256", "sha512"])
def test_each_file_becomes_an_object(
    ask: Any, app: Any, inner: StorageApp, key: str, digest: str
) -> None:
    second = ("g", "über/b.bin", b"\r\n--x\0" * 40, "Content-Type: a/b\r\n")
    answer = post(ask, app, form(HELLO, second, key=key, digest=digest))
    assert (answer.status, answer.body) == (201, b"201 Created")
    über = "über".encode().decode("latin-1")
    assert inner.calls == [f"PUT {PATH}hello.txt", f"PUT {PATH}{über}/b.bin"]
    assert inner.bodies == [b"hello", second[2]]
    assert inner.environ["CONTENT_TYPE"] == "a/b"
    assert inner.environ["swift.source"] == "FP"


@pytest.mark.parametrize("path", ["/", "/bucket", "/bucket/"])
def test_forms_of_the_s3_api_pass(ask: Any, app: Any, inner: StorageApp, path: str) -> None:
    post(ask, app, form(), path)
    assert inner.calls == [f"POST {path}"]


@pytest.mark.parametrize("path", ["/v1/AUTH_a/c", "/v1/AUTH_a/c/"])
def test_into_the_container_itself(ask: Any, app: Any, inner: StorageApp, path: str) -> None:
    assert post(ask, app, form(path=path), path).status == 201
    assert inner.calls == ["PUT /v1/AUTH_a/c/hello.txt"]


@pytest.mark.parametrize(
    ("fields", "status", "text"),
    [
        ({"expires": "5"}, 401, b"Form Expired"),
        ({"expires": ""}, 401, b"Form Expired"),
        ({"expires": "soon"}, 400, b"expired not an integer"),
        ({"signature": "0" * 64}, 401, b"Invalid Signature"),
        ({"signature": "sha256:AAAA"}, 401, b"Invalid Signature"),
        ({"signature": ""}, 401, b"Invalid Signature"),
        ({"key": "wrong"}, 401, b"Invalid Signature"),
        ({"digest": "md5"}, 401, b"Invalid Signature"),
        ({"path": "/v1/AUTH_a/other/"}, 401, b"Invalid Signature"),
        ({"max_file_size": "big"}, 400, b"max_file_size not an integer"),
        ({"max_file_count": "many"}, 400, b"max_file_count not an integer"),
        ({"x_delete_at": "soon"}, 400, b"x_delete_at not an integer"),
        ({"x_delete_after": "1.5"}, 400, b"x_delete_after not an integer"),
        ({"max_file_count": "0"}, 400, b"max file count exceeded"),
        ({"max_file_size": "4"}, 400, b"max_file_size exceeded"),
    ],
)
def test_forms_that_store_nothing(
    ask: Any, app: Any, inner: StorageApp, fields: Any, status: int, text: bytes
) -> None:
    answer = post(ask, app, form(**fields))
    assert (answer.status, text in answer.body) == (status, True)
    assert inner.bodies == []


def test_limits_hold_for_each_file_and_for_all(ask: Any, app: Any, inner: StorageApp) -> None:
    assert post(ask, app, form(HELLO, max_file_size="5")).status == 201
    assert post(ask, app, form(HELLO, ("g", "b", b"6 more"), max_file_size="5")).status == 400
    assert post(ask, app, form(HELLO, HELLO, HELLO)).status == 400
    assert inner.bodies == [b"hello"] * 4


def test_redirects_tell_what_happened(ask: Any, app: Any) -> None:
    answer = post(ask, app, form(redirect="http://a/b"))
    assert answer.status == 303
    assert answer.headers["Location"] == "http://a/b?status=201&message="
    answer = post(ask, app, form(redirect="http://a/b?c=d", max_file_size="1"))
    assert answer.headers["Location"] == (
        "http://a/b?c=d&status=400&message=max_file_size%20exceeded"
    )
    answer = post(ask, app, form(redirect='http://a/"><b>\u20ac'))
    assert "<b>" not in answer.headers["Location"]
    assert b"<b>" not in answer.body
    assert post(ask, app, form(redirect="http://a/", key="wrong")).status == 401


def test_fields_describe_the_objects(ask: Any, app: Any, inner: StorageApp) -> None:
    fields = {"x_delete_after": "60", "content-type": "x/y", "content-encoding": "gzip"}
    post(ask, app, form(**fields))
    environ = inner.environ
    assert environ["HTTP_X_DELETE_AFTER"] == "60"
    assert (environ["CONTENT_TYPE"], environ["HTTP_CONTENT_ENCODING"]) == ("x/y", "gzip")


def test_fields_behind_the_files_do_not_count(ask: Any, app: Any, inner: StorageApp) -> None:
    body = form(end="") + field("content-type", "late/late") + f"--{BOUNDARY}--\r\n".encode()
    assert post(ask, app, body).status == 201
    assert "CONTENT_TYPE" not in inner.environ


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_file_size", "99999"), ("max_file_count", "9"), ("expires", "9" * 11), ("redirect", "x")],
)
def test_limits_cannot_be_changed_between_files(
    ask: Any, app: Any, inner: StorageApp, name: str, value: str
) -> None:
    more = field(name, value) + file("g", "big", b"x" * 2000) + f"--{BOUNDARY}--\r\n".encode()
    assert post(ask, app, form(end="") + more).status == 401
    assert inner.bodies == [b"hello"]


def test_a_form_of_fields_without_end(ask: Any, app: Any, inner: StorageApp) -> None:
    body = b"".join(field(f"f{number}", "x") for number in range(101))
    assert b"too many fields" in post(ask, app, body + form()).body
    assert inner.seen == []


def test_nobody_is_sent_on_by_a_form_that_is_not_signed(ask: Any, app: Any) -> None:
    unsigned = form(("f", "", b""), redirect="http://evil/", key="wrong")
    assert post(ask, app, unsigned).status == 401
    signed = form(("f", "", b""), redirect="http://good/")
    assert post(ask, app, signed).headers["Location"].startswith("http://good/?status=400")
    late = form(redirect="http://good/", end="") + field("redirect", "http://evil/")
    answer = post(ask, app, late + f"--{BOUNDARY}--\r\n".encode())
    assert answer.headers["Location"].startswith("http://good/?status=201")


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(document.cookie)//http://a/",
        "JavaScript:alert(1)",
        " javascript:alert(1)",
        "java\tscript:alert(1)",
        "\x01javascript:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "http:javascript:alert(1)",
    ],
)
def test_a_redirect_may_not_run_in_the_browser(
    ask: Any, app: Any, inner: StorageApp, url: str
) -> None:
    answer = post(ask, app, form(redirect=url))
    assert (answer.status, b"redirect must be" in answer.body) == (400, True)
    assert "Location" not in answer.headers
    assert inner.seen == []


@pytest.mark.parametrize("url", ["HTTPS://a/b", "/thanks"])
def test_a_redirect_to_a_page(ask: Any, app: Any, url: str) -> None:
    answer = post(ask, app, form(redirect=url))
    assert answer.headers["Location"].startswith(f"{url}?status=201")


def test_the_error_of_an_upload_is_the_answer(ask: Any, app: Any, inner: StorageApp) -> None:
    inner.answer = lambda environ: Response(413, {"Content-Type": "text/html"}, b"too large")
    answer = post(ask, app, form(HELLO, HELLO))
    assert (answer.status, answer.body, len(inner.seen)) == (413, b"too large", 1)
    answer = post(ask, app, form(redirect="http://a/"))
    assert answer.headers["Location"] == "http://a/?status=413&message="


def test_no_file_was_chosen(ask: Any, app: Any, inner: StorageApp) -> None:
    answer = post(ask, app, form(("f", "", b"")))
    assert (answer.status, b"no files to process" in answer.body) == (400, True)
    assert inner.seen == []


def test_a_form_that_breaks_off_leaves_no_object(ask: Any, app: Any, inner: StorageApp) -> None:
    whole = form(("f", "a", b"x" * 500))
    for length in (0, 10, len(whole) - 300, len(whole) - 10):
        assert post(ask, app, whole[:length]).status == 400
    assert inner.bodies == []


@pytest.mark.parametrize(
    ("method", "content_type"),
    [
        ("PUT", f"multipart/form-data; boundary={BOUNDARY}"),
        ("POST", "multipart/form-data"),
        ("POST", "text/plain; boundary=x"),
        ("POST", ""),
        ("POST", 'multipart/form-data; boundary="'),
    ],
)
def test_everything_else_goes_on(
    ask: Any, app: Any, inner: StorageApp, method: str, content_type: str
) -> None:
    assert ask(app, PATH, method, {"Content-Type": content_type}, b"x").status == 201
    assert inner.calls == [f"{method} {PATH}"]


def test_a_form_with_another_boundary(ask: Any, app: Any, inner: StorageApp) -> None:
    assert post(ask, app, form(), boundary="other").status == 400
    assert inner.seen == []


def test_a_container_key_opens_no_other_container(ask: Any, app: Any, inner: StorageApp) -> None:
    def elsewhere(environ: Environ) -> Response:
        from martlet.http.request import Request

        refusal: Response | None = environ["swift.authorize"](Request.blank("/v1/AUTH_a/d/o"))
        return refusal or Response(201)

    inner.answer = elsewhere
    assert post(ask, app, form(key="of container")).status == 401
    assert post(ask, app, form(key="of account")).status == 201


def test_info(app: Any) -> None:
    assert collect_info()["formpost"]["allowed_digests"] == ["sha1", "sha256", "sha512"]


@given(
    contents=st.lists(st.binary(max_size=300), max_size=4),
    size=st.integers(1, 40),
    leave=st.integers(0, 400),
)
def test_parts_are_read_in_any_pieces(contents: list[bytes], size: int, leave: int) -> None:
    body = b"".join(file("f", "n", c) for c in contents) + f"--{BOUNDARY}--".encode()

    class Slow(BytesIO):
        def read(self, wanted: int | None = -1, /) -> bytes:
            return super().read(size)

    read = []
    for part in parts_of(Slow(body), BOUNDARY):
        content = b""
        while len(content) < leave and (chunk := part.read(size)):
            content += chunk
        read.append(content)
    assert [c[: len(r)] for c, r in zip(contents, read, strict=True)] == read
    assert all(len(r) >= min(leave, len(c)) for c, r in zip(contents, read, strict=True))


@given(st.binary(max_size=200))
def test_no_bytes_are_worse_than_a_bad_form(body: bytes) -> None:
    try:
        for part in parts_of(BytesIO(field("a", "b") + body), BOUNDARY):
            part.read(10)
    except FormError:
        pass

"""Temporary URLs: allowed and refused requests."""

from __future__ import annotations

import base64
import hmac
import time
from typing import Any
from urllib.parse import quote

import pytest
from storage_app import StorageApp, account, container

from martlet.conf.options import ConfigError
from martlet.http.environ import Environ
from martlet.http.response import Response
from proxy.info_registry import clear_info, collect_info
from proxy.middleware.signed_urls.tempurl import GENERATOR_HEADER, STATICWEB, filter_factory

PATH = "/v1/AUTH_a/c/o"
EXPIRES = 4102444800  # 2100
METADATA = {"X-Object-Meta-Secret": "1", "X-Object-Meta-Public-Colour": "red"}


def sign(
    message: str, key: str = "of account", digest: str = "sha256", encoding: str = "hex"
) -> str:
    signature = hmac.new(key.encode(), message.encode(), digest)
    if encoding == "hex":
        return signature.hexdigest()
    encode = base64.urlsafe_b64encode if encoding == "urlsafe" else base64.b64encode
    return f"{digest}:{encode(signature.digest()).decode()}"


def signed(
    path: str = PATH,
    method: str = "GET",
    expires: object = EXPIRES,
    key: str = "of account",
    **query: str,
) -> str:
    """Return a temporary URL."""
    ip_range = query.get("temp_url_ip_range")
    subject = path
    if "temp_url_prefix" in query:
        subject = f"prefix:/v1/AUTH_a/c/{query['temp_url_prefix']}"
    message = f"{method}\n{expires}\n{subject}"
    signature = sign(f"ip={ip_range}\n{message}" if ip_range else message, key)
    return url(path, signature, expires, **query)


def url(path: str, signature: str, expires: object = EXPIRES, **query: str) -> str:
    parameters = {"temp_url_sig": signature, "temp_url_expires": str(expires), **query}
    joined = "&".join(f"{name}={quote(value)}" for name, value in parameters.items())
    return f"{quote(path)}?{joined}"


@pytest.fixture
def inner() -> StorageApp:
    infos = {
        "/v1/AUTH_a": account(temp_url_key="of account", temp_url_key_2="second"),
        "/v1/AUTH_a/c": container(temp_url_key="of container", temp_url_key_2="schlüssel"),
    }
    return StorageApp(infos, lambda environ: Response(200, METADATA, b"body"))


@pytest.fixture
def app(inner: StorageApp) -> Any:
    yield filter_factory({})(inner)
    clear_info()


@pytest.mark.parametrize("key", ["of account", "second", "of container", "schlüssel"])
@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE", "HEAD"])
def test_each_key_opens_for_each_method(ask: Any, app: Any, method: str, key: str) -> None:
    assert ask(app, signed(method=method, key=key), method).status == 200
    if method != "HEAD":
        other = "DELETE" if method == "PUT" else "PUT"
        assert ask(app, signed(method=method, key=key), other).status == 401


@pytest.mark.parametrize(
    ("method", "status"), [("GET", 200), ("PUT", 200), ("POST", 200), ("DELETE", 401)]
)
def test_head_is_allowed_to_who_may_read_or_write(
    ask: Any, app: Any, method: str, status: int
) -> None:
    assert ask(app, signed(method=method), "HEAD").status == status


@pytest.mark.parametrize("digest", ["sha1", "sha256", "sha512"])
@pytest.mark.parametrize("encoding", ["hex", "urlsafe", "standard"])
def test_digests_and_encodings(ask: Any, app: Any, digest: str, encoding: str) -> None:
    signature = sign(f"GET\n{EXPIRES}\n{PATH}", digest=digest, encoding=encoding)
    assert ask(app, url(PATH, signature)).status == 200
    assert ask(app, url(PATH, signature.rstrip("="))).status == 200
    assert ask(app, url(PATH, signature.replace(signature[-4], "x"))).status == 401


@pytest.mark.parametrize(
    "signature", ["", "x", "z" * 64, "é" * 64, "sha256:!", "sha256:", "md5:aaaa", ":", "0" * 32]
)
def test_what_is_no_signature(ask: Any, app: Any, inner: StorageApp, signature: str) -> None:
    assert (ask(app, url(PATH, signature)).status, inner.seen) == (401, [])


def test_a_digest_that_is_not_allowed(ask: Any, inner: StorageApp) -> None:
    app = filter_factory({}, allowed_digests="sha512")(inner)
    assert ask(app, signed()).status == 401
    signature = sign(f"GET\n{EXPIRES}\n{PATH}", digest="sha512")
    assert ask(app, url(PATH, signature)).status == 200
    assert collect_info()["tempurl"]["allowed_digests"] == ["sha512"]
    clear_info()


def test_the_time_may_be_written_for_people(ask: Any, app: Any) -> None:
    signature = sign(f"GET\n{EXPIRES}\n{PATH}")
    assert ask(app, url(PATH, signature, "2100-01-01T00:00:00Z")).status == 200
    assert ask(app, url(PATH, signature, "2100-01-01")).status == 401


@pytest.mark.parametrize("expires", [253402300799, 253402300800, 1893456000000, 10**30])
def test_times_that_are_far_away(ask: Any, app: Any, expires: int) -> None:
    """Some clients sign milliseconds; dates in headers end with the year 9999."""
    answer = ask(app, signed(expires=expires))
    assert answer.status == 200
    assert answer.headers["expires"] == "Fri, 31 Dec 9999 23:59:59 GMT"


@pytest.mark.parametrize("expires", ["", "0", "-5", "soon", "inf", "1e12", "9" * 5000, "10²"])
def test_times_that_are_over_or_none(ask: Any, app: Any, expires: str) -> None:
    assert ask(app, signed(expires=expires)).status == 401


def test_an_expired_url(ask: Any, app: Any) -> None:
    assert ask(app, signed(expires=int(time.time()) - 1)).status == 401
    assert ask(app, signed(expires=int(time.time()) + 60)).status == 200


@pytest.mark.parametrize(
    "path",
    ["/v1/AUTH_a/c", "/v1/AUTH_a/c/", "/v1/AUTH_a/c//", "/v1/AUTH_a", "/v1", "/", "/v2/AUTH_a/c/o"],
)
def test_only_objects_can_be_opened(ask: Any, app: Any, path: str) -> None:
    assert ask(app, signed(path)).status == 401


@pytest.mark.parametrize("query", ["temp_url_sig=x", "temp_url_expires=1"])
def test_half_a_temporary_url(ask: Any, app: Any, query: str) -> None:
    assert ask(app, f"{PATH}?{query}").status == 401


@pytest.mark.parametrize("query", ["", "?format=json", "?temp_url_prefix=o"])
def test_everything_else_goes_on(ask: Any, app: Any, inner: StorageApp, query: str) -> None:
    assert ask(app, PATH + query).headers["X-Object-Meta-Secret"] == "1"
    assert "REMOTE_USER" not in inner.environ
    assert ask(app, url(PATH, "wrong"), "OPTIONS").status == 200


@pytest.mark.parametrize(
    ("prefix", "obj", "status"),
    [("p/", "p/o", 200), ("p/", "p", 401), ("", "any", 200), ("ü", "üx", 200), ("p", "q", 401)],
)
def test_prefixes(ask: Any, app: Any, prefix: str, obj: str, status: int) -> None:
    answer = ask(app, signed(f"/v1/AUTH_a/c/{obj}", temp_url_prefix=prefix))
    assert answer.status == status


@pytest.mark.parametrize("path", ["/v1/AUTH_a/c", "/v1/AUTH_a/c/"])
def test_a_prefix_url_opens_the_container_for_staticweb_only(
    ask: Any, app: Any, inner: StorageApp, path: str
) -> None:
    assert ask(app, signed(path, temp_url_prefix="")).status == 401
    page = {GENERATOR_HEADER: STATICWEB}
    inner.answer = lambda environ: Response(200, page, b"page")
    answer = ask(app, signed(path, temp_url_prefix=""))
    assert (answer.status, "Content-Disposition" in answer.headers) == (200, False)
    assert ask(app, signed(path, "PUT", temp_url_prefix=""), "PUT").status == 401


@pytest.mark.parametrize(
    ("ip_range", "address", "status"),
    [
        ("10.0.0.1", "10.0.0.1", 200),
        ("10.0.0.0/24", "10.0.0.77", 200),
        ("10.0.0.0/24", "10.0.1.1", 401),
        ("10.0.0.0/24", "::1", 401),
        ("::/64", "::7", 200),
        ("10.0.0.1/8", "10.0.0.1", 401),
        ("nonsense", "10.0.0.1", 401),
        ("10.0.0.1", "", 401),
    ],
)
def test_ip_ranges(ask: Any, app: Any, ip_range: str, address: str, status: int) -> None:
    answer = ask(app, signed(temp_url_ip_range=ip_range), environ={"REMOTE_ADDR": address})
    assert answer.status == status


def test_an_ip_range_cannot_be_taken_off(ask: Any, app: Any) -> None:
    bound = signed(temp_url_ip_range="10.0.0.1")
    assert ask(app, bound.partition("&temp_url_ip_range")[0]).status == 401


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, "attachment; filename=\"o\"; filename*=UTF-8''o"),
        ({"filename": "é a.txt"}, None),
        ({"inline": ""}, "inline"),
        ({"inline": "", "filename": "x\r\n"}, "inline; filename=\"x%0D%0A\"; filename*=UTF-8''x"),
    ],
)
def test_names_for_browsers(
    ask: Any, app: Any, query: dict[str, str], expected: str | None
) -> None:
    disposition = ask(app, signed(**query)).headers["Content-Disposition"]
    name = "attachment; filename=\"%C3%A9 a.txt\"; filename*=UTF-8''%C3%A9%20a.txt"
    assert disposition.startswith(expected or name)
    assert "\r" not in disposition


def test_an_object_may_have_a_disposition_of_its_own(ask: Any, app: Any, inner: StorageApp) -> None:
    inner.answer = lambda environ: Response(200, {"Content-Disposition": "own", "Expires": "then"})
    headers = ask(app, signed()).headers
    assert (headers["Content-Disposition"], headers["Expires"]) == ("own", "then")
    assert ask(app, signed(inline="")).headers["Content-Disposition"] == "inline"


def test_answers_keep_private_metadata(ask: Any, app: Any, inner: StorageApp) -> None:
    headers = ask(app, signed()).headers
    assert "X-Object-Meta-Secret" not in headers
    assert headers["X-Object-Meta-Public-Colour"] == "red"
    assert headers["Expires"] == "Fri, 01 Jan 2100 00:00:00 GMT"
    inner.answer = lambda environ: Response(404)
    assert "Expires" not in ask(app, signed()).headers


@pytest.mark.parametrize("name", ["X-Object-Manifest", "X-Symlink-Target", "X-Copy-From"])
@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_no_pointer_can_be_uploaded(ask: Any, app: Any, name: str, method: str) -> None:
    answer = ask(app, signed(method=method), method, {name: "secret/o"})
    assert answer.status == 400
    assert name.encode() in answer.body


def test_headers_are_taken_out_of_requests(ask: Any, inner: StorageApp) -> None:
    options = {"incoming_remove_headers": "x-a-* x-b", "incoming_allow_headers": "x-a-good"}
    app = filter_factory({}, **options)(inner)
    clear_info()
    ask(app, signed(), headers={"X-A-Bad": "1", "X-A-Good": "1", "X-B": "1", "X-C": "1"})
    passed = {key for key in inner.environ if key.startswith("HTTP_X")}
    assert passed == {"HTTP_X_A_GOOD", "HTTP_X_C"}


def test_other_parameters_are_not_passed_on(ask: Any, app: Any, inner: StorageApp) -> None:
    ask(app, signed(**{"multipart-manifest": "get", "inline": ""}))
    assert "multipart-manifest" not in inner.environ["QUERY_STRING"]
    assert inner.environ["REMOTE_USER"] == ".wsgi.tempurl"


@pytest.mark.parametrize(
    ("key", "path", "status"),
    [
        ("of account", "/v1/AUTH_a/other/o", 200),
        ("of account", "/v1/AUTH_b/c/o", 401),
        ("of container", "/v1/AUTH_a/c/other", 200),
        ("of container", "/v1/AUTH_a/other/o", 401),
        ("of container", "/v1/AUTH_a", 401),
    ],
)
def test_how_far_a_key_reaches(
    ask: Any, app: Any, inner: StorageApp, key: str, path: str, status: int
) -> None:
    """A request like those of a filter to the right that reads parts of a large object."""

    def part(environ: Environ) -> Response:
        from martlet.http.request import Request

        refusal: Response | None = environ["swift.authorize"](Request.blank(path))
        return refusal or Response(200)

    inner.answer = part
    assert ask(app, signed(key=key)).status == status


def test_without_keys_nothing_opens(ask: Any) -> None:
    app = filter_factory({})(StorageApp({"/v1/AUTH_a": account(), "/v1/AUTH_a/c": container()}))
    clear_info()
    assert ask(app, signed(key="")).status == 401


def test_bad_options_and_info() -> None:
    with pytest.raises(ConfigError, match="allowed_digests"):
        filter_factory({}, allowed_digests="md5")
    filter_factory({}, methods="GET")
    section = collect_info()["tempurl"]
    assert (section["methods"], section["deprecated_digests"]) == (["GET"], ["sha1"])
    clear_info()

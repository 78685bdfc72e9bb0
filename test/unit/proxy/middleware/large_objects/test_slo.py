"""Static large objects over a store in memory: PUT of manifests, DELETE, listings."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from hashlib import md5
from io import BytesIO
from typing import Any

import pytest
from object_store import ObjectStore

from martlet.conf.options import ConfigError
from martlet.http.call import call_app
from martlet.http.environ import Environ, StartResponse
from martlet.http.request import Request
from martlet.http.response import Response
from proxy.info_registry import collect_info
from proxy.middleware.large_objects.slo import Slo, filter_factory
from proxy.middleware.large_objects.slo_options import SloOptions

MAN = "/v1/a/c/man"
PUT = f"{MAN}?multipart-manifest=put"
DELETE = f"{MAN}?multipart-manifest=delete"
Ask = Callable[..., Any]


def etag_of(*parts: bytes) -> str:
    return md5("".join(md5(part).hexdigest() for part in parts).encode()).hexdigest()


@pytest.fixture
def store() -> ObjectStore:
    store = ObjectStore()
    for name in ("one", "two", "three"):
        store.add(f"/v1/a/c/{name}", name.encode() * 2)
    store.add("/v1/a/c/empty", b"")
    return store


@pytest.fixture
def slo(store: ObjectStore) -> Slo:
    return Slo(store, SloOptions())


def put(ask: Ask, slo: Slo, items: Any, path: str = PUT, **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ask(slo, path, "PUT", named, json.dumps(items).encode())


def test_a_manifest_is_stored(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    items = [{"path": "/c/one"}, {"path": "c/two", "range": "-3"}, {"data": "YWJj"}]
    answer = put(ask, slo, items, content_type="image/x;swift_bytes=1")
    md5_of_one, md5_of_two = md5(b"oneone").hexdigest(), md5(b"twotwo").hexdigest()
    whole = md5(f"{md5_of_one}{md5_of_two}:3-5;{md5(b'abc').hexdigest()}".encode()).hexdigest()
    assert answer.status == 201
    assert answer.headers["Etag"] == f'"{whole}"'
    stored = store.objects[MAN]
    entries = json.loads(stored.body)
    assert [entry.get("name") for entry in entries] == ["/c/one", "/c/two", None]
    assert entries[0] == {
        "name": "/c/one",
        "hash": md5_of_one,
        "bytes": 6,
        "content_type": "text/plain",
        "last_modified": "2013-02-01T20:38:36.000000",
    }
    assert entries[1]["range"] == "3-5"
    assert stored.headers == {
        "Content-Type": "image/x;swift_bytes=12",
        "X-Static-Large-Object": "True",
        "X-Object-Sysmeta-Slo-Etag": whole,
        "X-Object-Sysmeta-Slo-Size": "12",
        "X-Object-Sysmeta-Container-Update-Override-Etag": f"{stored.etag}; slo_etag={whole}",
    }


def test_each_segment_is_looked_at_once(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    items = [{"path": "/c/one", "range": "0-0"}, {"path": "/c/one", "range": "1-1"}]
    assert put(ask, slo, items).status == 201
    assert store.calls == ["HEAD /v1/a/c/one", f"PUT {PUT}"]
    assert store.requests[0]["swift.source"] == "SLO"


def test_a_large_object_may_be_a_segment(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    assert put(ask, slo, [{"path": "/c/one"}, {"path": "/c/two"}]).status == 201
    etag = etag_of(b"oneone", b"twotwo")
    path = "/v1/a/c/outer?multipart-manifest=put"
    # Also with the quotes in which the PUT of the inner one gave its ETag.
    outer = [{"path": "/c/man", "etag": f'"{etag}"', "size_bytes": 12}]
    assert put(ask, slo, outer, path).status == 201
    (entry,) = json.loads(store.objects["/v1/a/c/outer"].body)
    assert (entry["sub_slo"], entry["bytes"], entry["hash"]) == (True, 12, etag)


def test_all_that_is_wrong_with_segments_is_told(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    items = [
        {"path": "/c/one", "size_bytes": 7, "etag": "x"},
        {"path": "/c/none %"},
        {"path": "/c/two", "range": "6-"},
        {"path": "/c/empty"},
        {"path": "/c/three"},
    ]
    answer = put(ask, slo, items, accept="application/json")
    assert answer.status == 400
    assert json.loads(answer.body)["Errors"] == [
        ["/c/one", "Size Mismatch"],
        ["/c/one", "Etag Mismatch"],
        ["/c/none%20%25", "404 Not Found"],
        ["/c/two", "Unsatisfiable Range"],
        ["/c/empty", "Too small; each segment must be at least 1 byte."],
    ]
    assert MAN not in store.objects


def test_the_last_segment_may_be_empty(ask: Ask, slo: Slo) -> None:
    assert put(ask, slo, [{"path": "/c/one"}, {"path": "/c/empty"}]).status == 201
    assert ask(slo, MAN).body == b"oneone"


def test_nothing_is_a_large_object_too(ask: Ask, slo: Slo) -> None:
    assert put(ask, slo, []).status == 201
    answer = ask(slo, MAN)
    assert (answer.status, answer.body, answer.headers["Content-Length"]) == (200, b"", "0")


@pytest.mark.parametrize(("given", "status"), [("{}", 201), ('"{}"', 201), ("x{}", 422)])
def test_the_etag_of_the_whole(
    ask: Ask, slo: Slo, store: ObjectStore, given: str, status: int
) -> None:
    etag = given.format(etag_of(b"oneone"))
    assert put(ask, slo, [{"path": "/c/one"}], etag=etag).status == status
    assert (MAN in store.objects) == (status == 201)


def test_limits(ask: Ask, store: ObjectStore) -> None:
    slo = Slo(store, SloOptions(max_manifest_segments=1, max_manifest_size=100))
    answer = put(ask, slo, [{"path": "/c/one"}] * 2)
    assert answer.status == 413
    assert answer.body == b"Number of object-backed segments must be <= 1"
    inline = [{"path": "/c/one"}, {"data": "YQ=="}, {"data": "YQ=="}]
    assert put(ask, slo, inline).status == 201
    answer = put(ask, slo, [{"path": "/c/" + 100 * "x"}])
    assert (answer.status, answer.body) == (413, b"Manifest File > 100 bytes")


def test_a_manifest_of_unknown_length(ask: Ask, store: ObjectStore) -> None:
    slo = Slo(store, SloOptions(max_manifest_size=100))

    def send(body: bytes, **more: str) -> int:
        environ = {"wsgi.input": BytesIO(body), "REQUEST_METHOD": "PUT", **more}
        request = Request.blank(PUT)
        request.environ.update(environ)
        return int(call_app(slo, request.environ)[0][:3])

    chunked = {"HTTP_TRANSFER_ENCODING": "chunked"}
    assert send(b'[{"path": "/c/one"}]', **chunked) == 201
    assert send(b"x" * 101, **chunked) == 413
    assert send(b"[]") == 411
    assert send(b"[]", CONTENT_LENGTH="5") == 499


def test_the_type_is_guessed(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    path = "/v1/a/c/x.png?multipart-manifest=put"
    assert put(ask, slo, [{"path": "/c/one"}], path).status == 201
    assert store.objects["/v1/a/c/x.png"].headers["Content-Type"] == "image/png;swift_bytes=6"
    detect = {"content_type": "a/b", "x_detect_content_type": "yes"}
    assert put(ask, slo, [{"path": "/c/one"}], path, **detect).status == 201
    assert store.objects["/v1/a/c/x.png"].headers["Content-Type"] == "image/png;swift_bytes=6"


def test_who_may_not_write_is_told_so_first(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    refusal = {"swift.authorize": lambda request: Response(403, body="no")}
    answer = ask(slo, f"{PUT}&heartbeat=on", "PUT", body=b"[]", environ=refusal)
    assert answer.status == 403


def test_the_header_is_reserved(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    headers = {"X-Static-Large-Object": "true"}
    for method in ("PUT", "POST"):
        answer = ask(slo, MAN, method, headers)
        assert answer.status == 400
        assert answer.body.startswith(b"X-Static-Large-Object is a reserved header")
    override = {"swift.slo_override": True}
    assert ask(slo, MAN, "PUT", headers, b"as it is", override).status == 201
    assert store.objects[MAN].body == b"as it is"


def test_heartbeat(ask: Ask, slo: Slo) -> None:
    items = [{"path": "/c/one"}]
    answer = put(ask, slo, items, f"{PUT}&heartbeat=on", accept="application/json")
    assert answer.status == 202
    blank, text = answer.body.split(b"\r\n\r\n")
    assert blank.strip() == b""
    assert json.loads(text) == {
        "Response Status": "201 Created",
        "Response Body": "",
        "Etag": f'"{etag_of(b"oneone")}"',
        "Last Modified": "Fri, 01 Feb 2013 20:38:36 GMT",
        "Errors": [],
    }


def test_white_space_comes_while_segments_are_looked_at(store: ObjectStore) -> None:
    go_on = threading.Event()

    def slow(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        go_on.wait(30)
        return store(environ, start_response)

    slo = Slo(slow, SloOptions(yield_frequency=0.01))
    request = Request.blank(f"{PUT}&heartbeat=on", "PUT", body=b'[{"path": "/c/one"}]')
    status, _, body = call_app(slo, request.environ)
    chunks = iter(body)
    assert [status, next(chunks), next(chunks)] == ["202 Accepted", b" ", b" "]
    go_on.set()
    assert b"201 Created" in b"".join(chunks)


@pytest.mark.parametrize(
    ("items", "headers", "status", "text", "errors"),
    [
        (
            [{"path": "/c/none"}],
            {},
            "400 Bad Request",
            "Bad Request\nThe server could not comply with the request since it is either "
            "malformed or otherwise incorrect.",
            [["/c/none", "404 Not Found"]],
        ),
        (
            [{"path": "/c/one"}],
            {"etag": "x"},
            "422 Unprocessable Entity",
            "Unprocessable Entity\nUnable to process the contained instructions",
            [],
        ),
    ],
)
def test_a_heartbeat_that_ends_badly(
    ask: Ask, slo: Slo, items: Any, headers: dict[str, str], status: str, text: str, errors: Any
) -> None:
    headers = {"accept": "application/json", **headers}
    answer = put(ask, slo, items, f"{PUT}&heartbeat=on", **headers)
    assert answer.status == 202
    assert json.loads(answer.body) == {
        "Response Status": status,
        "Response Body": text,
        "Errors": errors,
    }


def test_a_failing_store_is_told_in_the_heartbeat(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    store.failing["PUT", MAN] = 503
    answer = put(ask, slo, [{"path": "/c/one"}], f"{PUT}&heartbeat=on", accept="application/json")
    assert json.loads(answer.body)["Response Status"] == "503 Service Unavailable"


def delete(ask: Ask, slo: Slo, path: str = DELETE) -> dict[str, Any]:
    answer = ask(slo, path, "DELETE", {"Accept": "application/json"})
    assert answer.status == 200
    values: dict[str, Any] = json.loads(answer.body)
    return values


def test_delete_with_segments(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    put(ask, slo, [{"path": "/c/one"}, {"path": "/c/two"}, {"data": "YQ=="}])
    outer = [{"path": "/c/man"}, {"path": "/c/three"}, {"path": "/c/one"}]
    put(ask, slo, outer, "/v1/a/c/outer?multipart-manifest=put")
    del store.requests[:]
    assert delete(ask, slo, "/v1/a/c/outer?multipart-manifest=delete") == {
        "Number Deleted": 5,
        "Number Not Found": 0,
        "Response Body": "",
        "Response Status": "200 OK",
        "Errors": [],
    }
    assert list(store.objects) == ["/v1/a/c/empty"]
    deleted = [call for call in store.calls if call.startswith("DELETE")]
    assert deleted[-2:] == ["DELETE /v1/a/c/man", "DELETE /v1/a/c/outer"]


def test_plain_delete_leaves_the_segments(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    put(ask, slo, [{"path": "/c/one"}])
    assert ask(slo, MAN, "DELETE").status == 204
    assert "/v1/a/c/one" in store.objects


def test_delete_of_what_is_not_there(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    values = delete(ask, slo)
    assert (values["Response Status"], values["Number Not Found"]) == ("200 OK", 1)
    put(ask, slo, [{"path": "/c/one"}, {"path": "/c/two"}])
    del store.objects["/v1/a/c/one"]
    values = delete(ask, slo)
    assert (values["Number Deleted"], values["Number Not Found"]) == (2, 1)


def test_delete_of_what_is_not_large(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    store.add(MAN, b"x" * 100)
    values = delete(ask, slo)
    assert values["Errors"] == [["/c/man", "Not an SLO manifest"]]
    assert values["Response Status"] == "400 Bad Request"
    assert MAN in store.objects
    assert store.streams[0].is_closed
    assert store.streams[0].sent == 0


@pytest.mark.parametrize(
    ("status", "reason"),
    [(401, "401 Unauthorized"), (503, "Unable to load SLO manifest or segment.")],
)
def test_delete_of_what_cannot_be_read(
    ask: Ask, slo: Slo, store: ObjectStore, status: int, reason: str
) -> None:
    store.failing["GET", MAN] = status
    assert delete(ask, slo)["Errors"] == [["/c/man", reason]]


def test_a_damaged_manifest_is_not_deleted(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    store.add(MAN, b"{", x_static_large_object="True")
    assert delete(ask, slo)["Errors"] == [["/c/man", "Unable to load SLO manifest"]]
    assert MAN in store.objects


@pytest.mark.parametrize(("status", "told"), [(403, "400 Bad Request"), (503, "502 Bad Gateway")])
def test_the_manifest_stays_while_segments_do(
    ask: Ask, slo: Slo, store: ObjectStore, status: int, told: str
) -> None:
    put(ask, slo, [{"path": "/c/one"}, {"path": "/c/two"}])
    store.failing["DELETE", "/v1/a/c/one"] = status
    values = delete(ask, slo)
    assert values["Response Status"] == told
    assert values["Number Deleted"] == 1
    assert MAN in store.objects
    store.failing.clear()
    values = delete(ask, slo)
    assert (values["Number Deleted"], values["Number Not Found"]) == (2, 1)


def test_delete_has_its_limit(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    items = [{"path": f"/c/{number}"} for number in range(11)]
    for item in items:
        store.add(f"/v1/a{item['path']}", b"x")
    put(ask, slo, items)
    values = delete(ask, Slo(store, SloOptions(max_manifest_segments=1)))
    assert values["Response Status"] == "400 Bad Request"
    assert values["Response Body"] == "Too many buffered slo segments to delete."
    assert len(store.objects) == 4 + 11 + 1


def test_delete_with_a_bad_name(ask: Ask, slo: Slo) -> None:
    values = delete(ask, slo, "/v1/a/c/%ff?multipart-manifest=delete")
    assert values["Response Status"] == "412 Precondition Failed"


def test_delete_of_one_version(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    put(ask, slo, [{"path": "/c/one"}])
    del store.requests[:]
    delete(ask, slo, f"{DELETE}&version-id=17")
    assert store.calls == [
        f"GET {MAN}?multipart-manifest=get&symlink=get&version-id=17",
        "DELETE /v1/a/c/one",
        f"DELETE {MAN}?version-id=17",
    ]


def test_a_listing_shows_both_etags(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    put(ask, slo, [{"path": "/c/one"}])
    rows = {row["name"]: row for row in json.loads(ask(slo, "/v1/a/c").body)}
    assert rows["man"]["hash"] == store.objects[MAN].etag
    assert rows["man"]["slo_etag"] == f'"{etag_of(b"oneone")}"'
    assert "slo_etag" not in rows["one"]


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", f"{MAN}?multipart-manifest=put"), ("DELETE", MAN), ("PUT", MAN), ("GET", "/v1/a")],
)
def test_what_is_left_alone(ask: Ask, Inner: Callable[..., Any], method: str, path: str) -> None:
    inner = Inner()
    ask(Slo(inner, SloOptions()), path, method)
    assert len(inner.environs) == 1


def test_info_and_options() -> None:
    filter_factory({}, max_manifest_segments="5")
    assert collect_info()["slo"] == {
        "max_manifest_segments": 5,
        "max_manifest_size": 8388608,
        "yield_frequency": 10,
        "min_segment_size": 1,
        "allow_async_delete": True,
    }
    filter_factory({}, allow_async_delete="no")
    assert collect_info()["slo"]["allow_async_delete"] is False
    with pytest.raises(ConfigError, match="concurrency"):
        filter_factory({}, concurrency="0")
    with pytest.raises(ConfigError, match="yield_frequency"):
        filter_factory({}, yield_frequency="0")


@pytest.mark.parametrize(("failure", "told"), [(401, 401), (403, 403), (503, 503), (500, 503)])
def test_an_asynchronous_delete_tells_why_the_manifest_is_unread(
    ask: Ask, slo: Slo, store: ObjectStore, failure: int, told: int
) -> None:
    """A client may try again after a 503, not after a 400."""
    put(ask, slo, [{"path": "/c/one"}])
    store.failing[("GET", MAN)] = failure
    assert ask(slo, f"{DELETE}&async=on", "DELETE").status == told
    assert MAN in store.objects

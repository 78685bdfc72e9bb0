"""GET and HEAD of static large objects, over a store in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import md5
from typing import Any

import pytest
from object_store import MODIFIED, ObjectStore, Stored

from martlet.http.call import call_app
from martlet.http.request import Request
from proxy.middleware.large_objects import segments
from proxy.middleware.large_objects.segments import SegmentError
from proxy.middleware.large_objects.slo import Slo
from proxy.middleware.large_objects.slo_options import SloOptions

MAN = "/v1/a/c/man"
DATA = b"one-1two-2abcthree-3"
Ask = Callable[..., Any]


@pytest.fixture
def store() -> ObjectStore:
    store = ObjectStore()
    for name in ("one-1", "two-2", "three-3"):
        store.add(f"/v1/a/s/{name}", name.encode())
    store.add("/v1/a/s/wide", b"x" * 10 + b"two-2" + b"x" * 10)
    return store


@pytest.fixture
def slo(store: ObjectStore, ask: Ask) -> Slo:
    """The filter, with man = one-1 + two-2 (part of wide) + abc (inline) + three-3."""
    slo = Slo(store, SloOptions())
    items = [
        {"path": "/s/one-1"},
        {"path": "/s/wide", "range": "10-14"},
        {"data": "YWJj"},
        {"path": "/s/three-3"},
    ]
    assert put(ask, slo, MAN, items) == 201
    del store.requests[:]
    return slo


def put(ask: Ask, slo: Slo, path: str, items: Any) -> int:
    body = json.dumps(items).encode()
    status: int = ask(slo, f"{path}?multipart-manifest=put", "PUT", body=body).status
    return status


def whole_etag(store: ObjectStore) -> str:
    return f'"{store.objects[MAN].headers["X-Object-Sysmeta-Slo-Etag"]}"'


def test_the_whole(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    answer = ask(slo, MAN)
    assert (answer.status, answer.body) == (200, DATA)
    assert answer.headers["Content-Length"] == str(len(DATA))
    assert answer.headers["Etag"] == whole_etag(store)
    assert answer.headers["X-Manifest-Etag"] == store.objects[MAN].etag
    assert answer.headers["X-Static-Large-Object"] == "True"
    # A copy of the whole would keep headers that apply to the manifest alone.
    assert not [name for name in answer.headers if "sysmeta" in name.lower()]
    assert store.calls == [
        f"GET {MAN}",
        "GET /v1/a/s/one-1?multipart-manifest=get",
        "GET /v1/a/s/wide?multipart-manifest=get",
        "GET /v1/a/s/three-3?multipart-manifest=get",
    ]
    assert store.requests[2]["HTTP_RANGE"] == "bytes=10-14"
    assert all(stream.is_closed for stream in store.streams)


def test_head_reads_no_segment(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    answer = ask(slo, MAN, "HEAD", {"Range": "bytes=0-1"})
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["Content-Length"] == str(len(DATA))
    assert answer.headers["Etag"] == whole_etag(store)
    assert store.calls == [f"HEAD {MAN}"]


@pytest.mark.parametrize("first", range(0, len(DATA), 3))
@pytest.mark.parametrize("length", [1, 4, 9, 40])
def test_every_range(ask: Ask, slo: Slo, first: int, length: int) -> None:
    answer = ask(slo, MAN, headers={"Range": f"bytes={first}-{first + length - 1}"})
    assert (answer.status, answer.body) == (206, DATA[first : first + length])
    last = min(first + length, len(DATA)) - 1
    assert answer.headers["Content-Range"] == f"bytes {first}-{last}/{len(DATA)}"
    assert answer.headers["Content-Length"] == str(len(answer.body))


def test_only_segments_of_the_range_are_read(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    assert ask(slo, MAN, headers={"Range": "bytes=-3"}).body == DATA[-3:]
    assert store.calls == [f"GET {MAN}", "GET /v1/a/s/three-3?multipart-manifest=get"]
    assert store.requests[1]["HTTP_RANGE"] == "bytes=4-6"


def test_several_ranges(ask: Ask, slo: Slo) -> None:
    answer = ask(slo, MAN, headers={"Range": "bytes=3-6,12-14"})
    assert answer.status == 206
    boundary = answer.headers["Content-Type"].partition("boundary=")[2].encode()
    assert answer.headers["Content-Length"] == str(len(answer.body))
    parts = [part.partition(b"\r\n\r\n")[2] for part in answer.body.split(b"--" + boundary)]
    assert parts == [b"", DATA[3:7] + b"\r\n", DATA[12:15] + b"\r\n", b""]


def test_a_range_beyond_the_end(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    store.objects[MAN].headers |= {"Content-Encoding": "gzip", "X-Object-Meta-A": "b"}
    answer = ask(slo, MAN, headers={"Range": "bytes=20-"})
    assert (answer.status, answer.headers["Content-Range"]) == (416, "bytes */20")
    assert answer.headers["X-Object-Meta-A"] == "b"
    assert "Content-Encoding" not in answer.headers, "the sentence is plain"


def test_conditions_speak_of_the_whole(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    etag = whole_etag(store)
    assert ask(slo, MAN, headers={"If-Match": etag}).body == DATA
    answer = ask(slo, MAN, headers={"If-None-Match": etag})
    assert (answer.status, answer.body) == (304, b"")
    assert answer.headers["Etag"] == etag
    answer = ask(slo, MAN, headers={"If-Match": store.objects[MAN].etag})
    assert (answer.status, answer.headers["Content-Length"]) == (412, "0")
    assert answer.headers["X-Manifest-Etag"] == store.objects[MAN].etag


def test_the_manifest(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    answer = ask(slo, f"{MAN}?multipart-manifest=get")
    assert answer.body == store.objects[MAN].body
    assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
    assert answer.headers["Etag"] == store.objects[MAN].etag
    head = ask(slo, f"{MAN}?multipart-manifest=get", "HEAD")
    assert head.headers["Content-Type"] == "application/json; charset=utf-8"
    known = {"If-None-Match": answer.headers["Etag"]}
    same = ask(slo, f"{MAN}?multipart-manifest=get", headers=known)
    assert (same.status, same.headers["Content-Type"]) == (304, "application/json; charset=utf-8")


def test_a_raw_manifest_can_be_put_again(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    answer = ask(slo, f"{MAN}?multipart-manifest=get&format=raw")
    assert answer.headers["Etag"] == md5(answer.body).hexdigest()
    assert answer.headers["Content-Length"] == str(len(answer.body))
    assert answer.headers["Content-Type"].startswith("application/octet-stream")
    assert put(ask, slo, "/v1/a/c/again", json.loads(answer.body)) == 201
    assert store.objects["/v1/a/c/again"].body == store.objects[MAN].body


def test_parts(ask: Ask, slo: Slo) -> None:
    bodies = []
    for number in (1, 2, 3, 4):
        answer = ask(slo, f"{MAN}?part-number={number}")
        assert answer.status == 206
        assert answer.headers["X-Parts-Count"] == "4"
        first = sum(map(len, bodies))
        bodies.append(answer.body)
        last = first + len(answer.body) - 1
        assert answer.headers["Content-Range"] == f"bytes {first}-{last}/20"
        head = ask(slo, f"{MAN}?part-number={number}", "HEAD")
        assert (head.status, head.body) == (206, b"")
        assert head.headers["Content-Range"] == answer.headers["Content-Range"]
        assert head.headers["X-Parts-Count"] == "4"
        assert head.headers["Content-Length"] == str(len(answer.body))
    assert b"".join(bodies) == DATA


@pytest.mark.parametrize(
    ("number", "headers", "status", "body"),
    [
        ("0", {}, 400, b"Part number must be an integer greater than 0"),
        ("-1", {}, 400, b"Part number must be an integer greater than 0"),
        ("x", {}, 400, b"Part number must be an integer greater than 0"),
        ("9" * 5000, {}, 400, b"Part number must be an integer greater than 0"),
        ("5", {}, 416, b"The requested part number is not satisfiable"),
        (
            "1",
            {"Range": "bytes=0-0"},
            400,
            b"Range requests are not supported with part number queries",
        ),
    ],
)
def test_part_numbers_that_are_refused(
    ask: Ask,
    slo: Slo,
    store: ObjectStore,
    number: str,
    headers: dict[str, str],
    status: int,
    body: bytes,
) -> None:
    answer = ask(slo, f"{MAN}?part-number={number}", headers=headers)
    assert (answer.status, answer.body) == (status, body)
    head = ask(slo, f"{MAN}?part-number={number}", "HEAD", headers)
    assert (head.status, head.body) == (status, b"")
    assert all(stream.is_closed for stream in store.streams)


def test_what_is_not_large_passes(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    path = "/v1/a/s/one-1"
    assert ask(slo, f"{path}?part-number=7").body == b"one-1"
    ignored = {"Range": "bytes=x"}
    assert ask(slo, f"{path}?part-number=7", headers=ignored).body == b"one-1"
    assert ask(slo, path, headers={"Range": "bytes=1-2"}).body == b"ne"
    assert ask(slo, "/v1/a/s/none").status == 404
    assert ask(slo, f"{path}?x=%ff").body == b"one-1"


def test_large_objects_within_large_objects(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    items = [
        {"path": "/s/three-3"},
        {"path": "/c/man", "range": "3-16"},
        {"path": "/c/man", "range": "0-0"},
    ]
    assert put(ask, slo, "/v1/a/c/outer", items) == 201
    expected = b"three-3" + DATA[3:17] + DATA[:1]
    del store.requests[:]
    assert ask(slo, "/v1/a/c/outer").body == expected
    # The inner manifest is read once, although two segments belong to it.
    assert store.calls.count(f"GET {MAN}?multipart-manifest=get") == 1
    for first in range(len(expected)):
        answer = ask(slo, "/v1/a/c/outer", headers={"Range": f"bytes={first}-{first + 4}"})
        assert answer.body == expected[first : first + 5]


def nest(ask: Ask, slo: Slo, depth: int) -> str:
    """Create a large object of ``depth`` levels of manifests; the innermost has one-1."""
    inner = "/s/one-1"
    for level in range(depth):
        assert put(ask, slo, f"/v1/a/c/level{level}", [{"path": inner}]) == 201
        inner = f"/c/level{level}"
    return f"/v1/a{inner}"


def test_levels_have_a_limit(ask: Ask, slo: Slo) -> None:
    assert ask(slo, nest(ask, slo, 10)).body == b"one-1"
    assert ask(slo, nest(ask, slo, 11)).status == 409


def test_an_inner_manifest_that_changed(ask: Ask, slo: Slo) -> None:
    assert put(ask, slo, "/v1/a/c/outer", [{"path": "/c/man"}]) == 201
    assert put(ask, slo, MAN, [{"path": "/s/one-1"}]) == 201
    assert ask(slo, "/v1/a/c/outer").status == 409


@pytest.mark.parametrize(("status", "told"), [(404, 409), (403, 409), (503, 503)])
def test_a_first_segment_that_cannot_be_had(
    ask: Ask, slo: Slo, store: ObjectStore, status: int, told: int
) -> None:
    store.failing["GET", "/v1/a/s/one-1"] = status
    answer = ask(slo, MAN)
    assert answer.status == told
    assert int(answer.headers["Content-Length"]) == len(answer.body)


@pytest.mark.parametrize("body", [b"one-2", b"one-10", b"one", b""])
def test_a_first_segment_that_changed(ask: Ask, slo: Slo, store: ObjectStore, body: bytes) -> None:
    store.add("/v1/a/s/one-1", body)
    assert ask(slo, MAN).status == 409
    assert ask(slo, MAN, "HEAD").status == 200
    assert ask(slo, MAN, headers={"Range": "bytes=1-2"}).status == 409
    assert ask(slo, MAN, headers={"Range": "bytes=5-9"}).body == b"two-2"


def read_until_error(slo: Slo, path: str) -> tuple[bytes, BaseException]:
    _, _, body = call_app(slo, Request.blank(path).environ)
    seen = b""
    try:
        for chunk in body:
            seen += chunk
    except (SegmentError, ConnectionError) as error:
        return seen, error
    finally:
        body.close()  # type: ignore[attr-defined]
    raise AssertionError(f"ended well: {seen!r}")


@pytest.mark.parametrize("body", [None, b"three-4", b"three"])
def test_a_later_segment_cuts_the_body(slo: Slo, store: ObjectStore, body: bytes | None) -> None:
    if body is None:
        del store.objects["/v1/a/s/three-3"]
    else:
        store.add("/v1/a/s/three-3", body)
    seen, error = read_until_error(slo, MAN)
    assert seen == DATA[:13]
    assert "three-3" in str(error)
    assert all(stream.is_closed for stream in store.streams)


class Lying(Stored):
    """An object with the ETag of another one."""

    @property
    def etag(self) -> str:
        return md5(b"three-3").hexdigest()


@pytest.mark.parametrize("body", [b"three", b"three-33"])
def test_a_body_of_another_length_than_it_said(slo: Slo, store: ObjectStore, body: bytes) -> None:
    store.objects["/v1/a/s/three-3"] = Lying(body, {"Content-Length": "7"})
    seen, error = read_until_error(slo, MAN)
    assert seen.startswith(DATA[:13])
    assert "three-3" in str(error)


def test_a_body_that_breaks_off(slo: Slo, store: ObjectStore) -> None:
    store.breaking["/v1/a/s/three-3"] = 4
    seen, error = read_until_error(slo, MAN)
    assert seen == DATA[:17]
    assert isinstance(error, ConnectionError)
    assert all(stream.is_closed for stream in store.streams)


def test_a_client_that_leaves_closes_the_segment(slo: Slo, store: ObjectStore) -> None:
    _, _, body = call_app(slo, Request.blank(MAN).environ)
    assert not store.streams[-1].is_closed
    body.close()  # type: ignore[attr-defined]
    assert [stream.is_closed for stream in store.streams] == [True, True]
    assert store.calls[-1].startswith("GET /v1/a/s/one-1")


@pytest.mark.parametrize("text", [b"{", b"[1]", b""])
def test_a_damaged_manifest(ask: Ask, slo: Slo, store: ObjectStore, text: bytes) -> None:
    store.objects[MAN].body = text
    for query in ("", "?multipart-manifest=get&format=raw"):
        answer = ask(slo, f"{MAN}{query}")
        assert (answer.status, answer.body) == (500, b"Unable to load SLO manifest")


def test_segments_are_authorised_as_the_client(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    client = {"REMOTE_USER": "a:user", "HTTP_REFERER": "http://x", "swift.authorize": "check"}
    assert ask(slo, MAN, environ=client).status == 200
    for environ in store.requests:
        assert {key: environ[key] for key in client} == client


def test_segments_are_in_the_account_of_the_target_of_a_symlink(
    ask: Ask, slo: Slo, store: ObjectStore
) -> None:
    def follow(environ: Any, start_response: Any) -> Any:
        """Behave like the symlink filter for /v1/b/l/link."""
        if environ["PATH_INFO"] != "/v1/b/l/link":
            return store(environ, start_response)
        environ = {**environ, "PATH_INFO": MAN}
        status, headers, body = call_app(store, environ)
        start_response(status, [*headers, ("Content-Location", MAN)])
        return body

    assert ask(Slo(follow, SloOptions()), "/v1/b/l/link").body == DATA


def test_old_manifests_have_no_etag_beside_them(ask: Ask, slo: Slo, store: ObjectStore) -> None:
    etag = whole_etag(store)
    for name in ("X-Object-Sysmeta-Slo-Etag", "X-Object-Sysmeta-Slo-Size"):
        del store.objects[MAN].headers[name]
    for method, body in (("GET", DATA), ("HEAD", b"")):
        answer = ask(slo, MAN, method)
        assert (answer.status, answer.body, answer.headers["Etag"]) == (200, body, etag)
        assert answer.headers["Content-Length"] == "20"
        assert ask(slo, MAN, method, {"If-None-Match": etag}).status == 304
        assert ask(slo, MAN, method, {"If-Match": etag}).status == 200
        unmet = ask(slo, MAN, method, {"If-Match": "x"})
        assert (unmet.status, unmet.headers["Content-Length"], unmet.body) == (412, "0", b"")
        assert ask(slo, MAN, method, {"If-Modified-Since": MODIFIED}).status == 304


def test_small_segments_have_their_pace(
    ask: Ask, store: ObjectStore, slo: Slo, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(round(seconds, 3))
        now[0] += seconds

    monkeypatch.setattr(segments.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(segments.time, "sleep", sleep)
    options = SloOptions(
        rate_limit_after_segment=2, rate_limit_segments_per_sec=4, rate_limit_under_size=6
    )
    paced = Slo(store, options)
    items = [{"path": "/s/one-1"}, {"path": "/s/two-2"}] * 3 + [{"path": "/s/three-3"}]
    assert put(ask, paced, MAN, items) == 201
    assert ask(paced, MAN).body == b"one-1two-2" * 3 + b"three-3"
    # Two without a wait, then the rate limit starts with the third; three-3 is not small.
    assert slept == [0.25, 0.25, 0.25]


def test_a_get_has_its_time(slo: Slo, store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(segments.time, "monotonic", lambda: now[0])
    _, _, body = call_app(Slo(store, SloOptions(max_get_time=60)), Request.blank(MAN).environ)
    chunks = iter(body)
    assert next(chunks) == b"one-"
    now[0] += 61
    with pytest.raises(SegmentError, match="max_get_time"):
        list(chunks)

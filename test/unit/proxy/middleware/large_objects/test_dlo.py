"""Dynamic large objects over a store in memory."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import md5
from typing import Any

import pytest
from object_store import MODIFIED, ObjectStore

from martlet.http.call import call_app
from martlet.http.request import Request
from proxy.middleware.large_objects.dlo import Dlo, DloOptions, filter_factory
from proxy.middleware.large_objects.segments import SegmentError

MAN = "/v1/a/c/man"
DATA = b"aaaaabbbbbccccc"
Ask = Callable[..., Any]


@pytest.fixture
def store() -> ObjectStore:
    store = ObjectStore()
    for name in "abc":
        store.add(f"/v1/a/s/x/{name}", name.encode() * 5)
    store.add("/v1/a/s/other", b"no segment")
    store.add(MAN, b"bytes of the manifest", x_object_manifest="s/x%2F", x_object_meta_a="b")
    return store


@pytest.fixture
def dlo(store: ObjectStore) -> Dlo:
    return Dlo(store, DloOptions(), store.page_size)


def paged(store: ObjectStore, page_size: int) -> Dlo:
    store.page_size = page_size
    return Dlo(store, DloOptions(), page_size)


def etag_of(*parts: bytes) -> str:
    etags = "".join(md5(part).hexdigest() for part in parts)
    return f'"{md5(etags.encode()).hexdigest()}"'


ETAG = etag_of(b"aaaaa", b"bbbbb", b"ccccc")


def test_the_whole(ask: Ask, dlo: Dlo, store: ObjectStore) -> None:
    answer = ask(dlo, MAN)
    assert (answer.status, answer.body) == (200, DATA)
    assert answer.headers["Content-Length"] == "15"
    assert answer.headers["Etag"] == ETAG
    assert answer.headers["X-Object-Manifest"] == "s/x%2F"
    assert answer.headers["X-Object-Meta-A"] == "b"
    assert store.calls == [
        f"GET {MAN}",
        "GET /v1/a/s?format=json&prefix=x%2F&marker=",
        *[f"GET /v1/a/s/x/{name}?multipart-manifest=get" for name in "abc"],
    ]
    assert all(stream.is_closed for stream in store.streams)


def test_head(ask: Ask, dlo: Dlo, store: ObjectStore) -> None:
    answer = ask(dlo, MAN, "HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert (answer.headers["Content-Length"], answer.headers["Etag"]) == ("15", ETAG)
    assert len(store.calls) == 2


@pytest.mark.parametrize(
    ("header", "status", "first", "last"),
    [
        ("bytes=0-0", 206, 0, 0),
        ("bytes=3-11", 206, 3, 11),
        ("bytes=5-", 206, 5, 14),
        ("bytes=-2", 206, 13, 14),
        ("bytes=14-99", 206, 14, 14),
        ("bytes=0-1,5-6", 200, 0, 14),
        ("nonsense", 200, 0, 14),
    ],
)
def test_ranges(ask: Ask, dlo: Dlo, header: str, status: int, first: int, last: int) -> None:
    answer = ask(dlo, MAN, headers={"Range": header})
    assert (answer.status, answer.body) == (status, DATA[first : last + 1])
    assert answer.headers["Content-Length"] == str(len(answer.body))
    if status == 206:
        assert answer.headers["Content-Range"] == f"bytes {first}-{last}/15"


def test_a_range_beyond_the_end(ask: Ask, dlo: Dlo) -> None:
    answer = ask(dlo, MAN, headers={"Range": "bytes=15-"})
    assert (answer.status, answer.headers["Content-Range"]) == (416, "bytes */15")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_conditions_speak_of_the_whole(ask: Ask, dlo: Dlo, store: ObjectStore, method: str) -> None:
    own = store.objects[MAN].etag
    for name, value, status in [
        ("If-Match", ETAG, 200),
        ("If-Match", own, 412),
        ("If-None-Match", ETAG, 304),
        ("If-None-Match", own, 200),
        ("If-Modified-Since", MODIFIED, 304),
    ]:
        answer = ask(dlo, MAN, method, {name: value})
        assert (answer.status, answer.headers["Etag"]) == (status, ETAG), name
        assert answer.body == (DATA if (status, method) == (200, "GET") else answer.body)


def test_a_condition_that_the_manifest_itself_meets(ask: Ask, dlo: Dlo, store: ObjectStore) -> None:
    store.objects[MAN].headers["Content-Type"] = "video/x"
    answer = ask(dlo, MAN, headers={"If-None-Match": store.objects[MAN].etag})
    assert (answer.status, answer.headers["Content-Type"]) == (200, "video/x")
    assert answer.body
    assert len([call for call in store.calls if call.endswith(MAN)]) == 1


def test_the_manifest_itself(ask: Ask, dlo: Dlo) -> None:
    answer = ask(dlo, f"{MAN}?multipart-manifest=get")
    assert answer.body == b"bytes of the manifest"


@pytest.mark.parametrize("page_size", [1, 2, 3, 4])
def test_pages_of_the_listing(ask: Ask, store: ObjectStore, page_size: int) -> None:
    dlo = paged(store, page_size)
    answer = ask(dlo, MAN)
    assert (answer.status, answer.body) == (200, DATA)
    is_known = page_size > 3
    assert ("Etag" in answer.headers) == ("Content-Length" in answer.headers) == is_known
    assert ("Content-Length" in ask(dlo, MAN, "HEAD").headers) == is_known


@pytest.mark.parametrize(
    ("header", "status", "body"),
    [
        ("bytes=1-8", 206, DATA[1:9]),  # within the first page
        ("bytes=1-10", 200, DATA),  # may reach beyond the first page
        ("bytes=1-", 200, DATA),
        ("bytes=-3", 200, DATA),
        ("bytes=12-13", 200, DATA),
    ],
)
def test_ranges_where_the_size_is_not_known(
    ask: Ask, store: ObjectStore, header: str, status: int, body: bytes
) -> None:
    answer = ask(paged(store, 2), MAN, headers={"Range": header})
    assert (answer.status, answer.body) == (status, body)
    if status == 206:
        assert answer.headers["Content-Range"] == "bytes 1-8/*"


def test_no_segments(ask: Ask, dlo: Dlo, store: ObjectStore) -> None:
    store.objects[MAN].headers["X-Object-Manifest"] = "s/none"
    answer = ask(dlo, MAN)
    assert (answer.status, answer.body, answer.headers["Content-Length"]) == (200, b"", "0")
    assert ask(dlo, MAN, headers={"Range": "bytes=0-"}).status == 416
    assert ask(dlo, MAN, headers={"Range": "bytes=0-0,1-1"}).status == 200


@pytest.mark.parametrize("status", [401, 403, 404, 503])
def test_a_listing_that_cannot_be_had(ask: Ask, dlo: Dlo, store: ObjectStore, status: int) -> None:
    store.failing["GET", "/v1/a/s"] = status
    assert ask(dlo, MAN).status == status
    assert ask(dlo, MAN, "HEAD").body == b""


def test_a_first_segment_that_is_gone(ask: Ask, dlo: Dlo, store: ObjectStore) -> None:
    store.failing["GET", "/v1/a/s/x/a"] = 404
    assert ask(dlo, MAN).status == 409


def test_a_later_page_that_cannot_be_had(store: ObjectStore) -> None:
    _, _, body = call_app(paged(store, 2), Request.blank(MAN).environ)
    chunks = iter(body)
    assert next(chunks) == b"aaaa"
    store.failing["GET", "/v1/a/s"] = 503
    with pytest.raises(SegmentError, match="listing"):
        list(chunks)


def test_names_beyond_ascii(ask: Ask, dlo: Dlo, store: ObjectStore) -> None:
    store.add("/v1/a/s/\xc3\xa9/1", b"one")
    store.objects[MAN].headers["X-Object-Manifest"] = "s/%C3%A9/"
    assert ask(dlo, MAN).body == b"one"


def test_a_manifest_that_names_no_text(ask: Ask, dlo: Dlo, store: ObjectStore) -> None:
    store.objects[MAN].headers["X-Object-Manifest"] = "s/%ff"
    assert (ask(dlo, MAN).status, ask(dlo, MAN).body) == (200, b"")
    store.failing["GET", "/v1/a/\xff"] = 412
    store.objects[MAN].headers["X-Object-Manifest"] = "%ff/x"
    assert ask(dlo, MAN).status == 412


@pytest.mark.parametrize("method", ["PUT", "POST"])
@pytest.mark.parametrize(
    ("value", "is_good"),
    [
        ("c/p", True),
        ("c/p/q%20r", True),
        ("", False),
        ("c", False),
        ("c/", False),
        ("/c/p", False),
        ("c//p", False),
        ("c%2F%2Fp", False),
        ("c/p?x", False),
        ("c/p&x", False),
    ],
)
def test_the_header(ask: Ask, dlo: Dlo, method: str, value: str, is_good: bool) -> None:
    answer = ask(dlo, MAN, method, {"X-Object-Manifest": value})
    if is_good:
        assert answer.status in (201, 202)
    else:
        assert answer.status == 400
        assert answer.body == b"X-Object-Manifest must be in the format container/prefix"


def test_what_is_left_alone(ask: Ask, dlo: Dlo, store: ObjectStore) -> None:
    assert ask(dlo, "/v1/a/s/other").body == b"no segment"
    assert ask(dlo, MAN, "DELETE").status == 204
    assert ask(dlo, "/v1/a/s").status == 200
    assert ask(dlo, "/v1/a/c/none").status == 404


def test_the_factory_makes_the_filter(store: ObjectStore, tmp_path: Any) -> None:
    (tmp_path / "martlet.conf").write_text(
        "[grid]\ngrid_secret = none\n[swift-hash]\nswift_hash_path_suffix = x\n"
    )
    dlo = filter_factory({"swift_dir": str(tmp_path)}, max_get_time="5")(store)
    assert isinstance(dlo, Dlo)

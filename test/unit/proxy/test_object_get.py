"""Reading objects: which replica answers, and going on where one broke off."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from fake_cluster import FakeCluster, MakeCluster
from fake_devices import GARBAGE, HANG_UP, SILENT, Stored
from hypothesis import given
from hypothesis import strategies as st
from patience import patiently

from martlet.http.backend_client import BackendError
from proxy.controllers.object_get import clean_content_type, replace_in_stream, skip_bytes

BODY = bytes(range(256)) * 1024  # 256 KiB: more than goes out in one piece


@pytest.fixture(params=[True, False], ids=["grid", "http"])
def has_grid(request: pytest.FixtureRequest) -> bool:
    """Nothing is different for servers without the grid."""
    has_grid: bool = request.param
    return has_grid


@pytest.fixture
def stored(cluster: FakeCluster) -> Any:
    """The cluster with /v1/a/c/o = BODY."""
    assert cluster.call("PUT", "/v1/a/c/o", BODY, {"X-Object-Meta-Color": "red"}).status == 201
    cluster.forget()
    return cluster


def test_get_and_head(stored: FakeCluster) -> None:
    reply = stored.call("GET", "/v1/a/c/o")
    assert (reply.status, reply.body) == (200, BODY)
    assert reply.headers["content-length"] == str(len(BODY))
    assert reply.headers["accept-ranges"] == "bytes"
    assert reply.headers["x-object-meta-color"] == "red"
    assert re.fullmatch(r"[0-9a-f]{32}", reply.headers["etag"])
    head = stored.call("HEAD", "/v1/a/c/o")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(BODY))


def test_one_replica_is_enough(stored: FakeCluster) -> None:
    stored.call("GET", "/v1/a/c/o")
    assert sum(any("/o" in s.path for s in d.seen) for d in stored.devices) == 1


@pytest.mark.parametrize("fault", [HANG_UP, GARBAGE, 500, 503, 507])
def test_next_replica_when_two_fail(stored: FakeCluster, fault: Any) -> None:
    for device in stored.devices[:2]:
        device.fault = fault
    assert stored.call("GET", "/v1/a/c/o").body == BODY


def test_silent_replica_is_left_after_the_read_timeout(make_cluster: MakeCluster) -> None:
    def attempt(timeout: float) -> None:
        cluster = make_cluster(recoverable_node_timeout=timeout)
        cluster.make_container()
        cluster.call("PUT", "/v1/a/c/o", b"data")
        for device in cluster.devices[:2]:
            device.fault = lambda seen: SILENT if seen.path.endswith("/o") else None
        assert cluster.call("GET", "/v1/a/c/o").body == b"data"

    patiently(attempt)


def test_handoff_is_found(stored: FakeCluster) -> None:
    device = stored.devices[3]
    device.stored["/a/c/o"] = stored.devices[0].stored["/a/c/o"]
    for primary in stored.devices[:3]:
        del primary.stored["/a/c/o"]
    assert stored.call("GET", "/v1/a/c/o").body == BODY


def test_missing_is_404_after_all_were_asked(cluster: FakeCluster) -> None:
    assert cluster.call("GET", "/v1/a/c/o").status == 404
    asked = [d.name for d in cluster.devices if any(s.path.endswith("/o") for s in d.seen)]
    assert asked == ["sd0", "sd1", "sd2", "sd3"]


def test_one_404_among_errors_is_not_believed(cluster: FakeCluster) -> None:
    for device in cluster.devices[1:]:
        device.fault = lambda seen: 503 if seen.path.endswith("/o") else None
    assert cluster.call("GET", "/v1/a/c/o").status == 503


def test_tombstone_hides_an_older_copy(stored: FakeCluster) -> None:
    for device in stored.devices[:2]:
        device.stored["/a/c/o"] = Stored("9999999999.00000", is_deleted=True)
    for _ in range(8):  # the order of replicas is random
        status = stored.call("GET", "/v1/a/c/o", headers={"X-Newest": "true"}).status
        assert status == 404


def test_newest_copy_wins(stored: FakeCluster) -> None:
    old = stored.devices[1].stored["/a/c/o"]
    new = Stored("9999999999.00000", {**old.headers, "Etag": '"new"'}, b"new")
    stored.devices[1].stored["/a/c/o"] = new
    for _ in range(8):
        assert stored.call("GET", "/v1/a/c/o", headers={"X-Newest": "true"}).body == b"new"


@pytest.mark.parametrize("cut", [0, 1, 1000, len(BODY) - 1])
def test_goes_on_at_another_replica(stored: FakeCluster, cut: int) -> None:
    stored.devices[0].cut_after = cut
    stored.devices[1].cut_after = cut
    for _ in range(6):
        reply = stored.call("GET", "/v1/a/c/o")
        assert (reply.status, reply.body) == (200, BODY)


@pytest.mark.parametrize("asked", ["bytes=1000-100999", "bytes=-100000", "bytes=162144-"])
@pytest.mark.parametrize("cut", [0, 70_000])
def test_range_goes_on_at_another_replica(stored: FakeCluster, asked: str, cut: int) -> None:
    whole = stored.call("GET", "/v1/a/c/o", headers={"Range": asked})
    assert whole.status == 206
    for device in stored.devices[:2]:
        device.cut_after = cut
    for _ in range(4):
        reply = stored.call("GET", "/v1/a/c/o", headers={"Range": asked})
        assert (reply.status, reply.body) == (206, whole.body)
        assert reply.headers["content-range"] == whole.headers["content-range"]


@pytest.mark.parametrize("cut", [0, 20, 100, 50_000, 120_000])
def test_several_ranges_go_on_at_another_replica(stored: FakeCluster, cut: int) -> None:
    asked = {"Range": "bytes=0-99999,150000-199999,-10"}
    stored.devices[0].cut_after = cut
    stored.devices[1].cut_after = cut
    for _ in range(4):
        reply = stored.call("GET", "/v1/a/c/o", headers=asked)
        assert reply.status == 206
        boundary = reply.headers["content-type"].partition("boundary=")[2]
        parts = reply.body.split(f"--{boundary}".encode())
        found = [part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n") for part in parts[1:-1]]
        assert found == [BODY[:100_000], BODY[150_000:200_000], BODY[-10:]]
        assert reply.headers["content-length"] == str(len(reply.body))


def test_never_goes_on_in_another_version(stored: FakeCluster) -> None:
    """Only the cut replica has this version: the client must see a body cut short."""
    old = stored.devices[0].stored["/a/c/o"]
    for device in stored.devices[1:3]:
        device.stored["/a/c/o"] = Stored(old.timestamp, {**old.headers, "Etag": '"o"'}, BODY[::-1])
    stored.devices[0].cut_after = 70_000
    only_first = {"sd1": 503, "sd2": 503}
    began = []

    def fail_first(name: str) -> Any:
        def fault(seen: Any) -> int | None:
            return None if began else only_first[name]

        return fault

    for device in stored.devices[1:3]:
        device.fault = fail_first(device.name)
    stored.devices[0].fault = lambda seen: began.append(seen) if "/o" in seen.path else None
    with pytest.raises(BackendError):
        stored.call("GET", "/v1/a/c/o")


def test_small_body_that_cannot_be_completed_is_503(cluster: FakeCluster) -> None:
    cluster.call("PUT", "/v1/a/c/o", b"x" * 1000)
    for device in cluster.devices:
        device.cut_after = 100
    assert cluster.call("GET", "/v1/a/c/o").status == 503


def test_range_that_cannot_be_served(stored: FakeCluster) -> None:
    reply = stored.call("GET", "/v1/a/c/o", headers={"Range": f"bytes={len(BODY)}-"})
    assert reply.status == 416


def test_conditional_get(stored: FakeCluster) -> None:
    etag = stored.call("HEAD", "/v1/a/c/o").headers["etag"]
    reply = stored.call("GET", "/v1/a/c/o", headers={"If-None-Match": etag})
    assert (reply.status, reply.body) == (304, b"")
    assert reply.headers["content-type"] == "application/octet-stream"


def test_what_swift_keeps_in_a_content_type_is_not_shown(stored: FakeCluster) -> None:
    for device in stored.devices[:3]:
        device.stored["/a/c/o"].headers["Content-Type"] = "a/b;swift_bytes=15"
    etag = stored.call("HEAD", "/v1/a/c/o").headers["etag"]
    for headers, status in (
        ({}, 200),
        ({"If-None-Match": etag}, 304),
        ({"If-Match": "x"}, 412),
    ):
        reply = stored.call("GET", "/v1/a/c/o", headers=headers)
        assert (reply.status, reply.headers["content-type"]) == (status, "a/b")


@pytest.mark.parametrize(("allowed", "opened"), [(True, ["true"]), (False, [])])
def test_expired_objects_are_opened_only_where_that_is_allowed(
    make_cluster: MakeCluster, allowed: bool, opened: list[str]
) -> None:
    cluster = make_cluster(allow_open_expired=allowed)
    cluster.make_container()
    for method in ("GET", "HEAD", "POST"):
        cluster.forget()
        cluster.call(method, "/v1/a/c/o", headers={"X-Open-Expired": "yes"})
        cluster.call(method, "/v1/a/c/o")
        seen = [s for d in cluster.devices for s in d.seen if s.path.endswith("/o")]
        values = {s.headers.get("x-backend-open-expired") for s in seen} - {None}
        assert sorted(filter(None, values)) == opened
        assert not any("x-open-expired" in s.headers for s in seen)


def test_abandoned_download_does_not_leak_into_the_next(stored: FakeCluster) -> None:
    from martlet.http.call import call_app
    from martlet.http.request import Request

    req = Request.blank("/v1/a/c/o")
    _, _, chunks = call_app(stored.app, req.environ)
    next(iter(chunks))
    chunks.close()
    assert stored.call("GET", "/v1/a/c/o").body == BODY


@pytest.mark.parametrize(
    ("stored_type", "shown"),
    [
        ("text/plain", "text/plain"),
        ("text/plain;charset=utf-8", "text/plain;charset=utf-8"),
        ("text/plain;swift_bytes=5;charset=utf-8", "text/plain;charset=utf-8"),
    ],
)
def test_content_type_without_our_own_parameters(stored_type: str, shown: str) -> None:
    assert clean_content_type(stored_type) == shown


def cut(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    for size in sizes:
        if data:
            yield data[:size]
            data = data[size:]
    if data:
        yield data


@given(
    words=st.lists(st.sampled_from([b"--abc", b"--ab", b"c", b"-", b"x"]), max_size=30),
    sizes=st.lists(st.integers(1, 7), max_size=40),
)
def test_replacement_does_not_depend_on_the_pieces(words: list[bytes], sizes: list[int]) -> None:
    data = b"".join(words)
    replaced = b"".join(replace_in_stream(cut(data, sizes), b"--abc", b"++XYZ"))
    assert replaced == data.replace(b"--abc", b"++XYZ")


@given(data=st.binary(max_size=50), sizes=st.lists(st.integers(1, 9)), count=st.integers(0, 60))
def test_skipped_bytes(data: bytes, sizes: list[int], count: int) -> None:
    assert b"".join(skip_bytes(cut(data, sizes), count)) == data[count:]


@pytest.mark.parametrize("newest", [0, 1, 2])
def test_of_several_refusals_the_newest_counts(cluster: FakeCluster, newest: int) -> None:
    """One replica knows a delete marker, the others an older removal."""
    for number, device in enumerate(cluster.devices[:3]):
        device.fault = 404
        device.fault_headers = {"X-Backend-Timestamp": "0000000001.00000"}
        if number == newest:
            device.fault_headers = {
                "X-Backend-Timestamp": "0000000002.00000",
                "X-Backend-Version-Marker": "true",
            }
    answer = cluster.call("HEAD", "/v1/a/c/o", headers={"X-Newest": "true"})
    assert (answer.status, answer.headers.get("x-backend-version-marker")) == (404, "true")

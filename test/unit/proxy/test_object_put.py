"""Storing objects: quorum, hand-offs, and devices that fail at every point."""

from __future__ import annotations

import hashlib
from io import BytesIO
from typing import Any

import google_crc32c
import pytest
from fake_cluster import FakeCluster, MakeCluster
from fake_devices import (
    GARBAGE,
    HANG_UP,
    HANG_UP_IN_BODY,
    SILENT,
    STALL,
    STALL_IN_ANSWER,
    Seen,
    lose_first_answer,
)
from patience import patiently

from martlet.conf.constraints import Constraints
from martlet.http.environ import SENT_BEFORE

SMALL = b"x" * 4096
LARGE = bytes(range(256)) * 4096  # 1 MiB
SIZES = pytest.mark.parametrize("body", [b"", SMALL, LARGE], ids=["empty", "small", "large"])


@pytest.fixture(params=[True, False], ids=["grid", "http"])
def has_grid(request: pytest.FixtureRequest) -> bool:
    """Nothing is different for servers without the grid."""
    has_grid: bool = request.param
    return has_grid


class ChunkedBody:
    """A body of unknown length."""

    def __init__(self, body: bytes) -> None:
        self._stream = BytesIO(body)

    def read(self, size: int = -1) -> bytes:
        return self._stream.read(size)


class BrokenBody:
    """A body that ends in an error, or is cut short by b''."""

    def __init__(self, chunks: list[bytes | Exception]) -> None:
        self._chunks = chunks

    def read(self, size: int = -1) -> bytes:
        chunk = self._chunks.pop(0) if self._chunks else b""
        if isinstance(chunk, Exception):
            raise chunk
        return chunk


@SIZES
def test_every_primary_stores_the_whole_object(cluster: FakeCluster, body: bytes) -> None:
    reply = cluster.call("PUT", "/v1/a/c/o", body, {"X-Object-Meta-Color": "red"})
    assert reply.status == 201
    assert reply.headers["etag"] == hashlib.md5(body).hexdigest()
    assert reply.headers["last-modified"].endswith("GMT")
    assert cluster.holders("/a/c/o") == ["sd0", "sd1", "sd2"]
    for device in cluster.devices[:3]:
        assert device.stored["/a/c/o"].body == body
        assert device.last("PUT").headers["x-object-meta-color"] == "red"


@SIZES
def test_chunked_body(cluster: FakeCluster, body: bytes) -> None:
    reply = cluster.call("PUT", "/v1/a/c/o", ChunkedBody(body), {"Transfer-Encoding": "chunked"})
    assert reply.status == 201
    assert [d.stored["/a/c/o"].body for d in cluster.devices[:3]] == [body] * 3


def test_small_body_is_one_message_without_expect(cluster: FakeCluster) -> None:
    cluster.call("PUT", "/v1/a/c/o", SMALL)
    assert ["expect" in d.last("PUT").headers for d in cluster.devices[:3]] == [False] * 3


def test_each_replica_tells_one_container_replica(cluster: FakeCluster) -> None:
    cluster.call("PUT", "/v1/a/c/o", SMALL)
    told = [d.last("PUT").headers["x-container-host"] for d in cluster.devices[:3]]
    assert sorted(told) == sorted(f"127.0.0.1:{d.port}" for d in cluster.devices[:3])
    assert {d.last("PUT").headers["x-container-partition"] for d in cluster.devices[:3]} == {"7"}


@SIZES
@pytest.mark.parametrize("fault", [HANG_UP, HANG_UP_IN_BODY, GARBAGE, 507, 500, 503])
def test_handoff_replaces_a_failed_device_or_quorum_is_enough(
    cluster: FakeCluster, body: bytes, fault: Any
) -> None:
    cluster.devices[1].fault = fault
    reply = cluster.call("PUT", "/v1/a/c/o", body)
    assert reply.status == 201
    holders = cluster.holders("/a/c/o")
    assert "sd1" not in holders
    assert {"sd0", "sd2"} <= set(holders)
    # What fails before it took a part of the body is always replaced.
    if not (fault == HANG_UP_IN_BODY and body is LARGE):
        assert holders == ["sd0", "sd2", "sd3"]


@SIZES
def test_dead_device_is_replaced(cluster: FakeCluster, body: bytes) -> None:
    cluster.devices[0].stop()
    assert cluster.call("PUT", "/v1/a/c/o", body).status == 201
    assert cluster.holders("/a/c/o") == ["sd1", "sd2", "sd3"]


def told_by_object_servers(cluster: FakeCluster, method: str) -> list[str]:
    """The ports of the container servers that devices which did ``method`` were to tell."""
    return [
        seen.headers["x-container-host"].rpartition(":")[2]
        for device in cluster.devices
        for seen in device.seen
        if seen.method == method and "x-container-host" in seen.headers and not device.fault
    ]


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize("body", [SMALL, LARGE], ids=["small", "large"])
def test_proxy_tells_the_container_replicas_of_a_device_without_replacement(
    make_cluster: MakeCluster, method: str, body: bytes
) -> None:
    cluster = make_cluster(devices=3)
    cluster.make_container()
    if method == "DELETE":
        assert cluster.call("PUT", "/v1/a/c/o", body).status == 201
        cluster.forget()
    cluster.devices[1].fault = lambda seen: HANG_UP if "x-container-host" in seen.headers else None
    assert cluster.call(method, "/v1/a/c/o", body).status in (201, 204)
    rows = [
        (str(device.port), seen.headers)
        for device in cluster.devices
        for seen in device.seen
        if seen.method == method and "x-container-host" not in seen.headers
    ]
    told = told_by_object_servers(cluster, method) + [port for port, _ in rows]
    assert sorted(told) == sorted(str(device.port) for device in cluster.devices)
    (_, row) = rows[0]
    assert row["x-backend-storage-policy-index"] == "0"
    if method == "PUT":
        written = cluster.devices[0].last("PUT").headers
        assert row["x-timestamp"] == written["x-timestamp"]
        assert row["x-content-type"] == written["content-type"]
        assert row["x-size"] == str(len(body))
        assert row["x-etag"] == hashlib.md5(body).hexdigest()


@SIZES
def test_no_quorum_is_503(cluster: FakeCluster, body: bytes) -> None:
    for device in cluster.devices[:2]:
        device.fault = 503
    cluster.devices[3].stop()
    assert cluster.call("PUT", "/v1/a/c/o", body).status == 503


@pytest.mark.parametrize("body", [SMALL, LARGE], ids=["small", "large"])
def test_silent_device_is_waited_for_no_longer_than_the_straggler_time(
    make_cluster: MakeCluster, body: bytes
) -> None:
    def attempt(timeout: float) -> None:
        cluster = make_cluster(devices=3, node_timeout=timeout)
        cluster.make_container()
        cluster.devices[0].fault = SILENT
        assert cluster.call("PUT", "/v1/a/c/o", body).status == 201
        assert cluster.holders("/a/c/o") == ["sd1", "sd2"]

    patiently(attempt)


@pytest.mark.parametrize("body", [SMALL, LARGE], ids=["small", "large"])
def test_answer_that_stops_in_the_middle_counts_as_none(
    make_cluster: MakeCluster, body: bytes
) -> None:
    def attempt(timeout: float) -> None:
        cluster = make_cluster(node_timeout=timeout)
        cluster.make_container()
        cluster.devices[0].fault = lambda seen: STALL_IN_ANSWER if seen.method == "PUT" else None
        assert cluster.call("PUT", "/v1/a/c/o", body).status == 201
        assert cluster.holders("/a/c/o") == ["sd1", "sd2", "sd3"]

    patiently(attempt)


def test_error_after_a_large_body_is_noted(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    device = cluster.devices[1]
    device._act = lambda seen: (507, {}, b"")
    assert cluster.call("PUT", "/v1/a/c/o", LARGE).status == 201
    assert "status=507" in caplog.text
    assert cluster.app.core.backends.health.is_suppressed(device.node)


def test_silent_device_is_replaced_before_a_large_body(make_cluster: MakeCluster) -> None:
    def attempt(timeout: float) -> None:
        cluster = make_cluster(node_timeout=60.0, post_quorum_timeout=timeout)
        cluster.make_container()
        cluster.devices[0].fault = lambda seen: SILENT if seen.method == "PUT" else None
        assert cluster.call("PUT", "/v1/a/c/o", LARGE).status == 201
        assert cluster.holders("/a/c/o") == ["sd1", "sd2", "sd3"]

    patiently(attempt)


def test_stalled_device_is_dropped_in_mid_stream(make_cluster: MakeCluster) -> None:
    def attempt(timeout: float) -> None:
        cluster = make_cluster(node_timeout=timeout)
        cluster.make_container()
        cluster.devices[2].fault = STALL
        body = LARGE * 16  # more than sockets and queue hold
        assert cluster.call("PUT", "/v1/a/c/o", body).status == 201
        assert cluster.holders("/a/c/o") == ["sd0", "sd1"]

    patiently(attempt)


def test_quorum_lost_in_mid_stream_is_503_and_nothing_is_kept(cluster: FakeCluster) -> None:
    for device in cluster.devices[1:3]:
        device.fault = HANG_UP_IN_BODY
    assert cluster.call("PUT", "/v1/a/c/o", LARGE * 16).status == 503
    assert cluster.holders("/a/c/o") == []


def test_newer_object_makes_it_202(cluster: FakeCluster) -> None:
    cluster.call("PUT", "/v1/a/c/o", SMALL)
    for body in (SMALL, LARGE):
        reply = cluster.call("PUT", "/v1/a/c/o", body, {"X-Timestamp": "0000000001.00000"})
        assert reply.status == 202
    assert cluster.devices[0].stored["/a/c/o"].body == SMALL


def test_if_none_match_star(cluster: FakeCluster) -> None:
    headers = {"If-None-Match": "*"}
    assert cluster.call("PUT", "/v1/a/c/o", SMALL, headers).status == 201
    assert cluster.call("PUT", "/v1/a/c/o", b"other", headers).status == 412
    assert cluster.devices[0].stored["/a/c/o"].body == SMALL
    assert cluster.call("PUT", "/v1/a/c/o", SMALL, {"If-None-Match": "e"}).status == 400


def test_if_none_match_found_by_one_replica_stores_nowhere(cluster: FakeCluster) -> None:
    cluster.call("PUT", "/v1/a/c/o", SMALL)
    for device in cluster.devices[1:3]:
        del device.stored["/a/c/o"]
    assert cluster.call("PUT", "/v1/a/c/o", b"new", {"If-None-Match": "*"}).status == 412
    assert cluster.holders("/a/c/o") == ["sd0"]


@pytest.mark.parametrize("body", [SMALL, LARGE], ids=["small", "large"])
def test_wrong_etag_is_422(cluster: FakeCluster, body: bytes) -> None:
    reply = cluster.call("PUT", "/v1/a/c/o", body, {"Etag": "0" * 32})
    assert (reply.status, b"not the MD5 of the body" in reply.body) == (422, True)
    assert cluster.holders("/a/c/o") == []


@pytest.mark.parametrize("given", [{}, {"Etag": hashlib.md5(SMALL).hexdigest().upper()}])
def test_the_sums_of_a_small_body_are_taken_once(
    cluster: FakeCluster, given: dict[str, str]
) -> None:
    assert cluster.call("PUT", "/v1/a/c/o", SMALL, given).status == 201
    for device in cluster.devices[:3]:
        headers = device.last("PUT").headers
        assert headers["etag"] == hashlib.md5(SMALL).hexdigest()
        assert headers["x-backend-body-checksum"] == f"crc32c={google_crc32c.value(SMALL):08x}"


@pytest.mark.parametrize("length", [4096, 1 << 20])
def test_client_that_goes_away_leaves_nothing(cluster: FakeCluster, length: int) -> None:
    headers = {"Content-Length": str(length)}
    assert cluster.call("PUT", "/v1/a/c/o", BrokenBody([b"half"]), headers).status == 499
    body = BrokenBody([b"half", ConnectionResetError()])
    assert cluster.call("PUT", "/v1/a/c/o", body, headers).status == 499
    assert cluster.holders("/a/c/o") == []
    for device in cluster.devices:
        assert not any(seen.whole for seen in device.seen if seen.method == "PUT")


@pytest.mark.parametrize("length", [4096, 1 << 20])
def test_client_that_stops_sending_is_408(cluster: FakeCluster, length: int) -> None:
    headers = {"Content-Length": str(length)}
    body = BrokenBody([b"half", TimeoutError()])
    assert cluster.call("PUT", "/v1/a/c/o", body, headers).status == 408
    assert cluster.holders("/a/c/o") == []


def test_bad_chunk_is_400(cluster: FakeCluster) -> None:
    body = BrokenBody([b"half", ValueError("bad chunk size")])
    headers = {"Transfer-Encoding": "chunked"}
    assert cluster.call("PUT", "/v1/a/c/o", body, headers).status == 400
    assert cluster.holders("/a/c/o") == []


def test_length_limits(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(constraints=Constraints(max_file_size=100_000))
    cluster.make_container()
    assert cluster.call("PUT", "/v1/a/c/o", b"x" * 100_001).status == 413
    chunked = {"Transfer-Encoding": "chunked"}
    assert cluster.call("PUT", "/v1/a/c/o", ChunkedBody(b"x" * 100_001), chunked).status == 413
    assert cluster.call("PUT", "/v1/a/c/o", ChunkedBody(b"")).status == 411
    assert cluster.holders("/a/c/o") == []
    assert cluster.call("PUT", "/v1/a/c/o", b"x" * 100_000).status == 201


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/a/c/" + "n" * 1025, 400),
        ("/v1/a/c/%FF", 412),
        ("/v1/a/c/%00", 412),
        ("/v1/a/missing/o", 404),
    ],
)
def test_bad_names(cluster: FakeCluster, path: str, status: int) -> None:
    assert cluster.call("PUT", path, SMALL).status == status


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Object-Meta-A": "x" * 257},
        {"X-Object-Meta-" + "A" * 129: "x"},
        {"X-Delete-At": "soon"},
        {"X-Delete-At": "1"},
        {"X-Delete-After": "-5"},
        {"X-Delete-After": "1.5"},
        {"X-Object-Meta-A": "a\r\nX-Container-Host: evil"},
        {"Content-Type": "\xff"},
    ],
)
def test_bad_headers_are_400(cluster: FakeCluster, headers: dict[str, str]) -> None:
    assert cluster.call("PUT", "/v1/a/c/o", SMALL, headers).status == 400
    assert cluster.holders("/a/c/o") == []


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, "image/jpeg"),
        ({"Content-Type": "text/x"}, "text/x"),
        ({"Content-Type": "text/x", "X-Detect-Content-Type": "true"}, "image/jpeg"),
    ],
)
def test_content_type(cluster: FakeCluster, given: dict[str, str], wanted: str) -> None:
    cluster.call("PUT", "/v1/a/c/o.jpg", SMALL, given)
    assert cluster.devices[0].last("PUT").headers["content-type"] == wanted


def test_client_cannot_direct_container_updates(cluster: FakeCluster) -> None:
    evil = {"X-Container-Host": "6.6.6.6:6", "X-Delete-At-Host": "6.6.6.6:6", "Host": "evil"}
    cluster.call("PUT", "/v1/a/c/o", SMALL, evil)
    for device in cluster.devices[:3]:
        assert not any("6.6.6.6" in v for v in device.last("PUT").headers.values())
        assert "evil" not in device.last("PUT").headers.get("host", "")


def test_expiration_is_passed_with_its_queue(cluster: FakeCluster) -> None:
    cluster.call("PUT", "/v1/a/c/o", SMALL, {"X-Delete-After": "86400"})
    headers = [d.last("PUT").headers for d in cluster.devices[:3]]
    assert len({h["x-delete-at"] for h in headers}) == 1
    assert all(len(h["x-delete-at"]) == 10 for h in headers)
    assert len({h["x-delete-at-container"] for h in headers}) == 1
    assert "x-delete-after" not in headers[0]
    hosts = [h["x-delete-at-host"] for h in headers]
    assert sorted(hosts) == sorted(f"127.0.0.1:{d.port}" for d in cluster.devices[:3])


def test_servers_that_disagree_on_the_etag_are_not_believed(cluster: FakeCluster) -> None:
    device = cluster.devices[1]
    acted = device._act

    def lie(seen: Seen) -> tuple[int, dict[str, str], bytes]:
        status, headers, body = acted(seen)
        return status, {**headers, "Etag": "0" * 32} if "Etag" in headers else headers, body

    device._act = lie
    assert cluster.call("PUT", "/v1/a/c/o", SMALL).status == 500


def test_full_device_is_left_alone_afterwards(cluster: FakeCluster) -> None:
    cluster.devices[0].fault = 507
    cluster.call("PUT", "/v1/a/c/o", SMALL)
    cluster.forget()
    cluster.devices[0].fault = None
    assert cluster.call("PUT", "/v1/a/c/o2", SMALL).status == 201
    assert cluster.devices[0].seen == []
    assert cluster.holders("/a/c/o2") == ["sd1", "sd2", "sd3"]


def test_connections_are_kept(cluster: FakeCluster) -> None:
    for number in range(5):
        cluster.call("PUT", f"/v1/a/c/o{number}", SMALL)
    assert [device.connections for device in cluster.devices] == [1, 1, 1, 1]


def test_write_that_meets_itself_is_done(cluster: FakeCluster) -> None:
    """Sent again after a lost answer, a write finds its own timestamp: 201, not 202."""
    assert cluster.call("PUT", "/v1/a/c/warm", SMALL).status == 201  # connections are pooled now
    for device in cluster.devices[:3]:
        lose_first_answer(device, "PUT")
    reply = cluster.call("PUT", "/v1/a/c/o", SMALL)
    assert reply.status == 201
    assert reply.headers["etag"] == hashlib.md5(SMALL).hexdigest()
    assert [d.methods().count("PUT") for d in cluster.devices[:3]] == [4, 4, 4]
    assert container_rows(cluster, "PUT") == 3, "the devices may have died before they told"
    for device in cluster.devices[:3]:
        lose_first_answer(device, "DELETE")
    assert cluster.call("DELETE", "/v1/a/c/o").status == 204
    assert container_rows(cluster, "DELETE") == 3


def container_rows(cluster: FakeCluster, method: str) -> int:
    """How many rows the proxy itself sent to container servers."""
    return sum(
        seen.method == method and "x-container-host" not in seen.headers
        for device in cluster.devices
        for seen in device.seen
        if seen.path.endswith("/a/c/o")
    )


def test_another_write_of_the_same_time_is_not_taken_for_this_one(cluster: FakeCluster) -> None:
    same = {"X-Timestamp": "1700000000.00000"}
    assert cluster.call("PUT", "/v1/a/c/o", b"first", same).status == 201
    assert cluster.call("PUT", "/v1/a/c/o", b"second", same).status == 202
    assert cluster.call("DELETE", "/v1/a/c/o", headers=same).status == 409
    assert cluster.call("GET", "/v1/a/c/o").body == b"first"


@pytest.mark.parametrize("body", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("missing", [0, 1, 2, 3])
def test_a_write_that_some_replicas_have_is_sent_again(
    cluster: FakeCluster, body: bytes, missing: int
) -> None:
    """As a completion does: 201, not 202, unless there is a newer object."""
    same: dict[str, Any] = {"headers": {"X-Timestamp": "1700000000.00000"}}
    again = {**same, SENT_BEFORE: True}
    assert cluster.call("PUT", "/v1/a/c/o", body, **same).status == 201
    for device in cluster.devices[:missing]:
        del device.stored["/a/c/o"]
    reply = cluster.call("PUT", "/v1/a/c/o", body, **again)
    assert (reply.status, reply.headers["etag"]) == (201, hashlib.md5(body).hexdigest())
    assert [d.stored["/a/c/o"].body for d in cluster.devices[:3]] == [body] * 3
    assert cluster.call("PUT", "/v1/a/c/o", b"newer").status == 201
    assert cluster.call("PUT", "/v1/a/c/o", body, **again).status == 202


@pytest.mark.parametrize("header", ["X-Delete-At", "X-Delete-After"])
def test_a_far_future_is_the_last_second_there_is(cluster: FakeCluster, header: str) -> None:
    for digits in ("1" * 100, "9" * 5000):
        for device in cluster.devices:
            device.seen.clear()
        assert cluster.call("PUT", "/v1/a/c/o", b"x", {header: digits}).status == 201
        puts = [s for d in cluster.devices for s in d.seen if "x-container-host" in s.headers]
        told = {s.headers["x-delete-at"] for s in puts}
        assert told == {"9999999999"}

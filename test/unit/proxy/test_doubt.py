"""Object servers that lost records, and say so: what they cannot know decides nothing."""

from __future__ import annotations

from typing import Any

import pytest
from fake_cluster import FakeCluster
from fake_devices import FakeDevice, Seen, Stored

from proxy.batch import IN_BATCHES
from proxy.object_put import ONE_MESSAGE_BYTES_MAX

UNKNOWN = {"X-Backend-Doubt": "unknown"}
STALE = {"X-Backend-Doubt": "stale"}
LARGE = b"x" * (ONE_MESSAGE_BYTES_MAX + 1)
READS = ["GET", "HEAD"]
ORDERS = 8  # the order of replicas is random, so each read is tried so often
OLD, NEW, NEWER = (f"000000000{n}.00000" for n in (1, 2, 3))


@pytest.fixture
def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads ask the first device first, too."""
    monkeypatch.setattr("proxy.nodes.random.shuffle", lambda nodes: None)


def is_about_object(seen: Seen) -> bool:
    return seen.path.count("/") > 4


def cannot_say(*devices: FakeDevice, timestamp: str = "") -> None:
    """They answer 503 for objects: the record is lost."""
    for device in devices:
        device.fault = lambda seen: 503 if is_about_object(seen) else None
        device.fault_headers = dict(UNKNOWN)
        if timestamp:
            device.fault_headers["X-Backend-Timestamp"] = timestamp


def lies_on(
    device: FakeDevice, timestamp: str, *, stale: bool = False, is_deleted: bool = False
) -> None:
    """/a/c/o on one device. Its body and ETag are its time, and it says where it is from."""
    headers = {"Etag": f'"{timestamp}"', "Content-Type": "a/b", "X-Object-Meta-On": device.name}
    if is_deleted:
        headers = {}
    device.stored["/a/c/o"] = Stored(timestamp, headers, timestamp.encode(), is_deleted)
    device.read_headers = dict(STALE) if stale else {}


def read(cluster: FakeCluster, headers: dict[str, str] | None = None) -> set[tuple[int, str]]:
    """Statuses and bodies of many reads; bodies of what is not the object are left out."""
    replies = [cluster.call("GET", "/v1/a/c/o", headers=headers) for _ in range(ORDERS)]
    heads = {cluster.call("HEAD", "/v1/a/c/o", headers=headers).status for _ in range(ORDERS)}
    if "Range" not in (headers or {}):
        assert heads == {reply.status for reply in replies}
    return {(r.status, r.body.decode() if r.status == 200 else "") for r in replies}


def count_requests(cluster: FakeCluster) -> list[int]:
    return [sum(is_about_object(seen) for seen in device.seen) for device in cluster.devices]


# A replica that cannot say


@pytest.mark.parametrize("method", [*READS, "POST"])
def test_known_answers_count_in_place_of_an_unknown_one(cluster: FakeCluster, method: str) -> None:
    cluster.call("PUT", "/v1/a/c/o", b"data")
    cannot_say(cluster.devices[0])
    for _ in range(ORDERS):
        wanted = 202 if method == "POST" else 200
        assert cluster.call(method, "/v1/a/c/o").status == wanted
        assert cluster.call(method, "/v1/a/c/missing").status == 404


@pytest.mark.parametrize("method", [*READS, "POST"])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_too_few_known_answers_are_no_404(cluster: FakeCluster, method: str, count: int) -> None:
    """The hand-off was never meant to have it, so its 404 says nothing."""
    cannot_say(*cluster.devices[:count])
    for _ in range(ORDERS):
        assert cluster.call(method, "/v1/a/c/o").status == 503


@pytest.mark.parametrize("method", [*READS, "POST"])
def test_one_replica_that_has_it_is_found_behind_unknown_ones(
    cluster: FakeCluster, method: str
) -> None:
    cluster.call("PUT", "/v1/a/c/o", b"data")
    cannot_say(*cluster.devices[:2], timestamp="9999999999.00000")
    for _ in range(ORDERS):
        assert cluster.call(method, "/v1/a/c/o").status == (503 if method == "POST" else 200)


def test_time_of_an_unknown_record_is_no_tombstone(cluster: FakeCluster) -> None:
    for device in cluster.devices[1:3]:
        lies_on(device, OLD)
    cannot_say(cluster.devices[0], timestamp=NEW)
    assert read(cluster) == {(200, OLD)}
    assert read(cluster, {"X-Newest": "true"}) == {(200, OLD)}


@pytest.mark.parametrize(
    ("method", "body", "environ"),
    [
        ("GET", b"", {}),
        ("HEAD", b"", {}),
        ("POST", b"", {}),
        ("PUT", b"small", {}),
        ("PUT", LARGE, {}),
        ("PUT", b"small", {IN_BATCHES: True}),
        ("DELETE", b"", {}),
    ],
)
def test_a_lost_record_is_no_failure_of_its_device(
    cluster: FakeCluster, method: str, body: bytes, environ: dict[str, Any]
) -> None:
    cannot_say(cluster.devices[0])
    for _ in range(15):
        cluster.call(method, "/v1/a/c/o", body, **environ)
    assert cluster.app.core.backends.limiter.failures == {}


def test_any_other_503_counts_as_ever(cluster: FakeCluster) -> None:
    device = cluster.devices[0]
    cannot_say(device)
    device.fault_headers = {"X-Backend-Doubt": "stale"}
    cluster.call("PUT", "/v1/a/c/o", b"data")
    assert cluster.app.core.backends.limiter.failure_count(device.node) == 1


@pytest.mark.parametrize("environ", [{}, {IN_BATCHES: True}], ids=["alone", "in batches"])
@pytest.mark.parametrize("body", [b"small", LARGE], ids=["small", "large"])
def test_a_write_goes_to_a_handoff(
    cluster: FakeCluster, body: bytes, environ: dict[str, Any]
) -> None:
    cannot_say(cluster.devices[0])
    assert cluster.call("PUT", "/v1/a/c/o", body, **environ).status == 201
    assert cluster.holders("/a/c/o") == ["sd1", "sd2", "sd3"]
    assert cluster.call("DELETE", "/v1/a/c/o", **environ).status == 204
    assert all(d.stored["/a/c/o"].is_deleted for d in cluster.devices[1:])

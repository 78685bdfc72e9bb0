"""Object servers that lost records, and say so: what they cannot know decides nothing."""

from __future__ import annotations

from typing import Any

import pytest
from fake_cluster import FakeCluster, MakeCluster
from fake_devices import FakeDevice, Seen, Stored

from proxy.controllers.object_put import ONE_MESSAGE_BYTES_MAX
from proxy.middleware.frame.gatekeeper import Gatekeeper, GatekeeperOptions

UNKNOWN = {"X-Backend-Doubt": "unknown"}
STALE = {"X-Backend-Doubt": "stale"}
LARGE = b"x" * (ONE_MESSAGE_BYTES_MAX + 1)
READS = ["GET", "HEAD"]
ORDERS = 8  # the order of replicas is random, so each read is tried so often
OLD, NEW, NEWER = (f"000000000{n}.00000" for n in (1, 2, 3))


@pytest.fixture
def in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads ask the first device first, too."""
    monkeypatch.setattr("proxy.replicas.nodes.random.choice", lambda orders: orders[0])


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
    ("method", "body"),
    [
        ("GET", b""),
        ("HEAD", b""),
        ("POST", b""),
        ("PUT", b"small"),
        ("PUT", LARGE),
        ("DELETE", b""),
    ],
)
def test_a_lost_record_is_no_failure_of_its_device(
    cluster: FakeCluster, method: str, body: bytes
) -> None:
    cannot_say(cluster.devices[0])
    for _ in range(15):
        cluster.call(method, "/v1/a/c/o", body)
    assert cluster.app.core.backends.health.troubles == {}


def test_any_other_503_counts_as_ever(cluster: FakeCluster) -> None:
    device = cluster.devices[0]
    cannot_say(device)
    device.fault_headers = {"X-Backend-Doubt": "stale"}
    cluster.call("PUT", "/v1/a/c/o", b"data")
    assert cluster.app.core.backends.health.trouble_count(device.node) == 1


@pytest.mark.parametrize("body", [b"small", LARGE], ids=["small", "large"])
def test_a_write_goes_to_a_handoff(cluster: FakeCluster, body: bytes) -> None:
    cannot_say(cluster.devices[0])
    assert cluster.call("PUT", "/v1/a/c/o", body).status == 201
    assert cluster.holders("/a/c/o") == ["sd1", "sd2", "sd3"]
    assert cluster.call("DELETE", "/v1/a/c/o").status == 204
    assert all(d.stored["/a/c/o"].is_deleted for d in cluster.devices[1:])


# A replica that may have lost something newer


def test_a_newer_copy_goes_before_a_stale_one(cluster: FakeCluster) -> None:
    devices = cluster.devices
    lies_on(devices[0], OLD, stale=True)
    lies_on(devices[1], NEW)
    assert read(cluster) == {(200, NEW)}
    del devices[1].stored["/a/c/o"]
    lies_on(devices[3], NEW)  # a hand-off, while the primary was away
    assert read(cluster) == {(200, NEW)}


def test_an_older_copy_goes_after_a_stale_one(cluster: FakeCluster, in_order: None) -> None:
    lies_on(cluster.devices[0], NEW, stale=True)
    lies_on(cluster.devices[1], OLD)
    cannot_say(cluster.devices[2])
    assert read(cluster) == {(200, NEW)}
    assert read(cluster, {"If-None-Match": NEW}) == {(304, "")}


def test_of_equally_old_copies_one_without_doubt_is_served(cluster: FakeCluster) -> None:
    lies_on(cluster.devices[0], NEW, stale=True)
    lies_on(cluster.devices[1], NEW, stale=True)
    lies_on(cluster.devices[2], NEW)
    for newest in ({}, {"X-Newest": "true"}):
        for _ in range(ORDERS):
            reply = cluster.call("GET", "/v1/a/c/o", headers=newest)
            assert (reply.status, reply.headers["x-object-meta-on"]) == (200, "sd2")


def test_the_search_ends_at_the_first_copy_without_doubt(cluster: FakeCluster) -> None:
    for device in cluster.devices[:3]:
        lies_on(device, NEW, stale=device.name == "sd0")
    for _ in range(ORDERS):
        cluster.forget()
        cluster.call("GET", "/v1/a/c/o")
        asked = count_requests(cluster)
        assert sum(asked) == 1 + asked[0]


@pytest.mark.parametrize("others", ["stale", "unknown", "missing", "dead"])
def test_a_stale_copy_is_served_where_nothing_is_better(
    cluster: FakeCluster, others: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "test.proxy")
    devices = cluster.devices
    lies_on(devices[0], OLD, stale=True)
    for device in devices[1:3]:
        if others == "stale":
            lies_on(device, OLD, stale=True)
        elif others == "unknown":
            cannot_say(device)
        elif others == "dead":
            device.stop()
    assert read(cluster) == {(200, OLD)}
    assert "event=doubtful_copy_served" in caplog.text


@pytest.mark.parametrize("third", ["missing", "unknown", "stale"])
def test_a_tombstone_newer_than_a_stale_copy_is_404(cluster: FakeCluster, third: str) -> None:
    devices = cluster.devices
    lies_on(devices[0], OLD, stale=True)
    lies_on(devices[1], NEW, is_deleted=True)
    if third == "unknown":
        cannot_say(devices[2])
    elif third == "stale":
        lies_on(devices[2], OLD, stale=True)
    assert read(cluster) == {(404, "")}


def test_a_tombstone_wins_in_any_order(make_cluster: MakeCluster) -> None:
    """The outdated copy counts as a 404, whether it is found before the tombstone or after it."""
    cluster = make_cluster(devices=4, replicas=4)
    cluster.make_container()
    lies_on(cluster.devices[0], OLD, stale=True)
    lies_on(cluster.devices[1], NEW, is_deleted=True)
    cannot_say(*cluster.devices[2:])
    assert read(cluster) == {(404, "")}


def test_a_tombstone_older_than_a_stale_copy_says_nothing(cluster: FakeCluster) -> None:
    lies_on(cluster.devices[0], NEW, stale=True)
    for device in cluster.devices[1:3]:
        lies_on(device, OLD, is_deleted=True)
    assert read(cluster) == {(200, NEW)}


# Conditions and ranges: such answers come from the record as well


def test_stale_304_yields_to_a_newer_copy(cluster: FakeCluster) -> None:
    lies_on(cluster.devices[0], OLD, stale=True)
    condition = {"If-None-Match": OLD}
    cannot_say(*cluster.devices[1:3])
    assert read(cluster, condition) == {(304, "")}
    cluster.devices[1].fault = None
    lies_on(cluster.devices[1], NEW)
    assert read(cluster, condition) == {(200, NEW)}
    lies_on(cluster.devices[1], NEW, is_deleted=True)
    assert read(cluster, condition) == {(404, "")}


def test_stale_412_is_served_where_nothing_is_better(cluster: FakeCluster) -> None:
    lies_on(cluster.devices[0], OLD, stale=True)
    cannot_say(*cluster.devices[1:3])
    assert read(cluster, {"If-Match": NEW}) == {(412, "")}


def test_stale_412_yields_to_a_newer_copy(cluster: FakeCluster) -> None:
    lies_on(cluster.devices[0], OLD, stale=True)
    lies_on(cluster.devices[1], NEW)
    assert read(cluster, {"If-Match": NEW}) == {(200, NEW)}


@pytest.mark.parametrize("is_stale", [True, False])
def test_stale_412_does_not_yield_to_an_older_copy(
    cluster: FakeCluster, in_order: None, is_stale: bool
) -> None:
    lies_on(cluster.devices[0], NEW, stale=True)
    lies_on(cluster.devices[1], OLD, stale=is_stale)
    assert read(cluster, {"If-Match": OLD}) == {(412, "")}
    assert count_requests(cluster)[2] > 0, "a primary that may have something as new was left out"


def test_stale_412_yields_to_a_newer_tombstone(cluster: FakeCluster) -> None:
    lies_on(cluster.devices[0], OLD, stale=True)
    for device in cluster.devices[1:3]:
        lies_on(device, NEW, is_deleted=True)
    assert read(cluster, {"If-Match": NEW}) == {(404, "")}


def test_412_without_doubt_counts_as_ever(cluster: FakeCluster, in_order: None) -> None:
    """It needs a quorum, and any copy that meets the condition goes before it."""
    devices = cluster.devices
    lies_on(devices[0], NEW)
    cannot_say(*devices[1:3])
    assert read(cluster, {"If-Match": OLD}) == {(503, "")}
    devices[1].fault = None
    lies_on(devices[1], OLD)
    assert read(cluster, {"If-Match": OLD}) == {(200, OLD)}


def test_stale_copy_yields_to_a_newer_412(cluster: FakeCluster) -> None:
    lies_on(cluster.devices[0], OLD, stale=True)
    lies_on(cluster.devices[1], NEW)
    assert read(cluster, {"If-Match": OLD}) == {(412, "")}


def test_stale_416_yields_to_a_newer_copy(cluster: FakeCluster) -> None:
    asked = {"Range": f"bytes={len(OLD)}-"}
    devices = cluster.devices
    lies_on(devices[0], OLD, stale=True)
    assert {status for status, _ in read(cluster, asked)} == {416}
    lies_on(devices[1], NEW)
    devices[1].stored["/a/c/o"].body += b"more"
    assert {status for status, _ in read(cluster, asked)} == {206}


# A body that breaks off


@pytest.mark.parametrize("headers", [{}, {"X-Newest": "true"}, {"Range": "bytes=10-"}])
@pytest.mark.parametrize("asked", ["bytes=0-70000,80000-90000", ""])
def test_a_body_goes_on_at_a_stale_replica(
    make_cluster: MakeCluster, headers: dict[str, str], asked: str
) -> None:
    cluster = make_cluster(devices=3)  # no hand-off would have it
    cluster.make_container()
    assert cluster.call("PUT", "/v1/a/c/o", LARGE * 4).status == 201
    headers = headers | ({"Range": asked} if asked else {})
    length = len(cluster.call("GET", "/v1/a/c/o", headers=headers).body)
    cluster.devices[0].cut_after = 1000
    for device in cluster.devices[1:]:
        device.read_headers = dict(STALE)
    for _ in range(ORDERS):
        reply = cluster.call("GET", "/v1/a/c/o", headers=headers)
        assert (reply.status // 100, len(reply.body)) == (2, length)


# Clients see nothing of it


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Range": "bytes=1-2"}, 206),
        ({"Range": "bytes=1-2,5-6"}, 206),
        ({"Range": "bytes=99-"}, 416),
        ({"If-None-Match": OLD}, 304),
        ({"If-Match": NEW}, 412),
    ],
)
def test_clients_see_no_doubt(cluster: FakeCluster, headers: dict[str, str], status: int) -> None:
    app: Any = Gatekeeper(cluster.app, GatekeeperOptions())
    clients = FakeCluster(cluster.devices, app)
    for device in cluster.devices[:3]:
        lies_on(device, OLD, stale=True)
    for method in READS:
        reply = clients.call(method, "/v1/a/c/o", headers=headers)
        if method == "GET":
            assert reply.status == status
        assert not any(name.startswith("x-backend-") for name in reply.headers)
        assert b"doubt" not in reply.body.lower()
    cannot_say(*cluster.devices, timestamp=OLD)
    for method in (*READS, "POST", "PUT", "DELETE"):
        reply = clients.call(method, "/v1/a/c/o")
        assert reply.status == 503
        assert not any(name.startswith("x-backend-") for name in reply.headers)

"""How far devices are trusted after failures, and how they come back."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from fake_cluster import FakeCluster, MakeCluster
from fake_devices import HANG_UP, SILENT, Stored
from numbered_devices import Clock, Ring, names, node, queue_of
from running_cluster import await_true, free_port

from martlet.http.backend_client import BackendClient, ConnectionLost, ReadTimeout
from proxy.replicas.backends import BackendRequest
from proxy.replicas.health import GONE_SECONDS, INCIDENT_SECONDS, DeviceHealth
from proxy.replicas.prober import PAUSE_SECONDS, Prober
from proxy.wire_headers import WireHeaders


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def health(clock: Clock) -> DeviceHealth:
    return DeviceHealth(60, 10, 3600, clock)


def test_connections_lost_together_are_one_incident(health: DeviceHealth, clock: Clock) -> None:
    for _ in range(100):
        assert not health.add_lost_connection(node(1))
    assert not health.is_suppressed(node(1))
    for _ in range(9):
        clock.now += INCIDENT_SECONDS
        assert not health.add_lost_connection(node(1))
    clock.now += INCIDENT_SECONDS
    assert health.add_lost_connection(node(1))
    assert health.is_suppressed(node(1))


def test_a_device_that_keeps_losing_connections_is_suppressed(
    health: DeviceHealth, clock: Clock
) -> None:
    for _ in range(200):
        clock.now += INCIDENT_SECONDS / 10
        health.add_lost_connection(node(1))
    assert health.is_suppressed(node(1))


def test_server_that_refuses_is_left_alone_for_a_second(health: DeviceHealth, clock: Clock) -> None:
    assert health.add_refusal(node(1))
    assert not health.add_refusal(node(2)), "the devices of a server go and come together"
    assert health.is_suppressed(node(1))
    assert health.is_suppressed(node(3))
    elsewhere: Any = {**node(1), "port": 6001}
    assert not health.is_suppressed(elsewhere)
    clock.now += GONE_SECONDS
    assert not health.is_suppressed(node(1))
    assert health.add_refusal(node(1))


def test_interval_of_zero_ignores_refusals(clock: Clock) -> None:
    health = DeviceHealth(0, 0, 0, clock)
    assert not health.add_refusal(node(1))
    assert not health.is_suppressed(node(1))
    assert not health.is_doubted(node(1))


def test_what_a_full_device_says_is_news_once(health: DeviceHealth) -> None:
    assert [health.suppress(node(1)) for _ in range(3)] == [True, False, False]
    health.forgive(node(1))
    assert health.suppress(node(1))


def test_doubt_outlives_suppression(health: DeviceHealth, clock: Clock) -> None:
    assert not health.is_doubted(node(1))
    health.suppress(node(1))
    assert health.forgive(node(1))
    assert not health.is_suppressed(node(1))
    assert health.is_doubted(node(1))
    clock.now += 3600
    assert not health.is_doubted(node(1))


def test_a_deaf_device_stays_suppressed(health: DeviceHealth, clock: Clock) -> None:
    health.suppress(node(1))
    clock.now += 50
    health.note_deaf(node(1))
    clock.now += 50
    assert health.is_suppressed(node(1))
    assert health.is_deaf(node(1))
    health.forgive(node(1))
    assert not health.is_deaf(node(1))


def test_reads_try_doubted_devices_after_the_others(health: DeviceHealth) -> None:
    health.doubt(node(1))
    orders = {tuple(names(queue_of(Ring(5, 3), health, 5, is_read=True))) for _ in range(50)}
    assert orders == {("sd0", "sd2", "sd1", "sd3", "sd4"), ("sd2", "sd0", "sd1", "sd3", "sd4")}
    assert names(queue_of(Ring(5, 3), health, 5)) == ["sd0", "sd1", "sd2", "sd3", "sd4"]


def test_reads_ask_suppressed_devices_at_last(health: DeviceHealth) -> None:
    health.suppress(node(1))
    health.suppress(node(3))
    queue = queue_of(Ring(6, 3), health, 4, is_read=True)
    found = names(queue)
    assert sorted(found[:2]) == ["sd0", "sd2"]
    assert found[2:] == ["sd4", "sd5", "sd1", "sd3"]
    health.note_deaf(node(1))
    assert names(queue_of(Ring(6, 3), health, 4, is_read=True))[2:] == ["sd4", "sd5", "sd3"]


class Sleeper:
    """Stands for the pauses between probes: each lasts until it is let go."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self._go = threading.Semaphore(0)

    def __call__(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self._go.acquire()

    def end_pause(self, number: int) -> None:
        await_true(lambda: len(self.pauses) == number, f"pause {number}")
        self._go.release()


def test_probes_bring_a_device_back(cluster: FakeCluster) -> None:
    device = cluster.devices[0]
    health = DeviceHealth(60, 10, 3600)
    sleeper = Sleeper()
    prober = Prober(BackendClient(20.0, 20.0), health, logging.getLogger("test.proxy"), sleeper)
    health.suppress(device.node)
    device.fault = 507
    prober.watch(device.node, "Object")
    prober.watch(device.node, "Object")
    sleeper.end_pause(1)
    await_true(lambda: health.is_deaf(device.node), "an answer of 507")
    device.fault = HANG_UP
    sleeper.end_pause(2)
    await_true(lambda: len(sleeper.pauses) == 3, "a third probe")
    assert health.is_suppressed(device.node)
    device.fault = None
    sleeper.end_pause(3)
    await_true(lambda: not health.is_suppressed(device.node), "trust")
    assert sleeper.pauses == sorted(sleeper.pauses)
    assert sleeper.pauses[0] == PAUSE_SECONDS
    first = len(sleeper.pauses)
    health.suppress(device.node)  # it fails again at once
    await_true(lambda: device.node["device"] not in str(prober._watched), "the end of the thread")
    prober.watch(device.node, "Object")
    await_true(lambda: len(sleeper.pauses) > first, "another pause")
    assert sleeper.pauses[-1] > sleeper.pauses[first - 1]
    sleeper.end_pause(first + 1)


def put(cluster: FakeCluster, name: str, body: bytes = b"data") -> int:
    return int(cluster.call("PUT", f"/v1/a/c/{name}", body).status)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_holders_are_asked_before_404_although_suppressed(
    cluster: FakeCluster, method: str
) -> None:
    assert put(cluster, "o") == 201
    health = cluster.app.core.backends.health
    for device in cluster.devices[:3]:
        health.suppress(device.node)
    assert cluster.call(method, "/v1/a/c/o").status == 200
    assert cluster.call(method, "/v1/a/c/absent").status == 404


def test_a_device_that_missed_a_write_is_read_last(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(error_suppression_limit=100)
    cluster.make_container()
    assert put(cluster, "o", b"old") == 201
    cluster.devices[1].fault = HANG_UP
    assert put(cluster, "o", b"new") == 201
    cluster.devices[1].fault = None
    assert {cluster.call("GET", "/v1/a/c/o").body for _ in range(20)} == {b"new"}


def test_a_device_that_was_not_waited_for_is_read_last(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(post_quorum_timeout=0.2)
    cluster.make_container()
    assert put(cluster, "o", b"old") == 201
    cluster.devices[1].fault = lambda seen: SILENT if seen.method == "PUT" else None
    assert put(cluster, "o", b"new") == 201
    assert {cluster.call("GET", "/v1/a/c/o").body for _ in range(20)} == {b"new"}


def test_kinds_of_failures(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = cluster.app.core
    # A refusal is forgotten after a second, in which a busy machine does not get through.
    monkeypatch.setattr(core.backends.health, "_clock", lambda: 1000.0)
    first, second = (device.node for device in cluster.devices[:2])
    request = BackendRequest("Object", "PUT", 7, "/a/c/o", "tx", 1.0)
    for _ in range(50):
        core.backends.failed(first, request, ConnectionLost(("h", 1), "gone"))
    assert not core.backends.health.is_suppressed(first)
    for _ in range(11):
        core.backends.failed(second, request, ReadTimeout(("h", 1), "slow"))
    assert core.backends.health.is_suppressed(second)
    third: Any = {**node(3), "ip": "127.0.0.1", "port": free_port()}
    for _ in range(20):
        assert core.backends.start(third, request, WireHeaders({})) is None
    assert core.backends.health.is_suppressed(third)
    assert caplog.text.count("event=backend_refuses") == 1


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_newest_sees_a_post_that_a_replica_missed(cluster: FakeCluster, method: str) -> None:
    put_at, posted_at = "0000000001.00000", "0000000002.00000"
    for device in cluster.devices[:3]:
        headers = {"Etag": '"e"', "Content-Type": "a/b", "X-Object-Meta-On": device.name}
        device.stored["/a/c/o"] = Stored(put_at, headers, b"data")
        device.read_headers = {"X-Backend-Data-Timestamp": put_at, "X-Backend-Timestamp": put_at}
    cluster.devices[1].read_headers["X-Backend-Timestamp"] = posted_at
    for _ in range(20):
        reply = cluster.call(method, "/v1/a/c/o", headers={"X-Newest": "true"})
        assert reply.headers["x-object-meta-on"] == cluster.devices[1].name

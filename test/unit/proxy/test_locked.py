"""Locks in writes of objects: the rule of a container, and one replica that knows a lock."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from fake_cluster import FakeCluster
from fake_devices import Seen

from martlet.http.environ import LOCKS_AT_LEAST, VERSION_REQUEST
from proxy.replicas.versions import VersionRequest

OBJECT = "/v1/a/c/o"
VERSION = "1795223541.91251"
REFUSED = {"X-Backend-Locked": "true"}


@pytest.fixture
def locking(cluster: FakeCluster) -> FakeCluster:
    """A cluster whose container has object lock and no rule, with an object."""
    allow(cluster, "on")
    cluster.call("PUT", OBJECT, b"data")
    cluster.forget()
    return cluster


def allow(cluster: FakeCluster, text: str) -> None:
    headers = {"X-Container-Sysmeta-Object-Lock": text}
    assert cluster.call("POST", "/v1/a/c", headers=headers).status == 204
    cluster.forget()


def refusing(method: str) -> Callable[[Seen], int | None]:
    return lambda seen: 403 if seen.method == method and seen.path.endswith("/o") else None


def requests_of(cluster: FakeCluster, method: str) -> int:
    """Requests about the object."""
    seen = (seen for device in cluster.devices for seen in device.seen)
    return sum(1 for one in seen if one.method == method and one.path.endswith("/o"))


def test_the_rule_of_a_container_is_the_lock_of_new_objects(cluster: FakeCluster) -> None:
    allow(cluster, "GOVERNANCE days 2")
    before = time.time()
    assert cluster.call("PUT", OBJECT, b"data").status == 201
    headers = cluster.devices[0].last("PUT").headers
    assert headers["x-backend-lock-mode"] == "GOVERNANCE"
    until = float(headers["x-backend-lock-until"])
    assert before + 2 * 86400 - 1 < until < time.time() + 2 * 86400 + 1
    own = {"X-Backend-Lock-Mode": "COMPLIANCE", "X-Backend-Lock-Until": "2000000000.00000"}
    assert cluster.call("PUT", OBJECT, b"data", own).status == 201
    headers = cluster.devices[0].last("PUT").headers
    assert headers["x-backend-lock-mode"] == "COMPLIANCE"
    assert headers["x-backend-lock-until"] == "2000000000.00000"
    assert cluster.call("POST", OBJECT).status == 202
    assert "x-backend-lock-mode" not in cluster.devices[0].last("POST").headers


def test_no_removal_is_sent_while_a_replica_knows_a_lock(locking: FakeCluster) -> None:
    locking.devices[2].read_headers = {"X-Backend-Lock-Hold": "on"}
    answer = locking.call("DELETE", OBJECT)
    assert (answer.status, answer.headers["x-backend-locked"]) == (403, "true")
    assert requests_of(locking, "DELETE") == 0
    locking.devices[2].read_headers = {
        "X-Backend-Lock-Mode": "GOVERNANCE",
        "X-Backend-Lock-Until": "9999999999.00000",
    }
    assert locking.call("DELETE", OBJECT).status == 403
    assert locking.call("DELETE", OBJECT, headers={"X-Backend-Lock-Bypass": "true"}).status == 204
    assert locking.devices[0].last("DELETE").headers["x-backend-lock-bypass"] == "true"


def test_a_delete_marker_is_no_removal(locking: FakeCluster) -> None:
    for device in locking.devices:
        device.read_headers = {"X-Backend-Lock-Hold": "on"}
    marker = {"X-Backend-Version-Id": VERSION, "X-Backend-Version-Marker": "true"}
    environ = {VERSION_REQUEST: VersionRequest(OBJECT, marker)}
    assert locking.call("DELETE", OBJECT, **environ).status == 204
    assert requests_of(locking, "HEAD") == 0


def test_a_removal_needs_the_answers_of_most_replicas(locking: FakeCluster) -> None:
    for device in locking.devices[1:3]:
        device.fault = lambda seen: 503 if seen.method == "HEAD" else None
    assert locking.call("DELETE", OBJECT).status == 503
    assert requests_of(locking, "DELETE") == 0
    locking.devices[1].fault = None
    assert locking.call("DELETE", OBJECT).status == 204


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_one_replica_that_refuses_is_enough(cluster: FakeCluster, method: str) -> None:
    cluster.call("PUT", OBJECT, b"data")
    cluster.devices[1].fault = refusing(method)
    cluster.devices[1].fault_headers = REFUSED
    headers = {"X-Backend-Lock-Hold": "off"} if method == "POST" else {}
    answer = cluster.call(method, OBJECT, b"" if method != "PUT" else b"x", headers)
    assert (answer.status, answer.headers["x-backend-locked"]) == (403, "true")


def test_a_lock_needs_more_than_half_of_two_replicas(
    make_cluster: Callable[..., FakeCluster],
) -> None:
    cluster = make_cluster(devices=2, replicas=2)
    cluster.make_container()
    cluster.call("PUT", OBJECT, b"data")
    cluster.devices[0].fault = lambda seen: 503 if seen.method == "POST" else None
    assert cluster.call("POST", OBJECT, headers={"X-Object-Meta-A": "b"}).status == 202
    hold = {"X-Backend-Lock-Hold": "on"}
    assert cluster.call("POST", OBJECT, headers=hold).status == 503
    cluster.devices[0].fault = None
    assert cluster.call("POST", OBJECT, headers=hold).status == 202


# --- locks that another request made longer

UNTIL = "2000000000.00000"
WANTED = {"X-Backend-Lock-Mode": "GOVERNANCE", "X-Backend-Lock-Until": UNTIL}


def lock(mode: str, until: str, hold: str = "") -> dict[str, str]:
    """The headers of a lock in an answer."""
    found = {"X-Backend-Lock-Mode": mode, "X-Backend-Lock-Until": until}
    return {**found, "X-Backend-Lock-Hold": hold} if hold else found


def refuse(cluster: FakeCluster, count: int, status: int, found: dict[str, str]) -> None:
    """So many replicas refuse a POST, and have this lock."""
    for device in cluster.devices[:count]:
        device.fault = lambda seen: status if seen.method == "POST" else None
        device.fault_headers = REFUSED if status == 403 else {"X-Backend-Timestamp": UNTIL}
        device.read_headers = found


@pytest.mark.parametrize("status", [403, 409])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    "found",
    [
        lock("GOVERNANCE", UNTIL),
        lock("GOVERNANCE", "2000000000.00001"),
        lock("COMPLIANCE", "2000000001.00000", "on"),
    ],
)
def test_a_replica_that_has_such_a_lock_is_locked(
    locking: FakeCluster, status: int, count: int, found: dict[str, str]
) -> None:
    refuse(locking, count, status, found)
    assert locking.call("POST", OBJECT, headers=WANTED, **{LOCKS_AT_LEAST: True}).status == 202
    assert requests_of(locking, "HEAD") == count
    if status == 403 or count > 1:
        assert locking.call("POST", OBJECT, headers=WANTED).status == status


@pytest.mark.parametrize("status", [403, 409])
@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (WANTED, {}),
        (WANTED, {"X-Backend-Lock-Hold": "on"}),
        (WANTED, lock("GOVERNANCE", "1999999999.99999")),
        (WANTED, lock("COMPLIANCE", "1999999999.99999")),
        (lock("COMPLIANCE", UNTIL), lock("GOVERNANCE", "2100000000.00000")),
        (lock("GOVERNANCE", UNTIL, "on"), lock("GOVERNANCE", UNTIL, "off")),
        ({"X-Backend-Lock-Hold": "on"}, lock("GOVERNANCE", UNTIL)),
        ({"X-Backend-Lock-Mode": "NONE"}, lock("GOVERNANCE", UNTIL)),
    ],
)
def test_a_weaker_lock_is_no_such_lock(
    locking: FakeCluster, status: int, wanted: dict[str, str], found: dict[str, str]
) -> None:
    """One that came later wins where replicas merge their locks, so one such replica decides."""
    refuse(locking, 1, status, found)
    answer = locking.call("POST", OBJECT, headers=wanted, **{LOCKS_AT_LEAST: True})
    assert answer.status == status


def test_a_lock_that_few_replicas_have_is_no_lock(locking: FakeCluster) -> None:
    refuse(locking, 1, 403, lock("COMPLIANCE", "2000000001.00000"))
    for device in locking.devices[1:]:
        device.fault = lambda seen: 503 if seen.method == "POST" else None
    assert locking.call("POST", OBJECT, headers=WANTED, **{LOCKS_AT_LEAST: True}).status == 503

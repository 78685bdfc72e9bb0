"""Which devices are tried, and which are left alone."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.nodes import ErrorLimiter, NodeQueue


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Ring:
    def __init__(self, devices: int, replicas: int) -> None:
        self.nodes = [node(i) for i in range(devices)]
        self.replicas = replicas

    def get_part_nodes(self, partition: int) -> tuple[Any, ...]:
        return tuple(self.nodes[: self.replicas])

    def get_more_nodes(self, partition: int) -> Any:
        return iter(self.nodes[self.replicas :])


def node(number: int) -> Any:
    return {"ip": "10.0.0.1", "port": 6000, "device": f"sd{number}"}


def names(queue: Any) -> list[str]:
    return [n["device"] for n in queue]


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_device_is_left_alone_after_too_many_failures_and_forgiven_later(clock: Clock) -> None:
    limiter = ErrorLimiter(interval=60, limit=2, clock=clock)
    assert [limiter.add_failure(node(1)) for _ in range(4)] == [False, False, True, False]
    assert limiter.is_limited(node(1))
    assert not limiter.is_limited(node(2))
    clock.now += 61
    assert not limiter.is_limited(node(1))
    limiter.add_failure(node(1))
    assert not limiter.is_limited(node(1))


def test_full_device_is_left_alone_at_once(clock: Clock) -> None:
    limiter = ErrorLimiter(interval=60, limit=10, clock=clock)
    limiter.limit(node(1))
    assert limiter.is_limited(node(1))


def test_interval_of_zero_switches_it_off(clock: Clock) -> None:
    limiter = ErrorLimiter(interval=0, limit=0, clock=clock)
    limiter.limit(node(1))
    limiter.add_failure(node(1))
    assert not limiter.is_limited(node(1))


def test_primaries_then_handoffs_up_to_the_limit(clock: Clock) -> None:
    ring: Any = Ring(9, 3)
    limiter = ErrorLimiter(60, 10, clock)
    assert names(NodeQueue(ring, 0, limiter, 5)) == ["sd0", "sd1", "sd2", "sd3", "sd4"]


def test_shuffle_keeps_primaries_first(clock: Clock) -> None:
    ring: Any = Ring(6, 3)
    limiter = ErrorLimiter(60, 10, clock)
    orders = {tuple(names(NodeQueue(ring, 0, limiter, 6, shuffle=True))) for _ in range(100)}
    assert len(orders) == 6
    for order in orders:
        assert sorted(order[:3]) == ["sd0", "sd1", "sd2"]
        assert order[3:] == ("sd3", "sd4", "sd5")


def test_limited_devices_are_skipped_and_do_not_count(clock: Clock) -> None:
    ring: Any = Ring(9, 3)
    limiter = ErrorLimiter(60, 10, clock)
    limiter.limit(node(1))
    limiter.limit(node(3))
    assert names(NodeQueue(ring, 0, limiter, 4)) == ["sd0", "sd2", "sd4", "sd5"]


def test_device_limited_while_in_use_is_replaced(clock: Clock) -> None:
    ring: Any = Ring(9, 3)
    limiter = ErrorLimiter(60, 10, clock)
    queue = NodeQueue(ring, 0, limiter, 3)
    used = []
    for found in queue:
        used.append(found["device"])
        if found["device"] == "sd0":
            limiter.limit(found)
    assert used == ["sd0", "sd1", "sd2", "sd3"]


def test_handoffs_beyond_the_limit(clock: Clock) -> None:
    ring: Any = Ring(6, 3)
    queue = NodeQueue(ring, 0, ErrorLimiter(60, 10, clock), 3)
    assert names(queue) == ["sd0", "sd1", "sd2"]
    assert names(queue.handoffs(2)) == ["sd3", "sd4"]
    assert names(queue.handoffs(2)) == ["sd5"]


def test_suppressed_devices_are_the_last_resort(clock: Clock) -> None:
    limiter = ErrorLimiter(interval=60, limit=10, clock=clock)
    for number in (0, 1, 3):
        limiter.limit(node(number))
    # Two usable ones of four are a quorum of three replicas: the others are left alone.
    assert names(NodeQueue(Ring(5, 3), 0, limiter, 6)) == ["sd2", "sd4"]
    # One is not: then those that failed are tried as well, in their order.
    limiter.limit(node(4))
    assert names(NodeQueue(Ring(5, 3), 0, limiter, 6)) == ["sd2", "sd0", "sd1", "sd3", "sd4"]


def test_suppressed_devices_replace_usable_ones_that_fail(clock: Clock) -> None:
    limiter = ErrorLimiter(interval=60, limit=10, clock=clock)
    limiter.add_failure(node(1))  # an earlier one, which says nothing of this request
    for number in (0, 3):
        limiter.limit(node(number))
    queue = NodeQueue(Ring(4, 3), 0, limiter, 6)
    assert names(queue) == ["sd1", "sd2"]
    limiter.add_failure(node(1))
    assert names(queue) == ["sd0", "sd3"]
    limiter.add_failure(node(2))
    assert names(queue) == [], "each comes once"


def test_a_first_failure_after_old_ones_counts(clock: Clock) -> None:
    limiter = ErrorLimiter(interval=60, limit=10, clock=clock)
    limiter.limit(node(1))
    clock.now += 61
    limiter.limit(node(0))
    queue = NodeQueue(Ring(3, 3), 0, limiter, 6)
    assert names(queue) == ["sd1", "sd2"]
    limiter.add_failure(node(1))
    assert names(queue) == ["sd0"]


def test_a_suppressed_device_that_serves_is_trusted_again(clock: Clock) -> None:
    limiter = ErrorLimiter(interval=60, limit=1, clock=clock)
    limiter.forgive(node(1))
    limiter.add_failure(node(1))
    limiter.forgive(node(1))
    limiter.add_failure(node(1))
    assert limiter.is_limited(node(1)), "failures count while it is trusted"
    limiter.forgive(node(1))
    assert not limiter.is_limited(node(1))

"""Which devices are tried, and which are left alone."""

from __future__ import annotations

import pytest
from numbered_devices import Clock, Ring, names, node, queue_of

from proxy.replicas.health import DeviceHealth


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_device_is_left_alone_after_too_many_failures_and_forgiven_later(clock: Clock) -> None:
    health = DeviceHealth(60, 2, 0, clock)
    assert [health.add_failure(node(1)) for _ in range(4)] == [False, False, True, False]
    assert health.is_suppressed(node(1))
    assert not health.is_suppressed(node(2))
    clock.now += 61
    assert not health.is_suppressed(node(1))
    health.add_failure(node(1))
    assert not health.is_suppressed(node(1))


def test_full_device_is_left_alone_at_once(clock: Clock) -> None:
    health = DeviceHealth(60, 10, 0, clock)
    health.suppress(node(1))
    assert health.is_suppressed(node(1))


def test_interval_of_zero_switches_it_off(clock: Clock) -> None:
    health = DeviceHealth(0, 0, 0, clock)
    health.suppress(node(1))
    health.add_failure(node(1))
    assert not health.is_suppressed(node(1))


def test_primaries_then_handoffs_up_to_the_limit(clock: Clock) -> None:
    ring = Ring(9, 3)
    health = DeviceHealth(60, 10, 0, clock)
    assert names(queue_of(ring, health, 5)) == ["sd0", "sd1", "sd2", "sd3", "sd4"]


def test_shuffle_keeps_primaries_first(clock: Clock) -> None:
    ring = Ring(6, 3)
    health = DeviceHealth(60, 10, 0, clock)
    orders = {tuple(names(queue_of(ring, health, 6, is_read=True))) for _ in range(100)}
    assert len(orders) == 6
    for order in orders:
        assert sorted(order[:3]) == ["sd0", "sd1", "sd2"]
        assert order[3:] == ("sd3", "sd4", "sd5")


def test_limited_devices_are_skipped_and_do_not_count(clock: Clock) -> None:
    ring = Ring(9, 3)
    health = DeviceHealth(60, 10, 0, clock)
    health.suppress(node(1))
    health.suppress(node(3))
    assert names(queue_of(ring, health, 4)) == ["sd0", "sd2", "sd4", "sd5"]


def test_device_limited_while_in_use_is_replaced(clock: Clock) -> None:
    ring = Ring(9, 3)
    health = DeviceHealth(60, 10, 0, clock)
    queue = queue_of(ring, health, 3)
    used = []
    for found in queue:
        used.append(found["device"])
        if found["device"] == "sd0":
            health.suppress(found)
    assert used == ["sd0", "sd1", "sd2", "sd3"]


def test_handoffs_beyond_the_limit(clock: Clock) -> None:
    ring = Ring(6, 3)
    queue = queue_of(ring, DeviceHealth(60, 10, 0, clock), 3)
    assert names(queue) == ["sd0", "sd1", "sd2"]
    assert names(queue.handoffs(2)) == ["sd3", "sd4"]
    assert names(queue.handoffs(2)) == ["sd5"]


def test_suppressed_devices_follow_the_handoffs_beyond_the_limit(clock: Clock) -> None:
    """A primary that refused connections a moment ago may be the only one with the object."""
    health = DeviceHealth(60, 10, 0, clock)
    for number in (1, 4):
        health.suppress(node(number))
    queue = queue_of(Ring(6, 3), health, 3)
    assert names(queue) == ["sd0", "sd2", "sd3"]
    assert names(queue.handoffs(2)) == ["sd5", "sd1"]
    assert names(queue.handoffs(2)) == ["sd4"]


def test_suppressed_devices_are_the_last_resort(clock: Clock) -> None:
    health = DeviceHealth(60, 10, 0, clock)
    for number in (0, 1, 3):
        health.suppress(node(number))
    # Two usable ones of four are a quorum of three replicas: the others are left alone.
    assert names(queue_of(Ring(5, 3), health, 6)) == ["sd2", "sd4"]
    # One is not: then those that failed are tried as well, in their order.
    health.suppress(node(4))
    assert names(queue_of(Ring(5, 3), health, 6)) == ["sd2", "sd0", "sd1", "sd3", "sd4"]


def test_suppressed_devices_replace_usable_ones_that_fail(clock: Clock) -> None:
    health = DeviceHealth(60, 10, 0, clock)
    health.add_failure(node(1))  # an earlier one, which says nothing of this request
    for number in (0, 3):
        health.suppress(node(number))
    queue = queue_of(Ring(4, 3), health, 6)
    assert names(queue) == ["sd1", "sd2"]
    health.add_failure(node(1))
    assert names(queue) == ["sd0", "sd3"]
    health.add_failure(node(2))
    assert names(queue) == [], "each comes once"


def test_a_first_failure_after_old_ones_counts(clock: Clock) -> None:
    health = DeviceHealth(60, 10, 0, clock)
    health.suppress(node(1))
    clock.now += 61
    health.suppress(node(0))
    queue = queue_of(Ring(3, 3), health, 6)
    assert names(queue) == ["sd1", "sd2"]
    health.add_failure(node(1))
    assert names(queue) == ["sd0"]


def test_a_suppressed_device_that_serves_is_trusted_again(clock: Clock) -> None:
    health = DeviceHealth(60, 1, 0, clock)
    health.forgive(node(1))
    health.add_failure(node(1))
    health.forgive(node(1))
    health.add_failure(node(1))
    assert health.is_suppressed(node(1)), "failures count while it is trusted"
    health.forgive(node(1))
    assert not health.is_suppressed(node(1))

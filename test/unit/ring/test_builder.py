"""Operations of the builder either succeed or change nothing."""

from typing import Any

import pytest

from ring.builder import RingBuilder
from ring.errors import BuilderError, DeviceError
from ring.weight_balance import BALANCE_MAX


def device(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "region": 1,
        "zone": number,
        "ip": "10.0.0.1",
        "port": 6200,
        "device": f"sd{number}",
        "weight": 1,
        **changes,
    }


@pytest.fixture
def builder() -> RingBuilder:
    builder = RingBuilder.create(4, 2, 1)
    for number in range(3):
        builder.add_device(device(number))
    return builder


@pytest.mark.parametrize(
    "numbers",
    [
        (-1, 3, 1),
        (33, 3, 1),
        (4, 0, 1),
        (4, 0.5, 1),
        (4, 3, -1),
        (4, 3, 256),
        (4, 1000, 1),
        (4, float("nan"), 1),
    ],
)
def test_numbers_out_of_range_are_refused(numbers: tuple[int, float, int]) -> None:
    with pytest.raises(BuilderError, match="must be"):
        RingBuilder.create(*numbers)


def test_each_change_raises_the_version(builder: RingBuilder) -> None:
    assert builder.version == 3
    builder.set_weight(0, 2)
    builder.remove_device(1)
    assert (builder.version, builder.devs_changed) == (5, True)
    builder.add_device(device(5))
    builder.rebalance()
    assert (builder.version, builder.devs_changed) == (7, False)


def test_the_same_place_is_not_added_twice(builder: RingBuilder) -> None:
    with pytest.raises(BuilderError, match=r"Device 1 already uses 10\.0\.0\.1:6200/sd1"):
        builder.add_device(device(1, zone=7))
    with pytest.raises(BuilderError, match="device id 1 is taken"):
        builder.add_device(device(9, id=1))
    with pytest.raises(DeviceError):
        builder.add_device(device(9, port="x"))
    assert len(builder.devs) == 3


def test_an_id_may_be_chosen(builder: RingBuilder) -> None:
    builder.add_device(device(9, id=5))
    assert builder.devs[3:5] == [None, None]
    assert builder.add_device(device(10))["id"] == 3


@pytest.mark.parametrize("dev_id", [-1, 3, 99])
def test_devices_that_are_not_there(builder: RingBuilder, dev_id: int) -> None:
    with pytest.raises(BuilderError, match=f"there is no device {dev_id}"):
        builder.remove_device(dev_id)
    with pytest.raises(BuilderError, match=f"there is no device {dev_id}"):
        builder.set_weight(dev_id, 1)


def test_a_device_marked_for_removal_keeps_its_weight(builder: RingBuilder) -> None:
    builder.remove_device(0)
    builder.remove_device(0)
    assert builder.removed_ids == [0]
    with pytest.raises(BuilderError, match="is marked for removal"):
        builder.set_weight(0, 5)


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_no_such_weight(builder: RingBuilder, weight: float) -> None:
    with pytest.raises(DeviceError, match="not a weight"):
        builder.set_weight(0, weight)
    assert builder.version == 3


def test_a_refused_rebalance_changes_nothing(builder: RingBuilder) -> None:
    builder.rebalance("x")
    builder.remove_device(0)
    builder.remove_device(1)
    table = [row[:] for row in builder.table]
    version = builder.version
    with pytest.raises(BuilderError, match="there is 1"):
        builder.rebalance("x")
    assert (builder.table, builder.version, builder.removed_ids) == (table, version, [0, 1])


def test_nothing_changes_while_the_power_is_raised(builder: RingBuilder) -> None:
    builder.next_part_power = 5
    for operation in (
        lambda: builder.add_device(device(7)),
        lambda: builder.remove_device(0),
        builder.rebalance,
    ):
        with pytest.raises(BuilderError, match="partition power is being raised"):
            operation()


def test_search(builder: RingBuilder) -> None:
    builder.add_device(device(9, meta="shiny new", ip="10.0.0.2"))
    assert [dev["id"] for dev in builder.search({"zone": 1})] == [1]
    assert [dev["id"] for dev in builder.search({"ip": "10.0.0.2", "meta": "new"})] == [3]
    assert builder.search({"port": 1}) == []


def test_balance_of_a_drained_device_stands_out(builder: RingBuilder) -> None:
    assert builder.balance() == 100.0, "nothing is assigned yet"
    builder.rebalance("x")
    builder.set_weight(0, 0)
    assert builder.balance_by_device()[0] == BALANCE_MAX


def test_validate(builder: RingBuilder) -> None:
    with pytest.raises(BuilderError, match="rebalance first"):
        builder.validate()
    builder.rebalance("x")
    builder.validate()
    good = builder.table[1][3]
    builder.table[1][3] = builder.table[0][3]
    with pytest.raises(BuilderError, match="partition 3 is on one device twice"):
        builder.validate()
    builder.table[1][3] = 9
    with pytest.raises(BuilderError, match="partition 3 is on a device that is not there"):
        builder.validate()
    builder.table[1][3] = good
    next(builder.devices())["parts"] += 1
    with pytest.raises(BuilderError, match=r"devices count \d+ replicas, \d+ are assigned"):
        builder.validate()


def test_hours_count_up_to_255(builder: RingBuilder) -> None:
    builder.rebalance("x", now=lambda: 0.0)
    assert set(builder.hours_since_move) == {0}
    builder.rebalance("x", now=lambda: 3600.0 * 2 + 5)
    assert set(builder.hours_since_move) == {2}
    assert builder.seconds_until_move(now=lambda: 3600.0 * 2 + 105) == 3500
    builder.rebalance("x", now=lambda: 3600.0 * 999)
    assert set(builder.hours_since_move) == {255}
    builder.rebalance("x", now=lambda: 3600.0 * 5)
    assert set(builder.hours_since_move) == {255}, "a clock set back ages nothing"


def test_wide_ids_are_used_when_needed_and_kept_apart_from_nobody(builder: RingBuilder) -> None:
    builder.rebalance("x")
    builder.add_device(device(9, id=65535))
    builder.rebalance("x", now=lambda: 1e10)
    assert builder.dev_id_bytes == 4
    builder.validate()
    assert 65535 in builder.table[0] or 65535 in builder.table[1]

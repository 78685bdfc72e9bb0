"""Raising the partition power: the same states, step by step, as OpenStack Swift's builder."""

import pickle
from collections.abc import Callable

import pytest
from swift.common.ring import RingBuilder as SwiftRingBuilder

from ring import part_power
from ring.builder import RingBuilder
from ring.builder_file import decode_builder, encode_builder
from ring.errors import BuilderError, RingError


def rebalanced() -> RingBuilder:
    builder = RingBuilder.create(4, 2.5, 1)
    for number in range(6):
        builder.add_device(
            {
                "region": 1,
                "zone": number % 3,
                "ip": f"10.0.0.{number}",
                "port": 6200,
                "device": "sda",
                "weight": 1 + number % 2,
            }
        )
    builder.rebalance("1")
    return builder


def test_an_increase_is_that_of_openstack_swift() -> None:
    ours = rebalanced()
    theirs = SwiftRingBuilder.from_dict(pickle.loads(encode_builder(ours)))
    before = [row[:] for row in ours.table]
    for mine, yours in (
        (part_power.prepare_increase, theirs.prepare_increase_partition_power),
        (part_power.increase, theirs.increase_partition_power),
        (part_power.finish_increase, theirs.finish_increase_partition_power),
    ):
        mine(ours)
        assert yours()
        assert (ours.part_power, ours.next_part_power) == (
            theirs.part_power,
            theirs.next_part_power,
        )
        assert ours.table == theirs._replica2part2dev
        assert list(ours.hours_since_move) == list(theirs._last_part_moves)
        assert [d["parts"] for d in ours.devices()] == [d["parts"] for d in theirs._iter_devs()]
        assert ours.version == theirs.version
        ours.validate()
    assert [row[::2] for row in ours.table] == [row[1::2] for row in ours.table] == before
    assert ours.ring_data().part_shift == 32 - 5
    assert decode_builder(encode_builder(ours)) == ours
    # Twice a rounded number is not the number rounded: that much may move.
    assert ours.rebalance("2", lambda: 2e9).moved_partitions <= len(ours.devs)


def test_a_prepared_increase_can_be_taken_back() -> None:
    builder = rebalanced()
    part_power.prepare_increase(builder)
    part_power.cancel_increase(builder)
    assert builder.next_part_power == builder.part_power == 4
    part_power.finish_increase(builder)
    assert builder.next_part_power is None
    builder.rebalance("2", lambda: 2e9)


@pytest.mark.parametrize(
    ("steps", "step"),
    [
        ([], part_power.increase),
        ([], part_power.cancel_increase),
        ([], part_power.finish_increase),
        ([part_power.prepare_increase], part_power.prepare_increase),
        ([part_power.prepare_increase], part_power.finish_increase),
        ([part_power.prepare_increase], lambda builder: builder.rebalance("1")),
        ([part_power.prepare_increase], lambda builder: builder.remove_device(0)),
        ([part_power.prepare_increase, part_power.increase], part_power.increase),
        ([part_power.prepare_increase, part_power.increase], part_power.cancel_increase),
        ([part_power.prepare_increase, part_power.increase], part_power.prepare_increase),
    ],
)
def test_a_step_out_of_turn_changes_nothing(
    steps: list[Callable[[RingBuilder], None]], step: Callable[[RingBuilder], object]
) -> None:
    builder = rebalanced()
    for earlier in steps:
        earlier(builder)
    before = encode_builder(builder)
    with pytest.raises(RingError):
        step(builder)
    assert encode_builder(builder) == before


def test_the_highest_power_is_not_raised() -> None:
    builder = RingBuilder(part_power=32, replicas=1.0, min_part_hours=1)
    with pytest.raises(BuilderError, match="the highest possible"):
        part_power.prepare_increase(builder)

"""Placement: what the weights ask for, spread as far as they allow, moved as little as it takes."""

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ring.builder import RebalanceResult, RingBuilder
from ring.devices import Tier, tiers_of
from ring.errors import BuilderError
from ring.shares import device_shares

HOUR = 3600


def builder_of(
    devices: list[dict[str, Any]], part_power: int = 7, replicas: float = 3, hours: int = 1
) -> RingBuilder:
    builder = RingBuilder.create(part_power, replicas, hours)
    for number, device in enumerate(devices):
        builder.add_device({"port": 6200, "device": f"sd{number}", "weight": 1, **device})
    return builder


def place(region: int, zone: int, server: int) -> dict[str, Any]:
    return {"region": region, "zone": zone, "ip": f"10.{region}.{zone}.{server}"}


def rebalance(builder: RingBuilder, hour: int = 0, seed: str = "s") -> RebalanceResult:
    return builder.rebalance(seed, now=lambda: 1e9 + hour * HOUR)


def held(builder: RingBuilder) -> Counter[int]:
    return Counter(dev_id for row in builder.table for dev_id in row)


def crowds(builder: RingBuilder) -> list[Counter[Tier]]:
    """For each partition, how many replicas each failure domain holds."""
    tiers = {dev["id"]: tiers_of(dev) for dev in builder.devices()}
    return [
        Counter(
            tier for row in builder.table if partition < len(row) for tier in tiers[row[partition]]
        )
        for partition in range(builder.partitions)
    ]


def shares(builder: RingBuilder) -> Counter[Tier]:
    """How many replicas of a partition the weights give each failure domain."""
    by_id = device_shares({dev["id"]: dev["weight"] for dev in builder.devices()}, builder.replicas)
    result: Counter[Tier] = Counter()
    for dev in builder.devices():
        for tier in tiers_of(dev):
            result[tier] += by_id[dev["id"]]  # type: ignore[assignment]
    return result


def placed(drawn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**place(*dev["place"]), "weight": dev["weight"]} for dev in drawn]


clusters = st.lists(
    st.fixed_dictionaries(
        {
            "place": st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 3)),
            "weight": st.sampled_from([1.0, 1.5, 2.0, 10.0]),
        }
    ),
    min_size=3,
    max_size=16,
).map(placed)


@given(clusters, st.sampled_from([1, 2, 3, 1.5, 2.25, 2.875]), st.text(max_size=3))
@settings(max_examples=80, deadline=None)
def test_a_new_ring_is_exact_on_every_level(
    devices: list[dict[str, Any]], replicas: float, seed: str
) -> None:
    builder = builder_of(devices, replicas=replicas)
    rebalance(builder, seed=seed)
    builder.validate()
    share = shares(builder)
    for crowd in crowds(builder):
        for tier, value in share.items():
            assert math.floor(value + 1e-6) <= crowd[tier] <= math.ceil(value - 1e-6)
    count = held(builder)
    for dev in builder.devices():
        assert abs(count[dev["id"]] - share[tiers_of(dev)[-1]] * builder.partitions) <= 1


@given(st.integers(3, 6), st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_replicas_are_in_different_zones_if_there_are_enough(zones: int, per_zone: int) -> None:
    builder = builder_of([place(1, zone, n) for zone in range(zones) for n in range(per_zone)])
    result = rebalance(builder)
    assert result.dispersion == 0
    assert all(max(c for t, c in crowd.items() if len(t) == 2) == 1 for crowd in crowds(builder))


def new_device(number: int, zone: int) -> dict[str, Any]:
    return {**place(1, zone, number), "port": 1, "device": "new", "weight": 1}


@given(st.integers(3, 24), st.booleans())
@settings(max_examples=30, deadline=None)
def test_a_new_device_makes_little_move(count: int, is_one_zone: bool) -> None:
    """One of n devices: n counts the new one, and a share of a replica is rounded up."""
    zones = 1 if is_one_zone else count
    builder = builder_of([place(1, n % zones, n) for n in range(count)], part_power=9)
    rebalance(builder)
    builder.add_device(new_device(count, count))
    result = rebalance(builder, hour=1)
    assert result.changed_replicas <= 1.1 * builder.partitions * 3 / (count + 1) + 1


@given(st.integers(3, 20), st.integers(2, 5))
@settings(max_examples=20, deadline=None)
def test_a_new_device_in_an_uneven_zone_makes_little_move(count: int, zones: int) -> None:
    """Where what the zones should hold of each partition changes too, a little more moves."""
    builder = builder_of([place(1, n % zones, n) for n in range(count)])
    rebalance(builder)
    builder.add_device(new_device(count, count % zones))
    result = rebalance(builder, hour=1)
    assert result.changed_replicas <= 1.2 * builder.partitions * 3 / (count + 1) + 1


@given(clusters, st.sampled_from([2, 3, 2.5]), st.data())
@settings(max_examples=40, deadline=None)
def test_a_repair_moves_no_more_than_it_has_to(
    devices: list[dict[str, Any]], replicas: float, data: st.DataObject
) -> None:
    """With the failure domains as they were, what moves is near what the quotas differ by.

    Where a device cannot hand to another directly, a chain of moves does it: several for one.
    """
    builder = builder_of(devices + [place(3, 1, n) for n in range(3)], replicas=replicas)
    rebalance(builder)
    assert rebalance(builder, hour=1).changed_replicas == 0, "nothing changed, nothing moves"
    before = held(builder)
    builder.set_weight(data.draw(st.integers(0, len(devices) - 1)), 0.5)
    moved = rebalance(builder, hour=2).changed_replicas
    after = Counter({dev["id"]: dev["parts"] + dev["parts_wanted"] for dev in builder.devices()})
    needed = sum((after - before).values())
    assert moved <= 4 * needed + 4


@given(clusters, st.sampled_from([2, 3, 2.5]), st.sampled_from([0.0, 0.1, 1.0]))
@settings(max_examples=40, deadline=None)
def test_the_weights_are_kept_within_the_overload(
    devices: list[dict[str, Any]], replicas: float, overload: float
) -> None:
    builder = builder_of(devices, replicas=replicas)
    builder.set_overload(overload)
    rebalance(builder)
    count, slots = held(builder), sum(map(len, builder.table))
    by_id = device_shares(
        {dev["id"]: dev["weight"] for dev in builder.devices()}, slots / builder.partitions
    )
    for dev_id, share in by_id.items():
        assert count[dev_id] <= share * (1 + overload) * builder.partitions + 1


def test_enough_overload_spreads_every_partition() -> None:
    heavy = [{**place(1, n % 2, n), "weight": 9 if n % 2 else 1} for n in range(8)]
    builder = builder_of(heavy, replicas=2)
    assert rebalance(builder).dispersion > 0
    builder.set_overload(builder.required_overload())
    for hour in range(1, 4):
        result = rebalance(builder, hour)
    assert result.dispersion == 0


@given(st.integers(3, 20))
@settings(max_examples=20, deadline=None)
def test_what_moves_goes_to_the_new_device(count: int) -> None:
    builder = builder_of([place(1, n, n) for n in range(count)])
    rebalance(builder)
    before = [row[:] for row in builder.table]
    new = builder.add_device(new_device(count, count))
    rebalance(builder, hour=1)
    assert held(builder)[new["id"]] >= builder.partitions * 3 // (count + 1)
    for old, row in zip(before, builder.table, strict=True):
        assert all(a == b or b == new["id"] for a, b in zip(old, row, strict=True))


@given(clusters, st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_changes_keep_replicas_apart_and_end_where_the_weights_say(
    devices: list[dict[str, Any]], data: st.DataObject
) -> None:
    builder = builder_of(devices + [place(3, 1, n) for n in range(3)])
    rebalance(builder)
    victims = data.draw(st.sets(st.integers(0, len(devices) - 1), max_size=len(devices)))
    for dev_id in victims:
        if data.draw(st.booleans()):
            builder.remove_device(dev_id)
        else:
            builder.set_weight(dev_id, data.draw(st.sampled_from([0.0, 0.5, 3.0])))
    for hour in range(1, 6):
        rebalance(builder, hour)
        builder.validate()
        assert sum(dev["parts"] for dev in builder.devices()) == 3 * builder.partitions
    assert [dev["parts_wanted"] for dev in builder.devices() if dev["parts_wanted"]] == []


def test_a_partition_moves_one_replica_in_min_part_hours() -> None:
    builder = builder_of([place(1, n, n) for n in range(3)], hours=4)
    rebalance(builder)
    for n in range(3, 9):
        builder.add_device(new_device(n, n))
    assert rebalance(builder, hour=3).moved_partitions == 0
    before = [row[:] for row in builder.table]
    assert rebalance(builder, hour=4).moved_partitions > 0
    for partition in range(builder.partitions):
        moves = sum(
            a[partition] != b[partition] for a, b in zip(before, builder.table, strict=True)
        )
        assert moves <= 1


def test_what_a_dead_disk_made_move_stays_for_all_of_min_part_hours() -> None:
    builder = builder_of([place(1, n, n) for n in range(8)], hours=1)
    rebalance(builder)
    builder.remove_device(0)
    assert builder.rebalance("s", now=lambda: 1e9 + 59 * 60).moved_partitions > 0
    builder.add_device({**new_device(9, 9), "weight": 8})
    assert builder.rebalance("s", now=lambda: 1e9 + 60 * 60).moved_partitions == 0
    assert builder.rebalance("s", now=lambda: 1e9 + 119 * 60).moved_partitions > 0


def test_a_removed_device_is_replaced_at_once_and_its_id_is_free_again() -> None:
    builder = builder_of([place(1, n, n) for n in range(5)], hours=24)
    rebalance(builder)
    builder.remove_device(1)
    result = rebalance(builder)
    assert result.removed_devices == 1
    assert builder.devs[1] is None
    assert 1 not in held(builder)
    builder.validate()
    assert builder.add_device(new_device(9, 9))["id"] == 1


def test_a_device_without_weight_is_drained() -> None:
    builder = builder_of([place(1, n, n) for n in range(5)])
    rebalance(builder)
    builder.set_weight(2, 0)
    for hour in range(1, 4):
        rebalance(builder, hour)
    assert held(builder)[2] == 0
    assert builder.devs[2] is not None
    assert builder.balance() < 2


@given(clusters, st.data())
@settings(max_examples=60, deadline=None)
def test_one_rebalance_empties_a_device_without_weight(
    devices: list[dict[str, Any]], data: st.DataObject
) -> None:
    """Whatever else its partitions may need: each moves one replica only."""
    builder = builder_of(devices + [place(3, 1, n) for n in range(3)])
    rebalance(builder)
    dev_id = data.draw(st.integers(0, len(devices) - 1))
    builder.set_weight(dev_id, 0)
    rebalance(builder, hour=1)
    assert held(builder)[dev_id] == 0


def test_too_heavy_a_device_holds_each_partition_once() -> None:
    builder = builder_of([{**place(1, n, n), "weight": 1000 if n == 0 else 1} for n in range(4)])
    rebalance(builder)
    builder.validate()
    assert held(builder)[0] == builder.partitions


def test_the_same_seed_gives_the_same_ring_and_another_gives_another() -> None:
    tables = []
    for seed in ("a", "a", "b"):
        builder = builder_of([place(1, n % 3, n) for n in range(9)])
        rebalance(builder, seed=seed)
        tables.append(builder.table)
    assert tables[0] == tables[1] != tables[2]


def test_partners_of_a_device_are_many() -> None:
    """When a device fails, all others should share in copying what it held."""
    builder = builder_of([place(1, n % 4, n) for n in range(12)], part_power=12)
    rebalance(builder)
    partners = Counter(
        other[partition]
        for row in builder.table
        for partition, dev_id in enumerate(row)
        if dev_id == 0
        for other in builder.table
    )
    del partners[0]
    assert len(partners) == 9, "every device of the three other zones"
    assert max(partners.values()) < 2 * min(partners.values())


def test_dispersion_shows_the_crowds_that_the_weights_make() -> None:
    builder = builder_of([{**place(1, n % 2, n), "weight": 9 if n % 2 else 1} for n in range(8)])
    result = rebalance(builder)
    assert result.dispersion > 0, "the weights put three replicas into one zone now and then"
    assert builder.dispersion == result.dispersion


def test_a_move_may_not_crowd_a_zone() -> None:
    builder = builder_of([place(1, n % 3, n) for n in range(9)])
    rebalance(builder)
    for dev_id in (0, 1, 2):  # one in each zone: the zones stay equal
        builder.set_weight(dev_id, 0.5)
    assert rebalance(builder, hour=1).changed_replicas > 0
    assert builder.dispersion == 0


def test_another_replica_count_is_filled_up_or_cut() -> None:
    builder = builder_of([place(1, n, n) for n in range(5)])
    rebalance(builder)
    for hour, replicas in enumerate((4, 2, 2.5, 3.25, 3), 1):
        builder.set_replicas(replicas)
        rebalance(builder, hour)
        builder.validate()
        assert sum(map(len, builder.table)) == replicas * builder.partitions


@pytest.mark.parametrize(
    ("count", "replicas", "sentence"),
    [
        (0, 3, "3 replicas need at least 3 devices with weight, there are 0"),
        (2, 3, "3 replicas need at least 3 devices with weight, there are 2"),
        (2, 2.5, "2.5 replicas need at least 3 devices with weight, there are 2"),
    ],
)
def test_what_cannot_be_placed_is_refused(count: int, replicas: float, sentence: str) -> None:
    builder = builder_of([place(1, n, n) for n in range(count)])
    builder.replicas = replicas
    with pytest.raises(BuilderError, match=sentence):
        rebalance(builder)
    assert builder.table == []

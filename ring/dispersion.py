# SPDX-License-Identifier: Apache-2.0
"""How well a ring spreads each partition, in the figure that operators know as dispersion."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations, repeat
from operator import eq

from ring.devices import DEVICE_TIER_LENGTH, Device, Tier, tiers_of
from ring.shares import most_unique

# tier -> number of partitions with 0, 1, 2, ... replicas in it
Graph = dict[Tier, list[int]]


def measure(
    devices: Sequence[Device], rows: Sequence[array[int]], partitions: int
) -> tuple[float, Graph]:
    """Percent of all replicas that stand in a domain which holds too many of their partition.

    With it the graph: how many partitions have how many replicas in each tier.
    """
    slots = sum(len(row) for row in rows)
    if not slots:
        return 0.0, {}
    tiers = {device["id"]: tiers_of(device) for device in devices}
    most = most_unique(devices, slots / partitions)
    graph: Graph = {}
    lengths = range(1, DEVICE_TIER_LENGTH + 1)
    at_risk = 0
    # The rows as far as all of them reach, then those that go on.
    shortest = len(rows[-1])
    for part in (
        [row[:shortest] for row in rows],
        [row[shortest:] for row in rows if len(row) > shortest],
    ):
        if part:
            surplus = [_surplus(part, tiers, length, most, graph, len(rows)) for length in lengths]
            at_risk += sum(map(max, *surplus))
    for counts in graph.values():
        counts[0] = partitions - sum(counts)
    return 100.0 * at_risk / slots, graph


def _surplus(
    rows: Sequence[array[int]],
    tiers: Mapping[int, Sequence[Tier]],
    length: int,
    most: Mapping[Tier, int],
    graph: Graph,
    replicas: int,
) -> Iterator[int]:
    """By partition, the replicas too many in tiers of one length; counts them in ``graph``."""
    numbered, places = places_of(rows, {i: path[length - 1] for i, path in tiers.items()})

    def add(number: int, count: int, partitions: int) -> int:
        tier = numbered[number]
        graph.setdefault(tier, [0] * (replicas + 1))[count] += partitions
        return max(0, count - most.get(tier, 0))

    if not shares_a_place(places):
        over_by_number = {n: add(n, 1, held) for n, held in Counter(chain(*places)).items()}
        if not any(over_by_number.values()):
            return repeat(0, len(rows[0]))
        return map(sum, zip(*(map(over_by_number.__getitem__, p) for p in places), strict=True))
    over: dict[tuple[int, ...], int] = {}
    for place, partitions in Counter(zip(*places, strict=True)).items():
        over[place] = sum(add(n, place.count(n), partitions) for n in set(place))
    return map(over.__getitem__, zip(*places, strict=True))


def places_of(
    rows: Sequence[array[int]], tier_of: Mapping[int, Tier]
) -> tuple[list[Tier], list[array[int]]]:
    """The different tiers of ``tier_of`` (by device id), and the rows with their numbers in it.

    Few combinations of tiers stand for many partitions: what is found for one need not be found
    again.
    """
    number = {tier: index for index, tier in enumerate(dict.fromkeys(tier_of.values()))}
    number_of = {dev_id: number[tier] for dev_id, tier in tier_of.items()}
    return list(number), [array("I", map(number_of.__getitem__, row)) for row in rows]


def shares_a_place(places: Sequence[array[int]]) -> bool:
    """Whether any partition is in one tier twice."""
    return any(any(map(eq, a, b)) for a, b in combinations(places, 2))

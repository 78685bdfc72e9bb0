# SPDX-License-Identifier: Apache-2.0
"""The dispersion of a ring: the figure for the spread of each partition over failure domains."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations, repeat
from operator import eq

from ring.devices import DEVICE_TIER_LENGTH, Device, Tier, tiers_of
from ring.shares import most_unique

# tier -> number of partitions with 0, 1, 2, ... replicas in it
Graph = dict[Tier, list[int]]
Rows = Sequence["array[int]"]


def measure(devices: Sequence[Device], rows: Rows, partitions: int) -> tuple[float, Graph]:
    """The percentage of replicas in a domain with too many replicas of their partition.

    The second value is the graph: for each tier, the number of partitions by replicas in it.
    """
    slots = sum(len(row) for row in rows)
    if not slots:
        return 0.0, {}
    tiers = {device["id"]: tiers_of(device) for device in devices}
    most = most_unique(devices, slots / partitions)
    graph: Graph = defaultdict(lambda: [0] * (len(rows) + 1))
    at_risk = 0
    # First the partitions that all rows have, then those that only the longer rows have.
    shortest = len(rows[-1])
    for part in (
        [row[:shortest] for row in rows],
        [row[shortest:] for row in rows if len(row) > shortest],
    ):
        if part:
            nothing = repeat(0, len(part[0]))
            at_risk += sum(map(max, nothing, *_surpluses(part, tiers, most, graph)))
    for counts in graph.values():
        counts[0] = partitions - sum(counts)
    return 100.0 * at_risk / slots, dict(graph)


def _surpluses(
    rows: Rows, tiers: Mapping[int, Sequence[Tier]], most: Mapping[Tier, int], graph: Graph
) -> list[Iterator[int]]:
    """The surplus replicas by level of tiers and by partition; adds all counts to ``graph``."""
    surpluses = []
    for length in range(1, DEVICE_TIER_LENGTH + 1):
        tier_of = {dev_id: path[length - 1] for dev_id, path in tiers.items()}
        numbered, places = places_of(rows, tier_of)
        if not shares_a_place(places):
            # Replicas in different zones are on different servers and devices.
            surpluses.append(_surplus_apart(rows, tiers, length, most, graph))
            break
        over: dict[tuple[int, ...], int] = {}
        for place, partitions in Counter(zip(*places, strict=True)).items():
            over[place] = 0
            for number in set(place):
                tier, count = numbered[number], place.count(number)
                graph[tier][count] += partitions
                over[place] += max(0, count - most.get(tier, 0))
        surpluses.append(map(over.__getitem__, zip(*places, strict=True)))
    return surpluses


def _surplus_apart(
    rows: Rows,
    tiers: Mapping[int, Sequence[Tier]],
    length: int,
    most: Mapping[Tier, int],
    graph: Graph,
) -> Iterator[int]:
    """As ``_surpluses``, from a level on where no tier holds two replicas of a partition.

    Then only replicas in a tier without weight are surplus, and their devices show that.
    """
    held = Counter(chain(*rows))
    for dev_id, count in held.items():
        for tier in tiers[dev_id][length - 1 :]:
            graph[tier][1] += count
    is_closed = {dev_id: int(tiers[dev_id][-1] not in most) for dev_id in held}
    if not any(is_closed.values()):
        return repeat(0, len(rows[0]))
    return map(sum, zip(*(map(is_closed.__getitem__, row) for row in rows), strict=True))


def places_of(rows: Rows, tier_of: Mapping[int, Tier]) -> tuple[list[Tier], list[list[int]]]:
    """The different tiers of ``tier_of`` (by device id), and the rows as numbers of tiers.

    Many partitions have the same combination of tiers, so that results for one can be reused.
    """
    number = {tier: index for index, tier in enumerate(dict.fromkeys(tier_of.values()))}
    number_of = {dev_id: number[tier] for dev_id, tier in tier_of.items()}
    return list(number), [list(map(number_of.__getitem__, row)) for row in rows]


def shares_a_place(places: Sequence[Sequence[int]]) -> bool:
    """Whether any partition is in one tier twice."""
    return any(any(map(eq, a, b)) for a, b in combinations(places, 2))

# SPDX-License-Identifier: Apache-2.0
"""How well a ring spreads each partition, in the figure that operators know as dispersion."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Sequence

from ring.devices import DEVICE_TIER_LENGTH, Device, Tier, tiers_of

# tier -> number of partitions with 0, 1, 2, ... replicas in it
Graph = dict[Tier, list[int]]


def most_unique(devices: Sequence[Device], replicas: int) -> dict[Tier, int]:
    """The most replicas of one partition a tier holds if all are spread evenly, weights aside."""
    children: dict[Tier, set[Tier]] = defaultdict(set)
    capacity: dict[Tier, int] = defaultdict(int)
    for device in devices:
        if device["weight"] > 0:
            parent: Tier = ()
            for tier in tiers_of(device):
                children[parent].add(tier)
                capacity[tier] += 1
                parent = tier
    most: dict[Tier, int] = {(): replicas}
    for length in range(DEVICE_TIER_LENGTH):
        for tier in [tier for tier in most if len(tier) == length]:
            most |= _even_split(most[tier], {child: capacity[child] for child in children[tier]})
    return most


def _even_split(replicas: int, capacity: dict[Tier, int]) -> dict[Tier, int]:
    """The level to which replicas fill tiers of these capacities, rounded up for each."""
    level = 0
    while sum(min(level, room) for room in capacity.values()) < replicas:
        if level > replicas:
            break  # more replicas than devices
        level += 1
    return {tier: min(level, room) for tier, room in capacity.items()}


def measure(
    devices: Sequence[Device], rows: Sequence[array[int]], partitions: int
) -> tuple[float, Graph]:
    """Percent of all replicas that stand in a domain which holds too many of their partition.

    With it the graph: how many partitions have how many replicas in each tier.
    """
    tiers = {device["id"]: tiers_of(device) for device in devices}
    most = most_unique(devices, len(rows))
    graph: Graph = {}
    at_risk = 0
    for partition in range(partitions):
        crowd: dict[Tier, int] = defaultdict(int)
        for row in rows:
            if partition < len(row):
                for tier in tiers[row[partition]]:
                    crowd[tier] += 1
        surplus = [0] * (DEVICE_TIER_LENGTH + 1)
        for tier, count in crowd.items():
            counts = graph.setdefault(tier, [partitions] + [0] * len(rows))
            counts[0] -= 1
            counts[count] += 1
            surplus[len(tier)] += max(0, count - most.get(tier, 0))
        at_risk += max(surplus)
    slots = sum(len(row) for row in rows)
    return (100.0 * at_risk / slots if slots else 0.0), graph

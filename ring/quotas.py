# SPDX-License-Identifier: Apache-2.0
"""The quotas: the number of replicas of all partitions for each tier, its exact share rounded.

Every tier gets its exact share rounded down or up. The quotas of one parent's tiers add up to the
parent's quota. Of all such roundings the one is chosen that puts the fewest replicas at risk. The
next criterion is the least deviation of the worst device from its weight. Then the least loss of
balance counts, and last, which tiers hold the additional replica already.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ring.devices import DEVICE_TIER_LENGTH, Tier
from ring.shares import ROOT

# Shares are floats: a value this close to a whole number of replicas counts as that number.
_EPSILON = 1e-4

# The least and the most replicas that a tier may get.
_Ranges = Mapping[Tier, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The values to round.

    ``exact``: replicas by tier; ``ideal``: the replicas of a device by its weight alone;
    ``crowded``: tiers where one more replica is too close to others of its partition; ``held``:
    present replicas.
    """

    children: Mapping[Tier, Sequence[Tier]]
    exact: Mapping[Tier, float]
    ideal: Mapping[Tier, float]
    crowded: frozenset[Tier]
    held: Mapping[Tier, int]


def quotas(wanted: Wanted, slots: int) -> dict[Tier, int]:
    """The quota of each tier; ``slots`` is that of the root."""
    split = _Split(wanted, slots)
    free = {tier: _around(value) for tier, value in wanted.exact.items()}
    best = split.down(free)
    fewest = split.at_risk(best)
    # The allowed deviation of a device: the least possible one for which quotas exist.
    limits = sorted({off for dev in wanted.ideal for off in split.distances(dev)})
    limits = limits[: bisect_left(limits, split.worst(best))]
    low, high = 0, len(limits)
    while low < high:
        middle = (low + high) // 2
        ranges = split.ranges(free, limits[middle])
        found = split.down(ranges) if ranges else None
        if found and split.at_risk(found) <= fewest:
            best, high = found, middle
        else:
            low = middle + 1
    return best


class _Split:
    """Ways to split the slots."""

    def __init__(self, wanted: Wanted, slots: int) -> None:
        self._wanted = wanted
        self._slots = slots
        self._down = sorted(wanted.exact, key=len)
        cost = self._costs_of_one_more()
        self._order = {
            tier: (
                value - floor(value) <= _EPSILON,
                tier in wanted.crowded,
                round(cost[tier], 9),
                wanted.held.get(tier, 0) <= floor(value),
            )
            for tier, value in wanted.exact.items()
        }

    def distances(self, device: Tier) -> list[float]:
        """The relative deviation of a device from its weight, rounded down and rounded up."""
        return [self._off(device, quota) for quota in _around(self._wanted.exact[device])]

    def worst(self, found: Mapping[Tier, int]) -> float:
        """The largest relative deviation of a device from its weight."""
        return max(self._off(device, found[device]) for device in self._wanted.ideal)

    def at_risk(self, found: Mapping[Tier, int]) -> int:
        """The replicas that the spread does not allow: those of crowded tiers rounded up."""
        exact = self._wanted.exact
        return sum(max(0, found[tier] - floor(exact[tier])) for tier in self._wanted.crowded)

    def ranges(self, free: _Ranges, limit: float) -> _Ranges | None:
        """Narrow ``free`` so that no device deviates by more; None if that is impossible."""
        found: dict[Tier, tuple[int, int]] = {}
        low: dict[Tier, int] = defaultdict(int)
        high: dict[Tier, int] = defaultdict(int)
        for tier in reversed(self._down):
            least, most = free[tier]
            if len(tier) == DEVICE_TIER_LENGTH:
                fits = [n for n in range(least, most + 1) if self._off(tier, n) <= limit]
                if not fits:
                    return None
                least, most = fits[0], fits[-1]
            else:
                least, most = max(least, low[tier]), min(most, high[tier])
                if least > most:
                    return None
            found[tier] = least, most
            if tier:
                low[tier[:-1]] += least
                high[tier[:-1]] += most
        return found if found[ROOT][0] <= self._slots <= found[ROOT][1] else None

    def down(self, ranges: _Ranges) -> dict[Tier, int]:
        """Choose quotas within ranges, from the root down."""
        quota = {ROOT: self._slots}
        for parent in self._down:
            tiers = self._wanted.children.get(parent, ())
            if not tiers:
                continue
            quota |= {tier: ranges[tier][0] for tier in tiers}
            spare = quota[parent] - sum(quota[tier] for tier in tiers)
            ordered = sorted(tiers, key=self._order.__getitem__)
            for tier in ordered:
                more = min(max(0, spare), ranges[tier][1] - quota[tier])
                quota[tier] += more
                spare -= more
            # Floats: some shares that were rounded to the nearest whole number are not whole.
            for tier in ordered[: max(0, spare)]:
                quota[tier] += 1
            exact = self._wanted.exact
            for tier in sorted(tiers, key=lambda tier: exact[tier] - quota[tier])[: max(0, -spare)]:
                quota[tier] -= 1
        return quota

    def _off(self, device: Tier, quota: int) -> float:
        ideal = self._wanted.ideal[device]
        return abs(quota - ideal) / ideal

    def _costs_of_one_more(self) -> dict[Tier, float]:
        """The loss of balance if a tier's quota is rounded up instead of down.

        For a device it is the difference of the two deviations. A wider tier gives the additional
        replica to the device with the least cost that is not rounded up yet.
        """
        devices: dict[Tier, list[float]] = defaultdict(list)
        floors: dict[Tier, int] = defaultdict(int)
        exact = self._wanted.exact
        for tier in self._wanted.ideal:
            low = floor(exact[tier])
            cost = self._off(tier, low + 1) - self._off(tier, low)
            for length in range(DEVICE_TIER_LENGTH + 1):
                devices[tier[:length]].append(cost)
                floors[tier[:length]] += low
        costs = {}
        for tier, value in exact.items():
            rounded_up = max(0, floor(value) - floors[tier])
            costs[tier] = sorted(devices[tier])[min(rounded_up, len(devices[tier]) - 1)]
        return costs


def floor(value: float) -> int:
    """Round down; a value very close to the next whole number counts as that number."""
    return math.floor(value + _EPSILON)


def _around(value: float) -> tuple[int, int]:
    low = floor(value)
    return low, low + (value - low > _EPSILON)

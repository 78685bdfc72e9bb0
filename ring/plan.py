# SPDX-License-Identifier: Apache-2.0
"""How many replicas every failure domain should hold, in whole numbers.

A domain holds its share of each partition rounded down or up and nothing else: that is as unique as
possible under the given shares. Of all partitions together it holds its quota.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ring.devices import DEVICE_TIER_LENGTH, Device, Tier, tiers_of
from ring.shares import ROOT, children_of, most_unique

# Shares are floats: what is this near to a whole number of replicas, of one partition or of all, is
# meant to be it.
_EPSILON = 1e-9
_QUOTA_EPSILON = 1e-4


@dataclass(frozen=True, slots=True)
class Plan:
    """What a balanced ring looks like; keys are tiers of devices with weight.

    ``share``: replicas of one partition that belong in a tier, on average; ``at_least`` and
    ``at_most`` are its whole numbers below and above. ``quota``: replicas of all partitions.
    """

    children: Mapping[Tier, list[Tier]]
    share: Mapping[Tier, float]
    at_least: Mapping[Tier, int]
    at_most: Mapping[Tier, int]
    quota: Mapping[Tier, int]


def row_lengths(replicas: float, partitions: int) -> list[int]:
    """Partitions in each row of the table; a fraction of a replica makes a short last row."""
    whole = int(replicas)
    short = int(partitions * (replicas - whole))
    return [partitions] * whole + ([short] if short else [])


def make_plan(
    devices: Iterable[Device],
    target: Mapping[int, float],
    slots: int,
    held: Mapping[int, int],
) -> Plan:
    """The plan for ``slots`` replicas of all partitions by the ``target`` shares of devices.

    ``held`` (device id -> replicas now) decides which way to round, so that less moves.
    """
    weighted = [device for device in devices if device["weight"] > 0]
    children = children_of(weighted)
    share: dict[Tier, float] = defaultdict(float)
    held_by_tier: dict[Tier, int] = defaultdict(int)
    for device in weighted:
        for tier in (ROOT, *tiers_of(device)):
            share[tier] += target[device["id"]]
            held_by_tier[tier] += held.get(device["id"], 0)
    partitions = slots / share[ROOT]
    exact = {tier: value * partitions for tier, value in share.items()}
    most = most_unique(weighted, share[ROOT])
    # Replicas above this many are at risk: of such tiers as few as possible are rounded up.
    is_crowded = {
        tier: _floor(value) >= most[tier] * partitions - _QUOTA_EPSILON
        for tier, value in exact.items()
    }
    cost = {
        tier: (is_crowded[tier], round(one_more, 9), held_by_tier[tier] <= _floor(exact[tier]))
        for tier, one_more in _costs_of_one_more(exact).items()
    }
    quota = {ROOT: slots}
    for tier in sorted(share, key=len):
        quota |= _split_quota(quota[tier], children.get(tier, []), exact, cost)
    return Plan(
        children=children,
        share=dict(share),
        at_least={tier: math.floor(value + _EPSILON) for tier, value in share.items()},
        at_most={tier: math.ceil(value - _EPSILON) for tier, value in share.items()},
        quota=quota,
    )


def device_id(tier: Tier) -> int:
    """The device that a tier of full length is."""
    dev_id = tier[-1]
    assert isinstance(dev_id, int)
    return dev_id


def _costs_of_one_more(exact: Mapping[Tier, float]) -> dict[Tier, float]:
    """What the balance loses if a tier's quota is rounded up and not down.

    For a device it is the difference of what it is then off, as a part of what it should hold. A
    wider tier gives the one more to whichever of its devices has the least cost and is not rounded
    up yet.
    """
    devices: dict[Tier, list[float]] = defaultdict(list)
    floors: dict[Tier, int] = defaultdict(int)
    for tier, value in exact.items():
        if len(tier) == DEVICE_TIER_LENGTH:
            low = _floor(value)
            cost = (1 - 2 * (value - low)) / value if value else 1.0
            for length in range(DEVICE_TIER_LENGTH + 1):
                devices[tier[:length]].append(cost)
                floors[tier[:length]] += low
    costs = {}
    for tier, value in exact.items():
        rounded_up = max(0, _floor(value) - floors[tier])
        costs[tier] = sorted(devices[tier])[min(rounded_up, len(devices[tier]) - 1)]
    return costs


def _split_quota(
    total: int,
    tiers: Sequence[Tier],
    exact: Mapping[Tier, float],
    cost: Mapping[Tier, tuple[bool, float, bool]],
) -> dict[Tier, int]:
    """Whole numbers that add up to ``total``, each the exact one rounded down or up."""
    quota = {tier: _floor(exact[tier]) for tier in tiers}
    spare = total - sum(quota.values())

    def order(tier: Tier) -> tuple[bool, tuple[bool, float, bool]]:
        """First those that are no whole numbers anyway, and of them those of the least cost."""
        return exact[tier] - quota[tier] <= _QUOTA_EPSILON, cost[tier]

    for tier in sorted(tiers, key=order)[: max(0, spare)]:
        quota[tier] += 1
    # Many shares a hair below a whole number were all taken for it: some of them are not.
    for tier in sorted(tiers, key=lambda tier: exact[tier] - quota[tier])[: max(0, -spare)]:
        quota[tier] -= 1
    return quota


def _floor(value: float) -> int:
    return math.floor(value + _QUOTA_EPSILON)

# SPDX-License-Identifier: Apache-2.0
"""The plan: the number of replicas that each failure domain should hold.

A domain holds its share of each partition rounded down or up. Under the given shares no placement
is more unique. The number of its replicas of all partitions is its quota.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ring.devices import Device, Tier, tiers_of
from ring.quotas import Wanted, floor, quotas
from ring.shares import ROOT, children_of, most_unique

# Shares are floats: a value this close to a whole number of replicas counts as that number.
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a balanced ring; keys are tiers of devices with weight.

    ``share``: replicas of one partition that belong in a tier, on average; ``at_least`` and
    ``at_most`` are its whole numbers below and above. ``most``: the replicas of a partition that a
    tier may hold without risk (``most_unique``). ``quota``: replicas of all partitions.
    """

    children: Mapping[Tier, list[Tier]]
    share: Mapping[Tier, float]
    at_least: Mapping[Tier, int]
    at_most: Mapping[Tier, int]
    most: Mapping[Tier, int]
    quota: Mapping[Tier, int]


def row_lengths(replicas: float, partitions: int) -> list[int]:
    """The partitions in each row of the table; a fraction of a replica makes a short last row."""
    whole = int(replicas)
    short = int(partitions * (replicas - whole))
    return [partitions] * whole + ([short] if short else [])


def make_plan(
    devices: Iterable[Device],
    target: Mapping[int, float],
    slots: int,
    held: Mapping[int, int],
) -> Plan:
    """Make the plan for ``slots`` replicas of all partitions by the devices' ``target`` shares.

    ``held`` (device id -> present replicas) decides the rounding, so that fewer replicas move.
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
    per_weight = slots / sum(device["weight"] for device in weighted)
    wanted = Wanted(
        children=children,
        exact=exact,
        ideal={tiers_of(device)[-1]: device["weight"] * per_weight for device in weighted},
        # Replicas above this many are at risk.
        crowded=frozenset(
            tier for tier, value in exact.items() if floor(value) >= floor(most[tier] * partitions)
        ),
        held=held_by_tier,
    )
    return Plan(
        children=children,
        share=dict(share),
        at_least={tier: math.floor(value + _EPSILON) for tier, value in share.items()},
        at_most={tier: math.ceil(value - _EPSILON) for tier, value in share.items()},
        most=most,
        quota=quotas(wanted, slots),
    )


def device_id(tier: Tier) -> int:
    """The device id of a tier of full length."""
    dev_id = tier[-1]
    assert isinstance(dev_id, int)
    return dev_id

# SPDX-License-Identifier: Apache-2.0
"""How many replicas every failure domain should hold: pure arithmetic on weights.

The weights decide. Where they leave a choice, every domain holds the share of each partition
rounded down or up and nothing else: that is as unique as possible under the given weights.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ring.devices import Device, Tier, tiers_of

ROOT: Tier = ()
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


def make_plan(
    devices: Iterable[Device], replicas: int, partitions: int, held: Mapping[int, int]
) -> Plan:
    """The plan for ``replicas`` of each of ``partitions`` on devices of which enough have weight.

    ``held`` (device id -> replicas now) decides which way to round, so that less moves.
    """
    weighted = [device for device in devices if device["weight"] > 0]
    by_id = device_shares({d["id"]: d["weight"] for d in weighted}, replicas)
    children: dict[Tier, list[Tier]] = defaultdict(list)
    share: dict[Tier, float] = defaultdict(float)
    held_by_tier: dict[Tier, int] = defaultdict(int)
    share[ROOT] = float(replicas)
    for device in weighted:
        parent = ROOT
        for tier in tiers_of(device):
            if tier not in share:
                children[parent].append(tier)
            share[tier] += by_id[device["id"]]
            held_by_tier[tier] += held.get(device["id"], 0)
            parent = tier
    quota = {ROOT: replicas * partitions}
    for tier in sorted(share, key=len):
        quota |= _split_quota(quota[tier], children.get(tier, []), share, partitions, held_by_tier)
    return Plan(
        children=dict(children),
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


def device_shares(weights: Mapping[int, float], replicas: float) -> dict[int, float]:
    """Replicas of one partition for each device: by weight, but no device holds more than one.

    What a heavy device cannot take goes to the others by their weight.
    """
    full: set[int] = set()
    while True:
        rest = {dev_id: weight for dev_id, weight in weights.items() if dev_id not in full}
        per_weight = (replicas - len(full)) / sum(rest.values()) if rest else 0.0
        too_heavy = {
            dev_id for dev_id, weight in rest.items() if weight * per_weight > 1 + _EPSILON
        }
        if not too_heavy:
            return {
                dev_id: 1.0 if dev_id in full else min(1.0, weight * per_weight)
                for dev_id, weight in weights.items()
            }
        full |= too_heavy


def _split_quota(
    total: int,
    tiers: list[Tier],
    share: Mapping[Tier, float],
    partitions: int,
    held: Mapping[Tier, int],
) -> dict[Tier, int]:
    """Whole numbers that add up to ``total``, each the exact share rounded down or up."""
    if not tiers:
        return {}
    exact = {tier: share[tier] * partitions for tier in tiers}
    quota = {tier: math.floor(exact[tier] + _QUOTA_EPSILON) for tier in tiers}
    spare = total - sum(quota.values())
    # First those that hold the one more already, then those that lose most by rounding down.
    order = sorted(
        tiers,
        key=lambda tier: (
            exact[tier] - quota[tier] <= _QUOTA_EPSILON,
            held[tier] <= quota[tier],
            quota[tier] - exact[tier],
        ),
    )
    for tier in order[: max(0, spare)]:
        quota[tier] += 1
    return quota

# SPDX-License-Identifier: Apache-2.0
"""The shares: the average number of replicas of a partition on each device, by weight and spread.

The *weighted* share follows the weights. The *dispersed* share spreads each partition over as many
failure domains as possible, and follows the weights only where that leaves a choice. The overload
is the excess over its weighted share that a device may get for a better spread. The *target* is
between the two shares, at the position that the overload allows.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ring.devices import DEVICE_TIER_LENGTH, Device, Tier, tiers_of

ROOT: Tier = ()
_EPSILON = 1e-9
# Nearly every step fills or empties one domain; this limit is for floats that do not converge.
_STEPS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Shares:
    """Replicas of one partition by device id; ``required_overload`` reaches ``dispersed``."""

    weighted: Mapping[int, float]
    dispersed: Mapping[int, float]
    required_overload: float

    def target(self, overload: float) -> dict[int, float]:
        """The shares for the placement."""
        part = min(1.0, overload / self.required_overload) if self.required_overload > 0 else 1.0
        return {
            dev_id: share + part * (self.dispersed[dev_id] - share)
            for dev_id, share in self.weighted.items()
        }


def make_shares(devices: Iterable[Device], replicas: float) -> Shares:
    """Compute the shares of the devices with weight, which number at least ``replicas``."""
    weighted_devices = [device for device in devices if device["weight"] > 0]
    weighted = device_shares({dev["id"]: dev["weight"] for dev in weighted_devices}, replicas)
    dispersed = _dispersed_shares(weighted_devices, weighted, replicas)
    required = max((dispersed[i] / share - 1 for i, share in weighted.items()), default=0.0)
    return Shares(weighted, dispersed, required if required > _EPSILON else 0.0)


def device_shares(weights: Mapping[int, float], replicas: float) -> dict[int, float]:
    """The replicas of one partition for each device: by weight, but at most one on a device.

    The excess of a heavy device goes to the others by their weight.
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


def children_of(devices: Iterable[Device]) -> dict[Tier, list[Tier]]:
    """The tiers directly below each tier, without those of devices without weight."""
    children: dict[Tier, dict[Tier, None]] = defaultdict(dict)
    for device in devices:
        if device["weight"] > 0:
            tiers = tiers_of(device)
            for parent, child in zip((ROOT, *tiers), tiers, strict=False):
                children[parent][child] = None
    return {parent: list(found) for parent, found in children.items()}


def most_unique(devices: Iterable[Device], replicas: float) -> dict[Tier, int]:
    """The most replicas of one partition for a tier: an even split, rounded up on each level.

    This is the measure of OpenStack Swift; weights and the number of devices do not count.
    """
    children = children_of(devices)
    most = {ROOT: math.ceil(replicas - _EPSILON)}
    for length in range(DEVICE_TIER_LENGTH):
        for parent in [tier for tier in most if len(tier) == length]:
            tiers = children.get(parent, [])
            each = math.ceil(most[parent] / len(tiers)) if tiers else 0
            most |= dict.fromkeys(tiers, min(1, each) if length == DEVICE_TIER_LENGTH - 1 else each)
    return most


def _dispersed_shares(
    devices: Sequence[Device], weighted: Mapping[int, float], replicas: float
) -> dict[int, float]:
    """The dispersed shares: on each level the even split, rounded, limits the weighted one."""
    children = children_of(devices)
    weight: dict[Tier, float] = defaultdict(float)
    room: dict[Tier, int] = defaultdict(int)
    for device in devices:
        for tier in tiers_of(device):
            weight[tier] += weighted[device["id"]]
            room[tier] += 1
    even = {ROOT: float(replicas)}
    share = {ROOT: float(replicas)}
    for length in range(DEVICE_TIER_LENGTH):
        for parent in [tier for tier in share if len(tier) == length]:
            tiers = children.get(parent, [])
            for tier in tiers:
                even[tier] = even[parent] / len(tiers)
            lowest = [min(room[tier], math.floor(even[tier] + _EPSILON)) for tier in tiers]
            highest = [min(room[tier], math.ceil(even[tier] - _EPSILON)) for tier in tiers]
            if sum(lowest) > share[parent]:
                lowest = [0] * len(tiers)
            split = split_by_weight(
                share[parent],
                [weight[tier] for tier in tiers],
                lowest,
                highest,
                [room[tier] for tier in tiers],
            )
            share.update(zip(tiers, split, strict=True))
    return {device["id"]: share[tiers_of(device)[-1]] for device in devices}


def split_by_weight(
    total: float,
    weights: Sequence[float],
    lowest: Sequence[float],
    highest: Sequence[float],
    room: Sequence[float],
) -> list[float]:
    """Split ``total`` by weights within bounds, step by step, as OpenStack Swift does.

    A surplus or deficit at the bounds is split by weight among the parts that have not reached
    theirs. If even the highest bounds do not add up to ``total``, ``room`` is the bound instead.
    """
    parts = [0.0] * len(weights)
    rest = total
    active = list(range(len(weights)))
    for _ in range(_STEPS_MAX):
        if abs(rest) <= _EPSILON or not active:
            break
        per_weight = rest / sum(weights[number] for number in active)
        for number in active:
            part = parts[number] + weights[number] * per_weight
            parts[number] = min(max(part, lowest[number]), highest[number], room[number])
        rest = total - sum(parts)
        if rest < 0:
            active = [n for n, part in enumerate(parts) if part > lowest[n]]
            continue
        active = [n for n, part in enumerate(parts) if part < min(highest[n], room[n])]
        if not active:
            highest = room
            active = [n for n, part in enumerate(parts) if part < room[n]]
    return parts

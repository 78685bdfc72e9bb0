# SPDX-License-Identifier: Apache-2.0
"""A new ring: devices drawn for every partition, exactly to the plan (doc/formats/ring.md)."""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence

from ring.devices import Tier
from ring.plan import ROOT, Plan, device_id


def draw(plan: Plan, rows: Sequence[array[int]], rng: random.Random) -> None:
    """Fills ``rows[replica][partition]`` with device ids.

    With n partitions to go, the quotas still open lie on a line as intervals, the devices of a
    domain side by side; points at distance n from a random start choose the devices. An interval
    of length q gets q/n points rounded down or up, on every level at once; what is then left open
    keeps that property for the n - 1 others.
    """
    left = dict(plan.quota)
    order = {tier: list(tiers) for tier, tiers in plan.children.items()}
    partitions = len(rows[0])
    for partition in rng.sample(range(partitions), partitions):
        to_go = left[ROOT] // len(rows)
        start = rng.randrange(to_go)
        points = [start + to_go * number for number in range(len(rows))]
        chosen: list[int] = []
        _pick(ROOT, points, left, order, rng, chosen)
        rng.shuffle(chosen)
        for row, dev_id in zip(rows, chosen, strict=True):
            row[partition] = dev_id


def _pick(
    tier: Tier,
    points: list[int],
    left: dict[Tier, int],
    order: dict[Tier, list[Tier]],
    rng: random.Random,
    chosen: list[int],
) -> None:
    """Takes ``points`` (offsets within the tier, ascending) out of the tier's open quotas."""
    left[tier] -= len(points)
    tiers = order.get(tier)
    if tiers is None:
        chosen.append(device_id(tier))
        return
    rng.shuffle(tiers)
    begin, next_point = 0, 0
    for child in tiers:
        end = begin + left[child]
        inside = []
        while next_point < len(points) and points[next_point] < end:
            inside.append(points[next_point] - begin)
            next_point += 1
        if inside:
            _pick(child, inside, left, order, rng, chosen)
        if next_point == len(points):
            return
        begin = end

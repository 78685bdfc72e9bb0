# SPDX-License-Identifier: Apache-2.0
"""A new ring: devices drawn for every partition, exactly by the plan (doc/formats/ring.md).

The partitions are drawn in blocks. With n partitions left, the open quotas are arranged on a line,
with the devices of a domain side by side. Points at equal distances from a random start decide how
many replicas each device gets in this block. That is its part of the open quota rounded down or up,
on every level at once. The quotas that stay open keep that property for the next partitions. Within
the block the replicas are on a line again, and partition i takes those at i, i + n, i + 2n, ...
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Mapping, Sequence

from ring.devices import DEVICE_TIER_LENGTH, Tier
from ring.plan import Plan, device_id
from ring.shares import ROOT

_DEVICE = DEVICE_TIER_LENGTH
_VOID = -1

# Called from time to time with the number of drawn partitions and the total.
Progress = Callable[[int, int], None]


def draw(
    plan: Plan, rows: Sequence[array[int]], rng: random.Random, progress: Progress | None = None
) -> None:
    """Fill ``rows[replica][partition]`` with device ids; the last row may be short."""
    partitions, short = len(rows[0]), len(rows[-1])
    tree = {tier: list(tiers) for tier, tiers in plan.children.items()}
    left = {device_id(tier): quota for tier, quota in plan.quota.items() if len(tier) == _DEVICE}
    # A block has about one replica of each device, so that its partners change between blocks.
    block = max(1, len(left) // len(rows))
    # The missing part of the short row counts as one more device, the last on each line. Partitions
    # without it fill the table from its start, partitions with it from the end of the short row.
    left[_VOID] = partitions - short
    whole, cut = 0, short
    while whole + cut - short < partitions:
        to_go = partitions - (whole + cut - short)
        size = min(block, to_go)
        order = _shuffled_devices(ROOT, tree, rng)
        line = _block_line([*order, _VOID], left, size, to_go, rng.randrange(to_go))
        voids = line.count(_VOID)
        kept = size - voids
        columns = [line[start : start + size] for start in range(0, len(line), size)]
        movable = len(columns) - (short < partitions)
        columns[:movable] = rng.sample(columns[:movable], movable)
        for row, column in zip(rows, columns, strict=True):
            row[whole : whole + kept] = array(row.typecode, column[:kept])
            if len(row) == partitions and voids:
                row[cut : cut + voids] = array(row.typecode, column[kept:])
        whole, cut = whole + kept, cut + voids
        if progress is not None:
            progress(partitions - to_go + size, partitions)


def _shuffled_devices(tier: Tier, tree: Mapping[Tier, list[Tier]], rng: random.Random) -> list[int]:
    """The devices below a tier in random order on each level, those of a domain side by side."""
    tiers = tree[tier]
    rng.shuffle(tiers)
    if len(tier) == _DEVICE - 1:
        return [device_id(child) for child in tiers]
    return [dev_id for child in tiers for dev_id in _shuffled_devices(child, tree, rng)]


def _block_line(
    order: Sequence[int], left: dict[int, int], size: int, to_go: int, start: int
) -> list[int]:
    """Take the replicas of ``size`` partitions out of the open quotas, in the given order."""
    line: list[int] = []
    end, points_before = 0, 0
    for dev_id in order:
        quota = left[dev_id]
        end += quota
        # The number of points start + j * to_go (in units of 1 / size) before the interval's end.
        points = -((start - end * size) // to_go)
        count = points - points_before
        if count:
            points_before = points
            left[dev_id] = quota - count
            line += [dev_id] * count if count > 1 else (dev_id,)
    return line

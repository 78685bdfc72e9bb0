# SPDX-License-Identifier: Apache-2.0
"""The replicas in each failure domain during a rebalance, and the effect of moves on the spread."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain

from ring.devices import DEVICE_TIER_LENGTH, Device, Tier, tiers_of
from ring.plan import Plan, make_plan
from ring.shares import ROOT

Rows = Sequence["array[int]"]


class Tally:
    """The table rows[replica][partition] = device id or ``nobody``, and its counts."""

    def __init__(
        self,
        devices: Sequence[Device],
        rows: Rows,
        nobody: int,
        slots: int,
        target: Mapping[int, float],
    ) -> None:
        """``slots`` is the number of replicas to place by the ``target`` shares (``shares``)."""
        self.rows = rows
        self.nobody = nobody
        self.tiers = {device["id"]: tiers_of(device) for device in devices}
        ids = Counter(chain.from_iterable(rows))
        self.plan: Plan = make_plan(devices, target, slots, ids)
        self.held: dict[Tier, int] = defaultdict(int)
        for dev_id, count in ids.items():
            self._count(dev_id, count)
        self.capacity = _device_counts(self.plan)

    def assign(self, row: array[int], partition: int, dev_id: int) -> None:
        """Assign a replica to another device."""
        self._count(row[partition], -1)
        row[partition] = dev_id
        self._count(dev_id, +1)

    def surplus(self, dev_id: int) -> int:
        """The replicas over the quota (0 without weight); negative if there are too few."""
        return self.tier_surplus(self.tiers[dev_id][-1])

    def tier_surplus(self, tier: Tier) -> int:
        """As ``surplus``, for all devices of a tier."""
        return self.held[tier] - self.plan.quota.get(tier, 0)

    def crowd(self, partition: int, weighted_only: bool = False) -> dict[Tier, int]:
        """The number of replicas of a partition in each domain."""
        crowd: dict[Tier, int] = defaultdict(int)
        for row in self.rows:
            tiers = self.tiers.get(row[partition], ())
            if tiers and not (weighted_only and tiers[-1] not in self.plan.share):
                for tier in tiers:
                    crowd[tier] += 1
        return crowd

    def misplaced(self, crowd: Mapping[Tier, int], old: int, new: int) -> int:
        """The harm of a move from ``old`` to ``new`` to the spread of a partition."""
        pairs = zip(self.tiers[old], self.tiers[new], strict=True)
        return sum(self.harm(crowd, before, after) for before, after in pairs if before != after)

    def harm(self, crowd: Mapping[Tier, int], old: Tier, new: Tier) -> int:
        """``misplaced`` on one level: a replica leaves tier ``old`` for tier ``new``."""
        gone, come = crowd.get(old, 0), crowd.get(new, 0)
        return (
            self._distance(old, gone - 1)
            - self._distance(old, gone)
            + self._distance(new, come + 1)
            - self._distance(new, come)
        )

    def _distance(self, tier: Tier, count: int) -> int:
        """The distance of a count from the range in the plan for a tier."""
        lowest, highest = self.plan.at_least.get(tier, 0), self.plan.at_most.get(tier, 0)
        return max(lowest - count, count - highest, 0)

    def _count(self, dev_id: int, change: int) -> None:
        if dev_id != self.nobody:
            self.held[ROOT] += change
            for tier in self.tiers[dev_id]:
                self.held[tier] += change


def _device_counts(plan: Plan) -> dict[Tier, int]:
    """The number of devices with weight in each tier."""
    counts: dict[Tier, int] = defaultdict(int)
    for tier in plan.share:
        if len(tier) == DEVICE_TIER_LENGTH:
            for length in range(DEVICE_TIER_LENGTH + 1):
                counts[tier[:length]] += 1
    return dict(counts)

# SPDX-License-Identifier: Apache-2.0
"""Placement: assigns partition replicas to devices as the plan says, moving as little as it can.

Pure: no files, no clock, and randomness is passed in. A new ring is drawn exactly (``_draw``). A
ring in use is mended in three steps: what has no device gets one; then replicas that crowd a
failure domain move out; then devices over their quota give to devices under it. A partition moves
one replica at a time, so that the others keep serving, and only if the caller says that it may.
"""

from __future__ import annotations

import random
from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence

from ring.devices import DEVICE_TIER_LENGTH, Device, Tier, tiers_of
from ring.plan import ROOT, Plan, make_plan

Rows = list["array[int]"]


class Balancer:
    """One rebalance, in place, of rows[replica][partition] = device id or ``nobody``."""

    def __init__(
        self,
        devices: Sequence[Device],
        rows: Rows,
        nobody: int,
        may_move: bytearray,
        rng: random.Random,
    ) -> None:
        """``may_move[partition]`` is 1 where a replica may move for balance.

        At least as many of ``devices`` as there are rows have weight.
        """
        self._rows = rows
        self._nobody = nobody
        self._may_move = may_move
        self._rng = rng
        self._tiers = {device["id"]: tiers_of(device) for device in devices}
        self.moved: set[int] = set()
        self._held: dict[Tier, int] = defaultdict(int)
        for row in rows:
            for dev_id in row:
                self._count(dev_id, +1)
        partitions = len(rows[0])
        held = {dev_id: self._held[tiers[-1]] for dev_id, tiers in self._tiers.items()}
        self.plan: Plan = make_plan(devices, len(rows), partitions, held)
        self._capacity = _device_counts(self.plan)

    def run(self) -> None:
        """Places and moves; ``moved`` then holds the partitions that changed."""
        if self._held[ROOT] == 0:
            self._draw()
            return
        self._fill()
        self._spread()
        self._level()

    def quota(self, device: Device) -> int:
        """How many replicas a device should hold."""
        return self.plan.quota.get(self._tiers[device["id"]][-1], 0)

    # --- a new ring ---------------------------------------------------------------------------

    def _draw(self) -> None:
        """Draws the devices of one partition after the other, exactly to quota.

        With n partitions to go, the quotas still open lie on a line as intervals, the devices of
        a domain side by side; points at distance n from a random start choose the devices. An
        interval of length q gets q/n points rounded down or up, on every level at once; what is
        then left open keeps that property for the n - 1 others (ring.md, "Placement").
        """
        left = dict(self.plan.quota)
        order = {tier: list(tiers) for tier, tiers in self.plan.children.items()}
        partitions = len(self._rows[0])
        for partition in self._rng.sample(range(partitions), partitions):
            to_go = left[ROOT] // len(self._rows)
            start = self._rng.randrange(to_go)
            points = [start + to_go * number for number in range(len(self._rows))]
            chosen: list[int] = []
            self._pick(ROOT, points, left, order, chosen)
            self._rng.shuffle(chosen)
            for row, dev_id in zip(self._rows, chosen, strict=True):
                row[partition] = dev_id
                self._count(dev_id, +1)
            self.moved.add(partition)

    def _pick(
        self,
        tier: Tier,
        points: list[int],
        left: dict[Tier, int],
        order: Mapping[Tier, list[Tier]],
        chosen: list[int],
    ) -> None:
        """Takes ``points`` (offsets within the tier, ascending) out of the tier's open quotas."""
        left[tier] -= len(points)
        tiers = order.get(tier)
        if tiers is None:
            chosen.append(_device_id(tier))
            return
        self._rng.shuffle(tiers)
        begin, next_point = 0, 0
        for child in tiers:
            end = begin + left[child]
            inside = []
            while next_point < len(points) and points[next_point] < end:
                inside.append(points[next_point] - begin)
                next_point += 1
            if inside:
                self._pick(child, inside, left, order, chosen)
            if next_point == len(points):
                return
            begin = end

    # --- a ring in use ------------------------------------------------------------------------

    def _fill(self) -> None:
        """Gives a device to every replica that has none; nothing is served from those anyway."""
        for row in self._rows:
            empty = [part for part, dev_id in enumerate(row) if dev_id == self._nobody]
            self._rng.shuffle(empty)
            for partition in empty:
                self._assign(row, partition, self._best_device(partition))
                self.moved.add(partition)

    def _best_device(self, partition: int) -> int:
        """The most wanted device among those that spread the partition best."""
        crowd = self._crowd(partition)
        taken = self._crowd(partition, weighted_only=True)
        tier = ROOT
        while len(tier) < DEVICE_TIER_LENGTH:
            open_tiers = [
                child for child in self.plan.children[tier] if taken[child] < self._capacity[child]
            ]
            tier = max(open_tiers, key=lambda child: self._wish(child, crowd))
        return _device_id(tier)

    def _wish(self, tier: Tier, crowd: Mapping[Tier, int]) -> tuple[bool, bool, bool, float, float]:
        here = crowd.get(tier, 0)
        open_quota = self.plan.quota[tier] - self._held[tier]
        return (
            here < self.plan.at_most[tier],
            here < self.plan.at_least[tier],
            open_quota > 0,
            open_quota / max(1, self.plan.quota[tier]),
            self._rng.random(),
        )

    def _spread(self) -> None:
        """Moves a replica out of each domain that holds more of a partition than its share."""
        partitions = self._movable()
        for partition in partitions:
            crowd = self._crowd(partition)
            over = [t for t, n in crowd.items() if n > self.plan.at_most.get(t, n)]
            if not over:
                continue
            widest = min(over, key=len)
            row = max(
                (row for row in self._rows if widest in self._tiers[row[partition]]),
                key=lambda row: self._surplus(row[partition]),
            )
            old = row[partition]
            self._assign(row, partition, self._nobody)
            new = self._best_device(partition)
            if self._misplaced(crowd, old, new) < 0:
                self._assign(row, partition, new)
                self.moved.add(partition)
            else:
                self._assign(row, partition, old)

    def _level(self) -> None:
        """Devices over their quota give to devices under it, where no domain becomes crowded."""
        over = {dev_id for dev_id in self._tiers if self._surplus(dev_id) > 0}
        under = [dev_id for dev_id in self._tiers if self._surplus(dev_id) < 0]
        for partition in self._movable():
            if not over or not under:
                return
            rows = [row for row in self._rows if row[partition] in over]
            if not rows:
                continue
            row = max(rows, key=lambda row: self._surplus(row[partition]))
            old = row[partition]
            new = self._taker(partition, old, under)
            if new is None:
                continue
            self._assign(row, partition, new)
            self.moved.add(partition)
            if self._surplus(old) <= 0:
                over.discard(old)
            if self._surplus(new) >= 0:
                under.remove(new)

    def _taker(self, partition: int, giver: int, under: Sequence[int]) -> int | None:
        """The device most under its quota that can take the giver's replica of a partition."""
        crowd = self._crowd(partition)
        able = [
            dev_id
            for dev_id in under
            if self._tiers[dev_id][-1] not in crowd and self._misplaced(crowd, giver, dev_id) <= 0
        ]
        if not able:
            return None
        return min(able, key=lambda dev_id: (self._surplus(dev_id), self._rng.random()))

    # --- bookkeeping --------------------------------------------------------------------------

    def _movable(self) -> list[int]:
        partitions = [p for p, free in enumerate(self._may_move) if free and p not in self.moved]
        self._rng.shuffle(partitions)
        return partitions

    def _surplus(self, dev_id: int) -> int:
        """Replicas over the quota (0 without weight); negative if the device wants more."""
        tier = self._tiers[dev_id][-1]
        return self._held[tier] - self.plan.quota.get(tier, 0)

    def _crowd(self, partition: int, weighted_only: bool = False) -> dict[Tier, int]:
        """How many replicas of a partition each domain holds."""
        crowd: dict[Tier, int] = defaultdict(int)
        for row in self._rows:
            tiers = self._tiers.get(row[partition], ())
            if tiers and not (weighted_only and tiers[-1] not in self.plan.share):
                for tier in tiers:
                    crowd[tier] += 1
        return crowd

    def _misplaced(self, crowd: Mapping[Tier, int], old: int, new: int) -> int:
        """By how much a move from ``old`` to ``new`` makes the spread of a partition worse."""
        left = set(self._tiers[old]) - set(self._tiers[new])
        joined = set(self._tiers[new]) - set(self._tiers[old])
        before = sum(self._distance(tier, crowd.get(tier, 0)) for tier in left | joined)
        after = sum(self._distance(tier, crowd.get(tier, 0) - 1) for tier in left)
        after += sum(self._distance(tier, crowd.get(tier, 0) + 1) for tier in joined)
        return after - before

    def _distance(self, tier: Tier, count: int) -> int:
        """How far a count lies outside of what the plan has for a tier."""
        lowest, highest = self.plan.at_least.get(tier, 0), self.plan.at_most.get(tier, 0)
        return max(lowest - count, count - highest, 0)

    def _assign(self, row: array[int], partition: int, dev_id: int) -> None:
        self._count(row[partition], -1)
        row[partition] = dev_id
        self._count(dev_id, +1)

    def _count(self, dev_id: int, change: int) -> None:
        if dev_id != self._nobody:
            self._held[ROOT] += change
            for tier in self._tiers[dev_id]:
                self._held[tier] += change


def _device_id(tier: Tier) -> int:
    dev_id = tier[-1]
    assert isinstance(dev_id, int)
    return dev_id


def _device_counts(plan: Plan) -> dict[Tier, int]:
    """How many devices with weight each tier has."""
    counts: dict[Tier, int] = defaultdict(int)
    for tier in plan.share:
        if len(tier) == DEVICE_TIER_LENGTH:
            for length in range(DEVICE_TIER_LENGTH + 1):
                counts[tier[:length]] += 1
    return dict(counts)

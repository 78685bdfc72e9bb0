# SPDX-License-Identifier: Apache-2.0
"""Placement: assigns partition replicas to devices as the plan says, moving as little as it can.

Pure: no files, no clock, and randomness is passed in. A new ring is drawn exactly (``draw``). A
ring in use is mended in four steps: what has no device gets one; replicas that crowd a failure
domain move out; devices over their quota give to devices under it; what is then left is evened out
by domains. A partition moves one replica at a time, so that the others keep serving, and only if
the caller says that it may.
"""

from __future__ import annotations

import random
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ring.devices import DEVICE_TIER_LENGTH, Device, Tier, tiers_of
from ring.draw import draw
from ring.plan import ROOT, Plan, device_id, make_plan

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
            draw(self.plan, self._rows, self._rng)
            self.moved = set(range(len(self._rows[0])))
            return
        self._fill()
        self._spread()
        self._level()
        for length in range(1, DEVICE_TIER_LENGTH + 1):
            self._even_out(length)

    def quota(self, device: Device) -> int:
        """How many replicas a device should hold."""
        return self.plan.quota.get(self._tiers[device["id"]][-1], 0)

    def _fill(self) -> None:
        """Gives a device to every replica that has none; nothing is served from those anyway."""
        for row in self._rows:
            empty = [part for part, dev_id in enumerate(row) if dev_id == self._nobody]
            self._rng.shuffle(empty)
            for partition in empty:
                self._assign(row, partition, self._best_device(partition, ROOT))
                self.moved.add(partition)

    def _best_device(self, partition: int, tier: Tier) -> int:
        """The most wanted device in a tier, among those that spread the partition best.

        ``nobody`` if all devices there hold the partition already.
        """
        crowd = self._crowd(partition)
        taken = self._crowd(partition, weighted_only=True)
        while len(tier) < DEVICE_TIER_LENGTH:
            open_tiers = [
                child for child in self.plan.children[tier] if taken[child] < self._capacity[child]
            ]
            if not open_tiers:
                return self._nobody
            tier = max(open_tiers, key=lambda child: self._wish(child, crowd))
        return device_id(tier) if tier not in crowd else self._nobody

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
        """Moves a replica where a domain holds too many or too few of a partition."""
        required = {tier: count for tier, count in self.plan.at_least.items() if tier and count}
        for partition in self._movable():
            crowd = self._crowd(partition)
            lacking = [tier for tier, count in required.items() if crowd[tier] < count]
            if not lacking and all(n <= self.plan.at_most.get(t, n) for t, n in crowd.items()):
                continue
            moves = [
                (
                    self._misplaced(crowd, row[partition], new),
                    -self._surplus(row[partition]),
                    row,
                    new,
                )
                for row in self._rows
                for new in self._destinations(row, partition, [ROOT, *lacking])
            ]
            if not moves:
                continue
            harm, _, row, new = min(moves, key=lambda move: move[:2])
            if harm < 0:
                self._assign(row, partition, new)
                self.moved.add(partition)

    def _destinations(self, row: array[int], partition: int, tiers: Sequence[Tier]) -> list[int]:
        """Where the replica of ``row`` could go: the best device in each of ``tiers``."""
        old = row[partition]
        row[partition] = self._nobody
        found = [self._best_device(partition, tier) for tier in tiers]
        row[partition] = old
        return [dev_id for dev_id in found if dev_id not in (old, self._nobody)]

    def _level(self) -> None:
        """Devices over their quota give to devices under it, where no domain becomes crowded."""
        over = {dev_id for dev_id in self._tiers if self._surplus(dev_id) > 0}
        under = _OpenTiers(self._tiers[d] for d in self._tiers if self._surplus(d) < 0)
        for partition in self._movable():
            if not over or not under:
                return
            rows = [row for row in self._rows if row[partition] in over]
            if not rows:
                continue
            row = max(rows, key=lambda row: self._surplus(row[partition]))
            old = row[partition]
            takers = list(self._takers(ROOT, self._crowd(partition), self._tiers[old], under))
            if not takers:
                continue
            new = min(takers, key=lambda dev_id: (self._surplus(dev_id), self._rng.random()))
            self._assign(row, partition, new)
            self.moved.add(partition)
            if self._surplus(old) <= 0:
                over.discard(old)
            if self._surplus(new) >= 0:
                under.remove(self._tiers[new])

    def _even_out(self, length: int) -> None:
        """Domains over their quota give to sisters under it, by way of any of their devices.

        For what ``_level`` cannot do in one move: the device over its quota holds no partition with
        room for the device under it, but others of its zone do. ``length`` is that of the tiers.
        """
        over = {tiers[length - 1] for tiers in self._tiers.values()}
        over = {tier for tier in over if self._tier_surplus(tier) > 0}
        for partition in self._movable():
            if not over:
                return
            rows = [row for row in self._rows if self._tiers[row[partition]][length - 1] in over]
            if not rows:
                continue
            row = max(rows, key=lambda row: self._surplus(row[partition]))
            old = row[partition]
            giver = self._tiers[old][length - 1]
            sisters = [
                t for t in self.plan.children.get(giver[:-1], ()) if self._tier_surplus(t) < 0
            ]
            crowd = self._crowd(partition)
            takers = [
                new
                for new in self._destinations(row, partition, sisters)
                if self._misplaced(crowd, old, new) <= 0
            ]
            if not takers:
                continue
            self._assign(row, partition, min(takers, key=self._surplus))
            self.moved.add(partition)
            if self._tier_surplus(giver) <= 0:
                over.discard(giver)

    def _takers(
        self, tier: Tier, crowd: Mapping[Tier, int], giver: Sequence[Tier], under: _OpenTiers
    ) -> Iterator[int]:
        """Devices below ``tier`` that can take the giver's replica without harm to the spread.

        Goes down level by level, so that a crowded zone is left out as a whole.
        """
        for child in under.children(tier):
            old = giver[len(tier)]
            if child != old and self._harm(crowd, old, child) > 0:
                continue
            if len(child) < DEVICE_TIER_LENGTH:
                yield from self._takers(child, crowd, giver, under)
            elif child not in crowd:
                yield device_id(child)

    # --- bookkeeping --------------------------------------------------------------------------

    def _movable(self) -> list[int]:
        partitions = [p for p, free in enumerate(self._may_move) if free and p not in self.moved]
        self._rng.shuffle(partitions)
        return partitions

    def _surplus(self, dev_id: int) -> int:
        """Replicas over the quota (0 without weight); negative if the device wants more."""
        return self._tier_surplus(self._tiers[dev_id][-1])

    def _tier_surplus(self, tier: Tier) -> int:
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
        pairs = zip(self._tiers[old], self._tiers[new], strict=True)
        return sum(self._harm(crowd, before, after) for before, after in pairs if before != after)

    def _harm(self, crowd: Mapping[Tier, int], old: Tier, new: Tier) -> int:
        """``_misplaced`` on one level: a replica leaves tier ``old`` for tier ``new``."""
        gone, come = crowd.get(old, 0), crowd.get(new, 0)
        return (
            self._distance(old, gone - 1)
            - self._distance(old, gone)
            + self._distance(new, come + 1)
            - self._distance(new, come)
        )

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


class _OpenTiers:
    """The tiers that hold devices of a set, as a tree; in the order in which they were given."""

    def __init__(self, devices: Iterable[Sequence[Tier]]) -> None:
        self._children: dict[Tier, dict[Tier, None]] = {}
        for tiers in devices:
            for parent, child in zip((ROOT, *tiers), tiers, strict=False):
                self._children.setdefault(parent, {})[child] = None

    def __bool__(self) -> bool:
        return ROOT in self._children

    def children(self, tier: Tier) -> Iterable[Tier]:
        """The next lower tiers that hold a device of the set."""
        return self._children.get(tier, ())

    def remove(self, tiers: Sequence[Tier]) -> None:
        """Takes a device out, and the tiers that are empty without it."""
        for child in reversed(tiers):
            parent = child[:-1]
            del self._children[parent][child]
            if self._children[parent]:
                return
            del self._children[parent]


def _device_counts(plan: Plan) -> dict[Tier, int]:
    """How many devices with weight each tier has."""
    counts: dict[Tier, int] = defaultdict(int)
    for tier in plan.share:
        if len(tier) == DEVICE_TIER_LENGTH:
            for length in range(DEVICE_TIER_LENGTH + 1):
                counts[tier[:length]] += 1
    return dict(counts)

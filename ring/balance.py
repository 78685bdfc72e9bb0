# SPDX-License-Identifier: Apache-2.0
"""Placement: assigns partition replicas to devices as the plan says, moving as little as it can.

Pure: no files, no clock, and randomness is passed in. A new ring is drawn exactly (``draw``). A
ring in use is mended in steps: what has no device gets one; replicas that crowd a failure domain
move out; devices over their quota give to devices under it; what is then left is evened out by
domains, and at last by chains of moves (``chains``). A partition moves one replica at a time, so
that the others keep serving, and only if the caller says that it may.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress, count

from ring.chains import move_by_chains
from ring.devices import DEVICE_TIER_LENGTH, Device, Tier
from ring.dispersion import places_of, shares_a_place
from ring.draw import Progress, draw
from ring.moves import Moves
from ring.plan import device_id
from ring.polish import polish
from ring.shares import ROOT
from ring.tally import Rows, Tally

# Moves that the search for chains considers, for each replica of the ring.
_CHAIN_CHECKS = 30
_CHAIN_CHECKS_MIN = 500_000
_REPORT_EVERY = 1000


class Balancer:
    """One rebalance, in place, of rows[replica][partition] = device id or ``nobody``.

    The last row may be short.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        rows: Rows,
        nobody: int,
        target: Mapping[int, float],
        may_move: bytes,
        rng: random.Random,
        progress: Progress | None = None,
    ) -> None:
        """``target`` is each device's share; ``may_move[partition]``, 1 where a replica may move.

        At least as many of ``devices`` as there are rows have weight.
        """
        self._rows = rows
        self._nobody = nobody
        self._rng = rng
        self._progress = progress
        slots = sum(len(row) for row in rows)
        self._tally = Tally(devices, rows, nobody, slots, target)
        self._tiers = self._tally.tiers
        self.plan = self._tally.plan
        self._moves = Moves(self._tally, may_move)
        self._partitions = len(may_move)
        self.moved: Collection[int] = ()

    def run(self) -> None:
        """Places and moves; ``moved`` then holds the partitions that changed."""
        if self._tally.held[ROOT] == 0:
            draw(self.plan, self._rows, self._rng, self._progress)
            self.moved = range(self._partitions)
            everything = ((row, part) for row in self._rows for part in range(len(row)))
            polish(self._tally, everything, array.__setitem__, self._rng)
            return
        partitions, short = self._partitions, len(self._rows[-1])
        # What the short row lacks is nobody's replica for as long as replicas are moved.
        self._rows[-1].extend([self._nobody] * (partitions - short))
        self._fill([*[partitions] * (len(self._rows) - 1), short])
        self._spread()
        self._level()
        for length in range(1, DEVICE_TIER_LENGTH + 1):
            self._even_out(length)
        checks = max(_CHAIN_CHECKS_MIN, _CHAIN_CHECKS * partitions * len(self._rows))
        move_by_chains(self._tally, self._moves, self._movable(), checks)
        polish(self._tally, self._moves.placed, self._moves.make, self._rng)
        self.moved = self._moves.partitions
        del self._rows[-1][short:]

    def quota(self, device: Device) -> int:
        """How many replicas a device should hold."""
        return self.plan.quota.get(self._tiers[device["id"]][-1], 0)

    def _fill(self, lengths: Sequence[int]) -> None:
        """Gives a device to every replica that has none; nothing is served from those anyway."""
        empty = [
            (row, partition)
            for row, length in zip(self._rows, lengths, strict=True)
            if self._nobody in row
            for partition, dev_id in enumerate(row[:length])
            if dev_id == self._nobody
        ]
        self._rng.shuffle(empty)
        for done, (row, partition) in enumerate(empty):
            self._moves.make(row, partition, self._best_device(partition, ROOT))
            self._report(done, len(empty))

    def _best_device(self, partition: int, tier: Tier) -> int:
        """The most wanted device in a tier, among those that spread the partition best.

        ``nobody`` if all devices there hold the partition already.
        """
        crowd = self._tally.crowd(partition)
        taken = self._tally.crowd(partition, weighted_only=True)
        while len(tier) < DEVICE_TIER_LENGTH:
            open_tiers = [
                child
                for child in self.plan.children[tier]
                if taken[child] < self._tally.capacity[child]
            ]
            if not open_tiers:
                return self._nobody
            tier = max(open_tiers, key=lambda child: self._wish(child, crowd))
        return device_id(tier) if tier not in crowd else self._nobody

    def _wish(self, tier: Tier, crowd: Mapping[Tier, int]) -> tuple[bool, bool, bool, float, float]:
        here = crowd.get(tier, 0)
        open_quota = self.plan.quota[tier] - self._tally.held[tier]
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
        wrong = [p for p in sorted(self._badly_spread(required)) if self._moves.is_open(p)]
        self._rng.shuffle(wrong)
        for done, partition in enumerate(wrong):
            self._report(done, len(wrong))
            crowd = self._tally.crowd(partition)
            lacking = [tier for tier, count in required.items() if crowd[tier] < count]
            moves = [
                (
                    self._is_open(row[partition]),
                    self._tally.misplaced(crowd, row[partition], new),
                    -self._tally.surplus(row[partition]),
                    number,
                    new,
                )
                for number, row in enumerate(self._rows)
                if row[partition] != self._nobody
                for new in self._destinations(row, partition, [ROOT, *lacking])
            ]
            if not moves:
                continue
            is_open, harm, _, number, new = min(moves)
            if harm < 0 or not is_open:
                self._moves.make(self._rows[number], partition, new)

    def _badly_spread(self, required: Mapping[Tier, int]) -> set[int]:
        """Partitions of which some domain holds more or less than its share rounded up or down."""
        wrong = self._on_closed_devices()
        is_apart = False
        for length in range(1, DEVICE_TIER_LENGTH + 1):
            # What is apart in zones is apart on servers and devices.
            if is_apart and not any(len(tier) == length for tier in required):
                continue
            tier_of = {dev_id: tiers[length - 1] for dev_id, tiers in self._tiers.items()}
            tier_of[self._nobody] = ROOT
            tiers, places = places_of(self._rows, tier_of)
            lowest = [(n, required[tier]) for n, tier in enumerate(tiers) if tier in required]
            is_apart = is_apart or not shares_a_place(places)
            if is_apart and not lowest:
                continue
            highest = [self.plan.at_most.get(tier, 0) for tier in tiers]
            highest[tiers.index(ROOT)] = len(self._rows)
            is_wrong = {
                place: any(place.count(number) > highest[number] for number in place)
                or any(place.count(number) < count for number, count in lowest)
                for place in set(zip(*places, strict=True))
            }
            if any(is_wrong.values()):
                found = map(is_wrong.__getitem__, zip(*places, strict=True))
                wrong.update(compress(count(), found))
        return wrong

    def _on_closed_devices(self) -> set[int]:
        """Partitions with a replica on a device that should hold none."""
        closed = {dev_id for dev_id in self._tiers if not self._is_open(dev_id)}
        if not any(self._tally.held[self._tiers[dev_id][-1]] for dev_id in closed):
            return set()
        found = [compress(count(), map(closed.__contains__, row)) for row in self._rows]
        return set(chain.from_iterable(found))

    def _is_open(self, dev_id: int) -> bool:
        return self._tiers[dev_id][-1] in self.plan.share

    def _destinations(self, row: array[int], partition: int, tiers: Sequence[Tier]) -> list[int]:
        """Where the replica of ``row`` could go: the best device in each of ``tiers``."""
        old = row[partition]
        row[partition] = self._nobody
        found = [self._best_device(partition, tier) for tier in tiers]
        row[partition] = old
        return [dev_id for dev_id in found if dev_id not in (old, self._nobody)]

    def _level(self) -> None:
        """Devices over their quota give to devices under it, where no domain becomes crowded."""
        tally = self._tally
        over = {dev_id for dev_id in self._tiers if tally.surplus(dev_id) > 0}
        under = _OpenTiers(self._tiers[d] for d in self._tiers if tally.surplus(d) < 0)
        done, total = 0, sum(map(tally.surplus, over))
        for partition in self._movable():
            if not over or not under:
                return
            rows = [row for row in self._rows if row[partition] in over]
            if not rows:
                continue
            row = max(rows, key=lambda row: tally.surplus(row[partition]))
            old = row[partition]
            takers = self._takers(ROOT, tally.crowd(partition), self._tiers[old], under)
            new = next(takers, None)
            if new is None:
                continue
            self._moves.make(row, partition, new)
            done += 1
            self._report(done, total)
            if tally.surplus(old) <= 0:
                over.discard(old)
            if tally.surplus(new) >= 0:
                under.remove(self._tiers[new])

    def _even_out(self, length: int) -> None:
        """Domains over their quota give to sisters under it, by way of any of their devices.

        For what ``_level`` cannot do in one move: the device over its quota holds no partition with
        room for the device under it, but others of its zone do. ``length`` is that of the tiers.
        """
        tier_of = {dev_id: tiers[length - 1] for dev_id, tiers in self._tiers.items()}
        over = {tier for tier in tier_of.values() if self._tally.tier_surplus(tier) > 0}
        for partition in self._movable():
            if not over:
                return
            rows = [row for row in self._rows if tier_of.get(row[partition]) in over]
            if not rows:
                continue
            row = max(rows, key=lambda row: self._tally.surplus(row[partition]))
            old = row[partition]
            giver = tier_of[old]
            sisters = [
                t for t in self.plan.children.get(giver[:-1], ()) if self._tally.tier_surplus(t) < 0
            ]
            crowd = self._tally.crowd(partition)
            takers = [
                new
                for new in self._destinations(row, partition, sisters)
                if self._tally.misplaced(crowd, old, new) <= 0
            ]
            if not takers:
                continue
            self._moves.make(row, partition, min(takers, key=self._tally.surplus))
            if self._tally.tier_surplus(giver) <= 0:
                over.discard(giver)

    def _takers(
        self, tier: Tier, crowd: Mapping[Tier, int], giver: Sequence[Tier], under: _OpenTiers
    ) -> Iterator[int]:
        """Devices below ``tier`` that can take the giver's replica without harm to the spread.

        Goes down level by level, the most wanting domains first; a crowded one is left out whole.
        """
        for child in sorted(under.children(tier), key=self._tally.tier_surplus):
            old = giver[len(tier)]
            if child != old and self._tally.harm(crowd, old, child) > 0:
                continue
            if len(child) < DEVICE_TIER_LENGTH:
                yield from self._takers(child, crowd, giver, under)
            elif child not in crowd:
                yield device_id(child)

    def _movable(self) -> Iterator[int]:
        """Partitions that may still move a replica, in an order that differs from seed to seed.

        There are 2 ** n partitions, so that any odd step visits all of them.
        """
        count = self._partitions
        place, step = self._rng.randrange(count), self._rng.randrange(count) | 1
        for _ in range(count):
            if self._moves.is_open(place):
                yield place
            place = (place + step) % count

    def _report(self, done: int, total: int) -> None:
        if self._progress is not None and done % _REPORT_EVERY == 0:
            self._progress(done, total)


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

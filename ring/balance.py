# SPDX-License-Identifier: Apache-2.0
"""Placement: assigns partition replicas to devices by the plan, with as few moves as possible.

It uses no files and no clock, and gets its randomness from the caller. A new ring is drawn exactly
(``draw``). A ring in use is balanced in steps:

1. Replicas without a device get one.
2. Replicas that crowd a failure domain move out of it.
3. Devices over their quota give replicas to devices under it.
4. Whole domains do the same for the rest, and last come chains of moves (``chains``).

Only one replica of a partition moves at a time, so that the others keep serving, and only if the
caller allows it.
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

# Moves that the search for chains checks, for each replica of the ring.
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
        """``target`` is each device's share; ``may_move[partition]`` is 1 if a replica may move.

        The number of ``devices`` with weight is at least the number of rows.
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
        """Place and move replicas; ``moved`` then has the changed partitions."""
        if self._tally.held[ROOT] == 0:
            draw(self.plan, self._rows, self._rng, self._progress)
            self.moved = range(self._partitions)
            everything = ((row, part) for row in self._rows for part in range(len(row)))
            polish(self._tally, everything, array.__setitem__, self._rng)
            return
        partitions, short = self._partitions, len(self._rows[-1])
        # While replicas are moved, the missing part of the short row has no device.
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
        """The number of replicas that a device should hold."""
        return self.plan.quota.get(self._tiers[device["id"]][-1], 0)

    def _fill(self, lengths: Sequence[int]) -> None:
        """Assign a device to every replica that has none; no data is served from those."""
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
        """The device in a tier with the most open quota, among those with the best spread.

        ``nobody`` if all devices of the tier hold the partition already.
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
        """Move a replica of each partition of which a domain holds too many or too few."""
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
        """The partitions of which a domain holds more or less than its rounded share."""
        wrong = self._on_closed_devices()
        is_apart = False
        for length in range(1, DEVICE_TIER_LENGTH + 1):
            # Replicas in different zones are on different servers and devices.
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
        """The partitions with a replica on a device that should hold none."""
        closed = {dev_id for dev_id in self._tiers if not self._is_open(dev_id)}
        if not any(self._tally.held[self._tiers[dev_id][-1]] for dev_id in closed):
            return set()
        found = [compress(count(), map(closed.__contains__, row)) for row in self._rows]
        return set(chain.from_iterable(found))

    def _is_open(self, dev_id: int) -> bool:
        return self._tiers[dev_id][-1] in self.plan.share

    def _destinations(self, row: array[int], partition: int, tiers: Sequence[Tier]) -> list[int]:
        """The possible destinations of the replica of ``row``: the best device in each tier."""
        old = row[partition]
        row[partition] = self._nobody
        found = [self._best_device(partition, tier) for tier in tiers]
        row[partition] = old
        return [dev_id for dev_id in found if dev_id not in (old, self._nobody)]

    def _level(self) -> None:
        """Move replicas from devices over their quota to devices under it, without crowding."""
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
        """Move replicas from domains over their quota to sister domains under it, by any device.

        ``_level`` cannot always do it in one move: the device over its quota may hold no partition
        that can move to the device under it, but other devices of its zone do. ``length`` is that
        of the tiers.
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
        """Yield devices below ``tier`` that can take the giver's replica and keep the spread.

        The search goes down level by level, first to domains with the most open quota. It skips
        crowded domains.
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
        """Yield the partitions that may still move a replica, in an order that the seed decides.

        There are 2 ** n partitions, so any odd step visits all of them.
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
    """The tiers that hold devices of a set, as a tree in the given order."""

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
        """Remove a device, and the tiers that are empty without it."""
        for child in reversed(tiers):
            parent = child[:-1]
            del self._children[parent][child]
            if self._children[parent]:
                return
            del self._children[parent]

# SPDX-License-Identifier: Apache-2.0
"""Chains of moves: from a device over its quota to one under it, by way of other devices.

If no partition on A may move to B, one on A may move to C and another one from C to B. A search
over the devices finds the shortest such chain, so that as few partitions as possible move. A link
of a chain is a replica that moves, or moves again. If another replica of the partition has moved
already, this one may move instead: then A gives, and the other replica returns to its old device.
"""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

from ring.devices import DEVICE_TIER_LENGTH
from ring.moves import Moves
from ring.plan import device_id
from ring.tally import Tally

# Most partitions checked for one device: if hundreds have no destination, more rarely have one.
_PARTITIONS_MAX = 256


@dataclass(frozen=True, slots=True)
class _Link:
    """The replica of ``row`` leaves ``giver``; ``taker`` has one more afterwards."""

    giver: int
    taker: int
    partition: int
    row: array[int]
    stays: array[int] | None = None  # the row whose replica stays with ``taker`` instead


def move_by_chains(tally: Tally, moves: Moves, movable: Iterable[int], checks_max: int) -> None:
    """Move replicas until no device is over its quota or there are no more chains.

    ``movable`` are the partitions that may move and have not moved yet. ``checks_max`` limits the
    number of checked links.
    """
    if all(tally.surplus(dev_id) <= 0 for dev_id in tally.tiers):
        return
    search = _Search(tally, moves, movable, checks_max)
    while links := search.shortest():
        for link in links:
            search.make(link)


class _Search:
    """A breadth-first search from the devices over their quota."""

    def __init__(self, tally: Tally, moves: Moves, movable: Iterable[int], checks_max: int) -> None:
        self._tally = tally
        self._moves = moves
        self._checks_left = checks_max
        weighted = (tier for tier in tally.capacity if len(tier) == DEVICE_TIER_LENGTH)
        self._targets = dict.fromkeys(map(device_id, weighted))
        # By device, the replicas of partitions that have moved; moving them again costs nothing.
        self._moved: dict[int, list[tuple[array[int], int]]] = defaultdict(list)
        self._still: dict[int, list[tuple[array[int], int]]] = defaultdict(list)
        for row, partition in moves.placed:
            self._moved[row[partition]].append((row, partition))
        for partition in moves.partitions:
            if moves.instead_of(partition):
                for row in tally.rows:
                    self._moved[row[partition]].append((row, partition))
        for partition in movable:
            for row in tally.rows:
                self._still[row[partition]].append((row, partition))

    def make(self, link: _Link) -> None:
        """Make the moves of a link."""
        to = link.taker
        if link.stays is not None:
            to = link.stays[link.partition]
            self._moves.make(link.stays, link.partition, link.taker)
            self._moved[link.taker].append((link.stays, link.partition))
        self._moves.make(link.row, link.partition, to)
        self._moved[to].append((link.row, link.partition))

    def shortest(self) -> list[_Link]:
        """The links of a shortest chain, the last one first; empty if there is no chain."""
        over = [dev_id for dev_id in self._tally.tiers if self._tally.surplus(dev_id) > 0]
        reached: dict[int, _Link | None] = dict.fromkeys(over)
        queue = deque(over)
        while queue and self._checks_left > 0:
            giver = queue.popleft()
            used = {link.partition for link in _chain_to(giver, reached)}
            for link in self._links(giver, used, reached):
                reached[link.taker] = link
                queue.append(link.taker)
                if self._tally.surplus(link.taker) < 0:
                    return list(_chain_to(link.taker, reached))
        return []

    def _links(
        self, giver: int, used: set[int], reached: dict[int, _Link | None]
    ) -> Iterator[_Link]:
        """Yield the harmless moves from ``giver`` to devices not reached yet."""
        replicas = chain(
            islice(self._moved[giver], _PARTITIONS_MAX), islice(self._still[giver], _PARTITIONS_MAX)
        )
        for row, partition in replicas:
            if row[partition] != giver or partition in used:
                continue
            stays: array[int] | None = None
            targets: Iterable[int] = self._targets
            if not self._moves.may_go(row, partition):
                instead = self._moves.instead_of(partition)
                if instead is None:
                    continue
                stays, home = instead
                targets = [home] if home in self._targets else []
            crowd = self._tally.crowd(partition)
            for new in targets:
                if new in reached:
                    continue
                self._checks_left -= 1
                is_there = self._tally.tiers[new][-1] in crowd
                if not is_there and self._tally.misplaced(crowd, giver, new) <= 0:
                    yield _Link(giver, new, partition, row, stays)


def _chain_to(dev_id: int, reached: dict[int, _Link | None]) -> Iterator[_Link]:
    """The links that lead to a device, the last one first."""
    while link := reached[dev_id]:
        yield link
        dev_id = link.giver

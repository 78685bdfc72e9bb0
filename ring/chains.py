# SPDX-License-Identifier: Apache-2.0
"""Chains of moves: how a device over its quota gives to one under it that it cannot reach directly.

If no partition on A may move to B, one on A may move to C and another one from C to B. The shortest
such chain is found by a search over the devices, so that as few partitions as possible move.
"""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator

from ring.devices import DEVICE_TIER_LENGTH
from ring.plan import device_id
from ring.tally import Tally

# Partitions looked at for one device: where hundreds offer no way to go, more rarely do.
_PARTITIONS_MAX = 256

# A replica (its row and its partition) that goes from one device to another.
Move = tuple["array[int]", int, int]


def move_by_chains(
    tally: Tally,
    movable: Iterable[int],
    placed: Iterable[tuple[array[int], int]],
    checks_max: int,
) -> set[int]:
    """Moves until no device is over its quota or no chain leads on; the partitions that moved.

    Each partition moves once: one of its replicas if it is ``movable``, else only what is
    ``placed``, replicas (row and partition) that nothing is served from yet. ``checks_max`` bounds
    the moves that are considered.
    """
    search = _Search(tally, movable, placed, checks_max)
    while chain := search.shortest():
        for row, partition, new in chain:
            tally.assign(row, partition, new)
            search.moved.add(partition)
    return search.moved


class _Search:
    """A breadth-first search from the devices over their quota."""

    def __init__(
        self,
        tally: Tally,
        movable: Iterable[int],
        placed: Iterable[tuple[array[int], int]],
        checks_max: int,
    ) -> None:
        self._tally = tally
        self._checks_left = checks_max
        self._targets = [device_id(t) for t in tally.capacity if len(t) == DEVICE_TIER_LENGTH]
        self.moved: set[int] = set()
        self._replicas: dict[int, list[tuple[array[int], int]]] = defaultdict(list)
        if any(self._tally.surplus(dev_id) > 0 for dev_id in tally.tiers):
            for partition in movable:
                for row in tally.rows:
                    self._replicas[row[partition]].append((row, partition))
            for row, partition in placed:
                self._replicas[row[partition]].append((row, partition))

    def shortest(self) -> list[Move]:
        """The moves of a shortest chain, or none if there is no chain."""
        over = [dev_id for dev_id in self._tally.tiers if self._tally.surplus(dev_id) > 0]
        # Where each device was reached: the one before it, and the move that led here.
        reached: dict[int, tuple[int, Move] | None] = dict.fromkeys(over)
        queue = deque(over)
        while queue and self._checks_left > 0:
            giver = queue.popleft()
            used = {partition for _, partition, _ in _chain_to(giver, reached)}
            for move in self._moves(giver, used, reached):
                reached[move[2]] = (giver, move)
                queue.append(move[2])
                if self._tally.surplus(move[2]) < 0:
                    return _chain_to(move[2], reached)
        return []

    def _moves(
        self, giver: int, used: set[int], reached: dict[int, tuple[int, Move] | None]
    ) -> Iterator[Move]:
        """Harmless moves from ``giver`` to devices not reached yet."""
        for row, partition in self._replicas[giver][:_PARTITIONS_MAX]:
            if partition in self.moved or partition in used:
                continue
            crowd = self._tally.crowd(partition)
            for new in self._targets:
                if new in reached:
                    continue
                self._checks_left -= 1
                is_there = self._tally.tiers[new][-1] in crowd
                if not is_there and self._tally.misplaced(crowd, giver, new) <= 0:
                    yield row, partition, new


def _chain_to(dev_id: int, reached: dict[int, tuple[int, Move] | None]) -> list[Move]:
    """The moves that lead to a device, the last one first."""
    moves = []
    while (step := reached[dev_id]) is not None:
        dev_id, move = step
        moves.append(move)
    return moves

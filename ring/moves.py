# SPDX-License-Identifier: Apache-2.0
"""The moves of a running rebalance, and whether a partition may still move a replica.

At most one replica of a partition leaves the device that serves it, so that the others keep
serving. Until the end of the run, the choice of the replica and its destination may change: nothing
has been copied yet.
"""

from __future__ import annotations

from array import array

from ring.tally import Tally


class Moves:
    """Changes of a table that can be reverted; rows are those of the tally, by identity."""

    def __init__(self, tally: Tally, may_move: bytes) -> None:
        """``may_move[partition]`` is 1 if a replica may move."""
        self._tally = tally
        self._may_move = may_move
        # By partition, the replicas that have moved: the row and the device before.
        self._homes: dict[int, list[tuple[array[int], int]]] = {}

    @property
    def partitions(self) -> list[int]:
        """The partitions with a replica on another device than before."""
        return list(self._homes)

    @property
    def placed(self) -> list[tuple[array[int], int]]:
        """The replicas that are on another device than before: row and partition."""
        return [(row, part) for part, homes in self._homes.items() for row, _ in homes]

    def make(self, row: array[int], partition: int, dev_id: int) -> None:
        """Move a replica to another device, or back."""
        homes = self._homes.get(partition, [])
        home = next((home for other, home in homes if other is row), row[partition])
        homes = [entry for entry in homes if entry[0] is not row]
        if dev_id != home:
            homes.append((row, home))
        if homes:
            self._homes[partition] = homes
        else:
            self._homes.pop(partition, None)
        self._tally.assign(row, partition, dev_id)

    def is_open(self, partition: int) -> bool:
        """Whether a replica of the partition may move and none has moved."""
        return self._may_move[partition] == 1 and partition not in self._homes

    def may_go(self, row: array[int], partition: int) -> bool:
        """Whether this replica may go to another device."""
        homes = self._homes.get(partition)
        if homes is None:
            return self._may_move[partition] == 1
        return any(other is row for other, _ in homes)

    def instead_of(self, partition: int) -> tuple[array[int], int] | None:
        """The only moved replica, if it could return: its row and its device before."""
        homes = self._homes.get(partition, [])
        if len(homes) == 1 and homes[0][1] in self._tally.tiers:
            return homes[0]
        return None

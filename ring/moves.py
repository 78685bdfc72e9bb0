# SPDX-License-Identifier: Apache-2.0
"""What a rebalance has moved so far, and whether it may move more of a partition.

At most one replica of a partition leaves the device that serves it, so that the others keep
serving. Where it goes is open until the end of the run, and so is which one it is: nothing has been
copied yet.
"""

from __future__ import annotations

from array import array

from ring.tally import Tally


class Moves:
    """Changes of a table, with the way back; rows are those of the tally, by identity."""

    def __init__(self, tally: Tally, may_move: bytes) -> None:
        """``may_move[partition]``, 1 where a replica may move."""
        self._tally = tally
        self._may_move = may_move
        # By partition, the replicas that are not where they were: the row, and where that was.
        self._homes: dict[int, list[tuple[array[int], int]]] = {}

    @property
    def partitions(self) -> list[int]:
        """Those of which a replica is on another device than before."""
        return list(self._homes)

    @property
    def placed(self) -> list[tuple[array[int], int]]:
        """The replicas that are on another device than before: row and partition."""
        return [(row, part) for part, homes in self._homes.items() for row, _ in homes]

    def make(self, row: array[int], partition: int, dev_id: int) -> None:
        """Puts a replica on another device, or back."""
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
        """Whether any of its replicas may move, and none has."""
        return self._may_move[partition] == 1 and partition not in self._homes

    def may_go(self, row: array[int], partition: int) -> bool:
        """Whether this replica may go to another device."""
        homes = self._homes.get(partition)
        if homes is None:
            return self._may_move[partition] == 1
        return any(other is row for other, _ in homes)

    def instead_of(self, partition: int) -> tuple[array[int], int] | None:
        """The replica that left its device and could stay there: its row, and the device."""
        homes = self._homes.get(partition, [])
        if len(homes) == 1 and homes[0][1] in self._tally.tiers:
            return homes[0]
        return None

# SPDX-License-Identifier: Apache-2.0
"""A database that replicates: its state, its rows in the order of their changes, sync points.

Subclasses say which tables are streams and how rows and facts merge. Every merge is a function of
what both replicas have: it may be repeated, and its order does not matter.
"""

from __future__ import annotations

import functools
import sqlite3
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from storage.audit import check_integrity
from storage.database import Database
from storage.database_copy import names_in_copy
from storage.database_files import set_aside
from storage.replica import NO_ROW, ReplicaState, Stat

#: A batch of rows as dictionaries, and the point up to which it covers the stream.
Rows = tuple[list[dict[str, Any]], int]

#: A point that lags behind by fewer rows is not stored: sending them again is cheaper than a flush.
POINT_LAG_ROWS = 100
#: Most tombstones that are deleted in one transaction, which other writers wait for.
FORGOTTEN_AT_ONCE = 1000

_SET_POINT = """
INSERT INTO incoming_sync (remote_id, sync_point) VALUES (?1, ?2)
ON CONFLICT (remote_id) DO UPDATE SET sync_point = ?2 WHERE sync_point < ?2
"""


class ReplicatedDatabase(Database):
    """A database of an account or container, for replication."""

    #: The tables that replicate, the one of OpenStack Swift first.
    streams: ClassVar[tuple[str, ...]]
    #: The table of one row with the facts about the account or container.
    stat_table: ClassVar[str]

    @abstractmethod
    def read_stat(self, connection: sqlite3.Connection) -> Stat:
        """The facts that replicas merge."""

    @abstractmethod
    def read_totals(self, connection: sqlite3.Connection) -> tuple[int, ...]:
        """Sums over all rows; two replicas with the same rows have the same."""

    @abstractmethod
    def merged_stat(self, own: Stat, other: Stat, has_policy: bool) -> Stat:
        """The facts of this replica after a merge with those of another. No I/O."""

    @abstractmethod
    def write_stat(self, connection: sqlite3.Connection, before: Stat, after: Stat) -> None:
        """Store merged facts."""

    @abstractmethod
    def read_rows(
        self, connection: sqlite3.Connection, stream: str, point: int, limit: int, is_ours: bool
    ) -> Rows:
        """The next rows after a point, at most ``limit``, for a peer of martlet or of Swift."""

    @abstractmethod
    def merge_items(
        self, connection: sqlite3.Connection, items: Sequence[Any], before: str
    ) -> bool:
        """Merge checked rows; return True if one of them has another policy than the container.

        Tombstones from before that timestamp are left out, unless there is a row that they delete.
        """

    @abstractmethod
    def find_tombstones(
        self, connection: sqlite3.Connection, points: Mapping[str, int], before: str
    ) -> list[int]:
        """The ROWIDs of tombstones up to the points that are older than a timestamp."""

    @abstractmethod
    def delete_tombstones(self, connection: sqlite3.Connection, rowids: Sequence[int]) -> None:
        """Delete rows; each may be gone already."""

    @abstractmethod
    def is_forgettable(self, connection: sqlite3.Connection, before: str) -> bool:
        """Whether the account or container was deleted before a timestamp, and is empty."""

    @abstractmethod
    def find_faults(self, connection: sqlite3.Connection) -> list[str]:
        """Facts of a sound file that contradict each other, as sentences; it reads all rows.

        :raises sqlite3.DatabaseError: a value is damaged.
        """

    def shard_items(self) -> list[dict[str, Any]]:
        """The shard ranges, for a peer; only containers have some.

        :raises DatabaseError: as for every read.
        """
        return []

    def merge_shard_items(self, items: Sequence[Any]) -> bool:
        """Merge the shard ranges of a peer; return whether one has changed.

        :raises ValueError: one is malformed, or this is not a container.
        :raises DatabaseError: as for every write.
        """
        raise ValueError("only containers have shards")

    def audit(self) -> list[str]:
        """Check the whole file; return facts that contradict each other. Damage is quarantined.

        :raises DatabaseDamaged: it was damaged, and is in quarantine.
        :raises DatabaseError: as for every read.
        """

        def check(connection: sqlite3.Connection) -> list[str]:
            check_integrity(connection)
            return self.find_faults(connection)

        return self.read(check)

    def is_reported(self, connection: sqlite3.Connection) -> bool:
        """Whether all that others must learn of the facts has been reported to them."""
        return True

    def replica_state(self, peer: str | None = None) -> ReplicaState:
        """The state, with the points for the replica of the id ``peer``.

        :raises DatabaseError: as for every read.
        """
        return self.read(lambda connection: self.state_in(connection, peer))

    def state_in(self, connection: sqlite3.Connection, peer: str | None = None) -> ReplicaState:
        """As ``replica_state``, within a transaction."""
        query = f"SELECT id, hash FROM {self.stat_table}"
        replica_id, hashed = connection.execute(query).fetchone()
        return ReplicaState(
            replica_id,
            hashed,
            self._max_rows(connection),
            self.read_stat(connection),
            self.read_totals(connection),
            {} if peer is None else self._points(connection, peer),
            shard_row=self._last_rows(connection).get("shard_range", NO_ROW),
        )

    def names(self) -> tuple[str, ...]:
        """The account, and the container of a container's database.

        :raises DatabaseError: as for every read.
        """
        columns = "account, container" if self.stat_table == "container_info" else "account"
        return self.read(
            lambda c: tuple(c.execute(f"SELECT {columns} FROM {self.stat_table}").fetchone())
        )

    def incoming_points(self) -> dict[str, int]:
        """All points: replica id, with the stream behind a slash if it is not the first one."""
        query = "SELECT remote_id, sync_point FROM incoming_sync"
        return self.read(lambda connection: dict(connection.execute(query).fetchall()))

    def merge_state(self, other: ReplicaState) -> tuple[ReplicaState, bool]:
        """Merge the facts of another replica; return the state after it, and whether it changed.

        If both have the same rows, or the other replica is unknown, its points are stored. So the
        file of a replica changes when a new replica appears.

        :raises DatabaseError: as for every write.
        """

        def look(connection: sqlite3.Connection) -> tuple[ReplicaState, bool]:
            own = self.state_in(connection, other.id)
            merged = self.merged_stat(own.stat, other.stat, other.has_policy)
            return own, merged != own.stat or bool(self._new_points(connection, own, other))

        def write(connection: sqlite3.Connection) -> tuple[ReplicaState, bool]:
            own = self.state_in(connection, other.id)
            merged = self.merged_stat(own.stat, other.stat, other.has_policy)
            for name, point in self._new_points(connection, own, other).items():
                connection.execute(_SET_POINT, (name, point))
            if merged != own.stat:
                self.write_stat(connection, own.stat, merged)
            return self.state_in(connection, other.id), merged != own.stat

        own, has_news = self.read(look)
        return self.write(write) if has_news else (own, False)

    def _new_points(
        self, connection: sqlite3.Connection, own: ReplicaState, other: ReplicaState
    ) -> dict[str, int]:
        """The point of the first stream, if it must be stored; the hash is of that stream."""
        stream = self.streams[0]
        row, point = other.max_rows[stream], own.points.get(stream, NO_ROW)
        is_same = own.has_same_rows(other)
        if is_same and row - point >= POINT_LAG_ROWS:
            return {other.id: row}
        query = "SELECT 1 FROM incoming_sync WHERE remote_id = ?"
        is_known = connection.execute(query, (other.id,)).fetchone() is not None
        if is_known or (is_same and row == NO_ROW):
            return {}
        return {other.id: row if is_same else point}

    def rows_after(self, stream: str, point: int, limit: int, is_ours: bool = True) -> Rows:
        """The next rows of a stream after a point, and the point after them.

        :param is_ours: whether the peer has all streams; OpenStack Swift has only the first one.
        :raises DatabaseError: as for every read.
        """
        return self.read(lambda c: self.read_rows(c, stream, point, limit, is_ours))

    def take_rows(
        self, stream: str, items: Sequence[Any], source: str | None, point: int, before: str = ""
    ) -> bool:
        """Merge rows of the replica ``source`` and store its point, durably and all at once.

        :param before: tombstones from before this timestamp may have been forgotten here already.
        :returns: whether a row has another policy than the container.
        :raises DatabaseError: as for every write.
        """

        def write(connection: sqlite3.Connection) -> bool:
            is_misplaced = self.merge_items(connection, items, before)
            if source is not None:
                connection.execute(_SET_POINT, (self._point_name(source, stream), point))
            return is_misplaced

        return self.write(write)

    def merge_points(self, points: Mapping[str, int]) -> None:
        """Store points that a peer has passed on, except those for this replica itself."""

        def write(connection: sqlite3.Connection) -> None:
            (own,) = connection.execute(f"SELECT id FROM {self.stat_table}").fetchone()
            for name, point in points.items():
                if name.partition("/")[0] != own:
                    connection.execute(_SET_POINT, (name, point))

        self.write(write)

    def forget(self, points: Mapping[str, int], before: str) -> int:
        """Delete tombstones that all other replicas have; return how many.

        :param points: stream -> the row up to which all other replicas have the rows.
        :param before: only tombstones that are older than this timestamp.
        :raises DatabaseError: as for every write.
        """
        found = self.read(lambda c: self.find_tombstones(c, points, before))
        for start in range(0, len(found), FORGOTTEN_AT_ONCE):
            rowids = found[start : start + FORGOTTEN_AT_ONCE]
            self.write(functools.partial(self.delete_tombstones, rowids=rowids))
        return len(found)

    def remove(self, is_removable: Callable[[sqlite3.Connection], bool]) -> bool:
        """Remove the file and its directory if a last look allows it; return whether it did.

        No write of another process is lost: the look and the removal are in one write transaction.
        The caller deletes the directory that ``set_aside`` leaves in ``tmp``.

        :raises DatabaseError: as for every write.
        """

        def write(connection: sqlite3.Connection) -> bool:
            if not is_removable(connection):
                return False
            set_aside(self.path)
            return True

        return self.write(write)

    def adopt_replica(
        self, chunks: Iterable[bytes], is_name: Callable[[Mapping[str, str]], bool]
    ) -> None:
        """Create the database file durably from a copy that a peer has sent.

        :param is_name: whether the names in the copy are those of this path.
        :raises BadCopy: the copy is damaged, or of another database.
        :raises DatabaseExists: another process created it first.
        :raises DeviceMissing: the device is missing.
        :raises DeviceFailed: the device is full, fails or hangs.
        """
        self.adopt_file(chunks, lambda file: names_in_copy(file, self.stat_table, is_name))

    def _max_rows(self, connection: sqlite3.Connection) -> dict[str, int]:
        found = self._last_rows(connection)
        return {stream: found.get(stream, NO_ROW) for stream in self.streams}

    @staticmethod
    def _last_rows(connection: sqlite3.Connection) -> dict[str, int]:
        # Not max(ROWID): the row with the greatest one may have been deleted.
        return dict(connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall())

    def _points(self, connection: sqlite3.Connection, peer: str) -> dict[str, int]:
        query = "SELECT sync_point FROM incoming_sync WHERE remote_id = ?"
        points = {}
        for stream in self.streams:
            found = connection.execute(query, (self._point_name(peer, stream),)).fetchone()
            points[stream] = NO_ROW if found is None else found[0]
        return points

    def _point_name(self, replica: str, stream: str) -> str:
        return replica if stream == self.streams[0] else f"{replica}/{stream}"


def without_count(stat: Stat) -> Stat:
    """The facts that are stored, not counted."""
    return replace(stat, count=0)

# SPDX-License-Identifier: Apache-2.0
"""The misplaced rows of a container's database, and how many of them are in the queue.

A row is misplaced if its storage policy is not the container's. Rows of the tables ``object`` and
``version`` go to the queue in the order of their ROWIDs. The database records how far that is, so
that a crash loses nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from container.info import ContainerInfo, read_info
from container.record import Record, data_time
from container.version_replaced import (
    forget_replaced,
    own_replaced,
    replaced_rows,
    rows_of_others,
)
from container.version_tables import NOTE_POLICY, has_versions
from storage.database import Database
from storage.replica import NO_ROW

_LAST = {
    "object": "SELECT coalesce(max(ROWID), ?) FROM object",
    "version": "SELECT coalesce(max(ROWID), ?) FROM version",
}
_MISPLACED = """
SELECT name, created_at, size, content_type, etag, deleted, storage_policy_index, ROWID
FROM {} WHERE ROWID > ? AND storage_policy_index <> ? ORDER BY ROWID LIMIT ?
"""
_ROWS = {table: _MISPLACED.format(table) for table in _LAST}
_VERSIONS_OF_NAME = """
SELECT name, created_at, size, content_type, etag, deleted, storage_policy_index, version_id
FROM version WHERE name = ? AND version_id > ? ORDER BY version_id LIMIT ?
"""


class Queued(NamedTuple):
    """The misplaced rows up to these ROWIDs are in the queue."""

    objects: int
    versions: int


class Misplaced(NamedTuple):
    """Misplaced rows that are not in the queue yet, in a container of the state ``info``.

    ``objects`` are those of the table ``object``. ``versions`` has the newest row of each name in
    the table ``version``: the queue has an entry for each name. Afterwards the rows up to ``after``
    are in the queue, now those up to ``before``. These are equal if there are no such rows.
    ``replaced`` are versions that have no row any more. The queue has an entry for each name, too.
    """

    info: ContainerInfo
    objects: list[Record]
    versions: list[Record]
    replaced: list[Record]
    before: Queued
    after: Queued


def next_misplaced(database: Database, limit: int) -> Misplaced:
    """The next rows, up to a limit for each table."""

    def run(connection: sqlite3.Connection) -> Misplaced:
        info = read_info(connection)
        before = Queued(info.reconciler_sync_point, _queued_versions(connection))
        policy, most = info.storage_policy_index, limit if info.has_other_policies else 0
        objects, object_point = _next(connection, policy, most, "object", before.objects)
        if before.versions == NO_ROW:
            most = limit  # of an earlier release, which did not note their policies
        versions, version_point = _next(connection, policy, most, "version", before.versions)
        after = Queued(object_point, version_point)
        replaced = replaced_rows(connection, policy, limit) if info.has_other_policies else []
        return Misplaced(info, objects, _newest_of_names(versions), replaced, before, after)

    return database.read(run)


def _next(
    connection: sqlite3.Connection, policy: int, limit: int, table: str, point: int
) -> tuple[list[Record], int]:
    """The next misplaced rows of a table, and the point after them; no rows without a limit."""
    if table == "version" and not has_versions(connection):
        return [], point
    (last,) = connection.execute(_LAST[table], (NO_ROW,)).fetchone()
    if last <= point or not limit:
        return [], max(last, point)
    rows = connection.execute(_ROWS[table], (point, policy, limit)).fetchall()
    return [Record(*row[:-1]) for row in rows], rows[-1][-1] if len(rows) == limit else last


def _newest_of_names(rows: list[Record]) -> list[Record]:
    """A row for each name and policy. It is no deletion, because the name may have versions."""
    newest: dict[tuple[str, int], Record] = {}
    for row in sorted(rows, key=lambda row: data_time(row.created_at)):
        newest[row.name, row.storage_policy_index] = row._replace(deleted=0)
    return list(newest.values())


def has_seen_versions(database: Database) -> bool:
    """Whether the rows of versions were looked through since the policy was set.

    Later ones of another policy are noted when they come, in ``policy_stat``.
    """
    return database.read(_queued_versions) != NO_ROW


def set_queued(
    database: Database,
    point: Queued,
    policies: Iterable[int] = (),
    replaced: Iterable[Record] = (),
) -> None:
    """Record that the misplaced rows up to a point are in the queue.

    :param policies: of rows of versions among them. A sweep looks for these policies from now on.
    :param replaced: versions without a row that are in the queue as well.
    """

    def run(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE container_info SET reconciler_sync_point = ?", (point.objects,))
        if point.versions != NO_ROW:
            connection.execute("CREATE TABLE IF NOT EXISTS version_queued (point INTEGER)")
            connection.execute("DELETE FROM version_queued")
            connection.execute("INSERT INTO version_queued VALUES (?)", (point.versions,))
        connection.executemany(NOTE_POLICY, [(policy,) for policy in policies])
        forget_replaced(connection, replaced)

    database.write(run)


def forget_settled(database: Database, limit: int) -> None:
    """Forget the notes about the policy of the container, of names that have rows of it alone.

    Each note costs one look at the rows of its name, up to the first misplaced one.

    :param limit: most rows in one transaction.
    """
    marker: str | None = ""
    while marker is not None:
        noted = database.read(partial(_own_replaced, marker=marker, limit=limit))
        settled = [row for row in noted if _is_settled(database, row, limit)]
        if settled:
            database.write(partial(forget_replaced, rows=settled))
        marker = noted[-1].name if noted else None


def _own_replaced(connection: sqlite3.Connection, marker: str, limit: int) -> list[Record]:
    return own_replaced(connection, read_info(connection).storage_policy_index, marker, limit)


def _is_settled(database: Database, row: Record, limit: int) -> bool:
    has_others = False
    marker: str | None = ""
    while marker is not None and not has_others:
        page = partial(rows_of_others, row=row, marker=marker, limit=limit)
        has_others, marker = database.read(page)
    return not has_others


def forget_queued(connection: sqlite3.Connection) -> None:
    """Record that no row is in the queue: the container has another policy now."""
    connection.execute("UPDATE container_info SET reconciler_sync_point = ?", (NO_ROW,))
    if _has_queued(connection):
        connection.execute("DELETE FROM version_queued")


def _queued_versions(connection: sqlite3.Connection) -> int:
    found = None
    if _has_queued(connection):
        found = connection.execute("SELECT point FROM version_queued").fetchone()
    return NO_ROW if found is None else int(found[0])


def _has_queued(connection: sqlite3.Connection) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE name = 'version_queued'"
    return connection.execute(query).fetchone() is not None


class VersionPage(NamedTuple):
    """Rows of a name in a policy, and the version id after which the next page begins.

    ``after`` is None if there are no more rows of the name. A page may be empty and not be the last
    one: rows of other policies count as well, so that reading a page is bounded.
    """

    rows: list[Record]
    after: str | None


def versions_of_name(
    database: Database, name: str, policy: int, marker: str = "", limit: int = -1
) -> VersionPage | None:
    """The rows of a name in ``version`` that are of a policy, with their version ids.

    None: the name has no versions, of any policy.

    :param marker: a version id, after which the rows are wanted.
    :param limit: most rows that are read, of whatever policy; none if it is negative.
    """

    def run(connection: sqlite3.Connection) -> VersionPage | None:
        if not has_versions(connection):
            return None
        known = "SELECT 1 FROM version_name WHERE name = ?"
        if connection.execute(known, (name,)).fetchone() is None:
            return None
        found = connection.execute(_VERSIONS_OF_NAME, (name, marker, limit))
        rows = [Record(*row) for row in found]
        after = rows[-1].version_id if len(rows) == limit else None
        return VersionPage([row for row in rows if row.storage_policy_index == policy], after)

    return database.read(run)

# SPDX-License-Identifier: Apache-2.0
"""Versions in one policy whose rows were replaced by those of another policy.

A name has one row for each version id, of whichever policy. The row of a null version may replace
that of another one in the wrong policy. Nothing else says then that the other one is there. So its
name is noted until the queue of misplaced objects has it.

The container's own policy is noted, too: it may become the wrong one. The note is of no use once
all rows of the name are of that policy. Each of them is later than those of its version that it has
replaced. So the object servers of the policy have got a later write of each such version.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from container.record import CURRENT, Record, decode_times

_TABLE = """
CREATE TABLE IF NOT EXISTS version_replaced (
    name TEXT,
    storage_policy_index INTEGER,
    created_at TEXT,
    PRIMARY KEY (name, storage_policy_index)
) WITHOUT ROWID
"""
_NOTE = "INSERT OR REPLACE INTO version_replaced VALUES (?, ?, ?)"
_NOTED = """
SELECT name, created_at, 0, '', '', 0, storage_policy_index FROM version_replaced
WHERE storage_policy_index <> ? LIMIT ?
"""
_NOTED_OWN = """
SELECT name, created_at, 0, '', '', 0, storage_policy_index FROM version_replaced
WHERE storage_policy_index = ? AND name > ? ORDER BY name LIMIT ?
"""
_PAGE = """
SELECT max(version_id), max(storage_policy_index <> ?) FROM (
    SELECT version_id, storage_policy_index FROM version
    WHERE name = ? AND version_id > ? ORDER BY version_id LIMIT ?
)
"""
_FORGET = """
DELETE FROM version_replaced WHERE name = ? AND storage_policy_index = ? AND created_at = ?
"""


def is_replaced(row: Record, winner: Record) -> bool:
    """Whether a row is that of a version in another policy than the row that counts.

    The row of a version that was moved to that policy is not: it has the same ticks.
    """
    if row.storage_policy_index == winner.storage_policy_index or row.deleted:
        return False
    if row.version_id == CURRENT:
        return False
    return bool(winner.deleted) or _ticks(row) != _ticks(winner)


def note_replaced(connection: sqlite3.Connection, rows: Iterable[Record]) -> None:
    """Note the names of rows, and their policies."""
    noted = [(row.name, row.storage_policy_index, row.created_at) for row in rows]
    if noted:
        connection.execute(_TABLE)
        connection.executemany(_NOTE, noted)


def replaced_rows(connection: sqlite3.Connection, own_policy: int, limit: int) -> list[Record]:
    """A row for each noted name and policy, but for the policy of the container."""
    if not _has_table(connection):
        return []
    return [Record(*row) for row in connection.execute(_NOTED, (own_policy, limit))]


def own_replaced(
    connection: sqlite3.Connection, own_policy: int, marker: str, limit: int
) -> list[Record]:
    """A row for each name after a marker that is noted with the policy of the container."""
    if not _has_table(connection):
        return []
    return [Record(*row) for row in connection.execute(_NOTED_OWN, (own_policy, marker, limit))]


def rows_of_others(
    connection: sqlite3.Connection, row: Record, marker: str, limit: int
) -> tuple[bool, str | None]:
    """Whether a page of the rows of a name has one of another policy than a row of it.

    The second value is the version id after which the next page begins, None after the last one.
    """
    asked = row.storage_policy_index, row.name, marker, limit
    last, has_others = connection.execute(_PAGE, asked).fetchone()
    return bool(has_others), last


def forget_replaced(connection: sqlite3.Connection, rows: Iterable[Record]) -> None:
    """Forget what `replaced_rows` has returned; what was noted since stays."""
    noted = [(row.name, row.storage_policy_index, row.created_at) for row in rows]
    if noted:
        connection.executemany(_FORGET, noted)


def _has_table(connection: sqlite3.Connection) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE name = 'version_replaced'"
    return connection.execute(query).fetchone() is not None


def _ticks(row: Record) -> int:
    return decode_times(row.created_at).data.ticks

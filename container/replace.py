# SPDX-License-Identifier: Apache-2.0
"""The replacement of rows of the object table, with an update of counts and hash."""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_left
from collections.abc import Sequence
from functools import cache

from container.record import Record
from container.shard_spans import read_spans
from storage.schema import row_hash

# Rows without a name fill up a statement.
_INSERT = """
INSERT INTO object (name, created_at, size, content_type, etag, deleted, storage_policy_index)
SELECT * FROM (VALUES {}) WHERE column1 IS NOT NULL
"""
_ONE_ROW = "(?, ?, ?, ?, ?, ?, ?)"
_COLUMN_COUNT = 7
_DELETE = "DELETE FROM object WHERE ROWID IN (SELECT value FROM json_each(?))"
_STOP_TRIGGERS = """
UPDATE container_info SET hash = '-' || hash RETURNING substr(hash, 2), storage_policy_index
"""
_START_TRIGGERS = "UPDATE container_info SET hash = ?"
_COUNT = """
INSERT INTO policy_stat VALUES (?, ?, ?)
ON CONFLICT (storage_policy_index) DO UPDATE SET
    object_count = object_count + excluded.object_count,
    bytes_used = bytes_used + excluded.bytes_used
"""

# Statements have these numbers of rows, so that only a few different ones are prepared.
_ROWS_AT_ONCE = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)


def replace_rows(
    connection: sqlite3.Connection, outdated: dict[int, Record], added: Sequence[Record]
) -> bool:
    """Delete rows by ROWID, insert others, and update counts and hash.

    Returns True if an inserted row is misplaced.
    """
    if not added and not outdated:
        return False
    text, own_policy = connection.execute(_STOP_TRIGGERS).fetchone()
    hashed = int(text, 16)
    if outdated:
        connection.execute(_DELETE, (json.dumps(list(outdated)),))
    _insert(connection, added)
    counts: dict[int, list[int]] = {}
    spans = read_spans(connection)
    for sign, rows in ((-1, outdated.values()), (1, added)):
        for row in rows:
            hashed ^= row_hash(row.name, row.created_at)
            if spans and not spans.is_counted(row.name):
                continue
            count = counts.setdefault(row.storage_policy_index, [0, 0])
            count[0] += sign * (1 - row.deleted)
            count[1] += sign * row.size
    for policy_index, (objects, size) in counts.items():
        connection.execute(_COUNT, (policy_index, objects, size))
    connection.execute(_START_TRIGGERS, (f"{hashed:032x}",))
    return any(row.storage_policy_index != own_policy for row in added)


def _insert(connection: sqlite3.Connection, added: Sequence[Record]) -> None:
    most = _ROWS_AT_ONCE[-1]
    for start in range(0, len(added), most):
        rows = added[start : start + most]
        count = _ROWS_AT_ONCE[bisect_left(_ROWS_AT_ONCE, len(rows))]
        values: list[object] = [value for row in rows for value in row[:_COLUMN_COUNT]]
        values += [None] * (_COLUMN_COUNT * (count - len(rows)))
        connection.execute(_insert_of(count), values)


@cache
def _insert_of(count: int) -> str:
    return _INSERT.format(", ".join([_ONE_ROW] * count))

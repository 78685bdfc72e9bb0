# SPDX-License-Identifier: Apache-2.0
"""Merging a batch of rows into the object table.

This is the hot path of every object write. A batch takes a few statements, whatever its size: each
step of a statement gives up the interpreter's lock and takes it back, and so does each call of a
Python function by SQLite, which costs more than the row itself when other threads are busy. So
rows go in many at a time, and counts and hash are worked out here for the whole batch, while the
triggers that do it row by row stand aside (schema.py).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from container.record import Record, merge_records
from replicator.schema import row_hash

# json_each hands over any number of names as one argument; CROSS JOIN makes it the outer loop.
_EXISTING = """
SELECT o.name, o.created_at, o.size, o.content_type, o.etag, o.deleted, o.storage_policy_index,
    o.ROWID
FROM json_each(?) AS wanted
CROSS JOIN object AS o ON o.deleted IN (0, 1) AND o.name = wanted.value
"""
_INSERT = """
INSERT INTO object (name, created_at, size, content_type, etag, deleted, storage_policy_index)
VALUES """
_ONE_ROW = "(?, ?, ?, ?, ?, ?, ?)"
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

# A batch goes in as the sum of these, so that few different statements are ever prepared.
_ROWS_AT_ONCE = (128, 32, 8, 4, 2, 1)

_Key = tuple[str, int]


def merge_rows(connection: sqlite3.Connection, records: Sequence[Record]) -> bool:
    """Take in ``records`` where they are newer; part of the caller's write transaction.

    Rows of one name and policy are one object; a row of another policy stands beside it. True if
    one that was taken in has another policy than the container.
    """
    names = [record.name for record in records]
    existing = connection.execute(_EXISTING, (json.dumps(names),)).fetchall()
    if not existing and len(set(names)) == len(names):
        return _replace(connection, {}, records)
    # A name that is twice in the batch is twice in the answer.
    stored = {rowid: Record(*columns) for *columns, rowid in existing}
    by_key: dict[_Key, Record] = {}
    for row in stored.values():
        key = row.name, row.storage_policy_index
        by_key[key] = merge_records(by_key[key], row) if key in by_key else row
    winners = _winners(records, by_key)
    outdated = {
        rowid: row
        for rowid, row in stored.items()
        if (row.name, row.storage_policy_index) in winners
    }
    return _replace(connection, outdated, list(winners.values()))


def _winners(records: Sequence[Record], stored: dict[_Key, Record]) -> dict[_Key, Record]:
    """The rows to write: each winner that is not what is stored."""
    winners: dict[_Key, Record] = {}
    for record in records:
        key = record.name, record.storage_policy_index
        known = winners.get(key) or stored.get(key)
        winners[key] = merge_records(known, record) if known is not None else record
    return {key: row for key, row in winners.items() if row != stored.get(key)}


def _replace(
    connection: sqlite3.Connection, outdated: dict[int, Record], added: Sequence[Record]
) -> bool:
    """Delete rows by ROWID and insert others; counts and hash follow. True if one is misplaced."""
    if not added:
        return False
    text, own_policy = connection.execute(_STOP_TRIGGERS).fetchone()
    hashed = int(text, 16)
    if outdated:
        connection.execute(_DELETE, (json.dumps(list(outdated)),))
    _insert(connection, added)
    counts: dict[int, list[int]] = {}
    for sign, rows in ((-1, outdated.values()), (1, added)):
        for row in rows:
            count = counts.setdefault(row.storage_policy_index, [0, 0])
            count[0] += sign * (1 - row.deleted)
            count[1] += sign * row.size
            hashed ^= row_hash(row.name, row.created_at)
    for policy_index, (objects, size) in counts.items():
        connection.execute(_COUNT, (policy_index, objects, size))
    connection.execute(_START_TRIGGERS, (f"{hashed:032x}",))
    return any(row.storage_policy_index != own_policy for row in added)


def _insert(connection: sqlite3.Connection, added: Sequence[Record]) -> None:
    start = 0
    for count in _ROWS_AT_ONCE:
        statement = _INSERT + ", ".join([_ONE_ROW] * count)
        while len(added) - start >= count:
            rows = added[start : start + count]
            connection.execute(statement, [value for row in rows for value in row])
            start += count

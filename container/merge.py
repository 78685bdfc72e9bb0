# SPDX-License-Identifier: Apache-2.0
"""Merging a batch of rows into the object table.

This is the hot path of every object write, so the usual case, names that are new, takes one query
for all of them and one prepared INSERT a row; Python looks at a row only where it meets another.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from container.record import Record, merge_records

# json_each hands over any number of names as one argument, and CROSS JOIN makes it the outer loop.
_EXISTING = """
SELECT o.name, o.created_at, o.size, o.content_type, o.etag, o.deleted, o.storage_policy_index,
    o.ROWID
FROM json_each(?) AS wanted
CROSS JOIN object AS o ON o.deleted IN (0, 1) AND o.name = wanted.value
"""
_INSERT = """
INSERT INTO object (name, created_at, size, content_type, etag, deleted, storage_policy_index)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_DELETE = "DELETE FROM object WHERE ROWID = ?"

_Key = tuple[str, int]


def merge_rows(connection: sqlite3.Connection, records: Sequence[Record]) -> None:
    """Take in ``records`` where they are newer; part of the caller's write transaction.

    Rows of one name and policy are one object; a row of another policy stands beside it.
    """
    names = [record.name for record in records]
    existing = connection.execute(_EXISTING, (json.dumps(names),)).fetchall()
    if not existing and len(set(names)) == len(names):
        connection.executemany(_INSERT, records)
        return
    stored: dict[_Key, Record] = {}
    rowids: dict[_Key, list[int]] = {}
    for *columns, rowid in existing:
        row = Record(*columns)
        key = row.name, row.storage_policy_index
        rows = rowids.setdefault(key, [])
        if rowid in rows:  # a name that is twice in the batch is twice in the answer
            continue
        rows.append(rowid)
        stored[key] = merge_records(stored[key], row) if key in stored else row
    merged = _merged(records, stored)
    outdated = [rowid for key in merged for rowid in rowids.get(key, ())]
    connection.executemany(_DELETE, [(rowid,) for rowid in outdated])
    connection.executemany(_INSERT, merged.values())


def _merged(records: Sequence[Record], stored: dict[_Key, Record]) -> dict[_Key, Record]:
    """The rows to write: each winner that is not what is stored."""
    winners: dict[_Key, Record] = {}
    for record in records:
        key = record.name, record.storage_policy_index
        known = winners.get(key) or stored.get(key)
        winners[key] = merge_records(known, record) if known is not None else record
    return {key: row for key, row in winners.items() if row != stored.get(key)}

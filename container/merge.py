# SPDX-License-Identifier: Apache-2.0
"""The merge of a batch of rows into the object table.

This is the hot path of every object write. Each step of a statement releases the interpreter's lock
and takes it again, and so does each call of a Python function by SQLite. When other threads are
busy, that costs more than the row itself. So a batch of any size takes only a few statements. Rows
are inserted many at a time. Counts and hash are computed here for the whole batch, and the triggers
that do it row by row are disabled meanwhile (schema.py).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from container.record import Record, merge_records
from container.replace import replace_rows
from container.version_rows import merge_versions

# json_each passes any number of names as one argument; CROSS JOIN makes it the outer loop.
_EXISTING = """
SELECT o.name, o.created_at, o.size, o.content_type, o.etag, o.deleted, o.storage_policy_index,
    o.ROWID
FROM json_each(?) AS wanted
CROSS JOIN object AS o ON o.deleted IN (0, 1) AND o.name = wanted.value
"""
_Key = tuple[str, int]


def merge_rows(connection: sqlite3.Connection, records: Sequence[Record]) -> bool:
    """Merge the ``records`` that are newer; part of the caller's write transaction.

    Rows of one name and policy are one object; a row of another policy is separate. Returns True if
    a merged row has another policy than the container.
    """
    records, is_misplaced = merge_versions(connection, records)
    return _merge_objects(connection, records) or is_misplaced if records else is_misplaced


def _merge_objects(connection: sqlite3.Connection, records: Sequence[Record]) -> bool:
    names = [record.name for record in records]
    existing = connection.execute(_EXISTING, (json.dumps(names),)).fetchall()
    if not existing and len(set(names)) == len(names):
        return replace_rows(connection, {}, records)
    # A name that is twice in the batch is twice in the result.
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
    return replace_rows(connection, outdated, list(winners.values()))


def _winners(records: Sequence[Record], stored: dict[_Key, Record]) -> dict[_Key, Record]:
    """The rows to write: each winner that differs from the stored row."""
    winners: dict[_Key, Record] = {}
    for record in records:
        key = record.name, record.storage_policy_index
        known = winners.get(key) or stored.get(key)
        winners[key] = merge_records(known, record) if known is not None else record
    return {key: row for key, row in winners.items() if row != stored.get(key)}

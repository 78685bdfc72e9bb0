# SPDX-License-Identifier: Apache-2.0
"""The rows of a container that go to other replicas, and tombstones that all of them have.

The row in ``object`` of a name with versions is derived from those in ``version``. It is not sent
to a replica of martlet, which would take it for a write without versioning. OpenStack Swift knows
no other rows, so it gets the derived ones.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from container.record import Record, decode_times
from container.replace import replace_rows
from container.version_tables import has_versions
from martlet.words.timestamp import Timestamp
from storage.replicated_database import Rows

OBJECTS, VERSIONS = "object", "version"

_OBJECT_FIELDS = (
    *("ROWID", "name", "created_at", "size", "content_type", "etag", "deleted"),
    "storage_policy_index",
)
_VERSION_FIELDS = (*_OBJECT_FIELDS, "version_id")
_OBJECTS = f"SELECT {', '.join(_OBJECT_FIELDS)} FROM object WHERE ROWID > ? ORDER BY ROWID LIMIT ?"
_VERSIONS = (
    f"SELECT {', '.join(_VERSION_FIELDS)} FROM version WHERE ROWID > ? ORDER BY ROWID LIMIT ?"
)
_STORED = """
SELECT o.name, o.storage_policy_index FROM json_each(?) AS wanted
CROSS JOIN object AS o ON o.deleted IN (0, 1) AND o.name = wanted.value
"""
_WITH_VERSIONS = "SELECT name FROM version_name WHERE name IN (SELECT value FROM json_each(?))"
_TOMBSTONES = """
SELECT ROWID, created_at FROM object WHERE deleted = 1 AND created_at < ? AND ROWID <= ?
"""
_WITHOUT_VERSIONS = "AND NOT EXISTS (SELECT 1 FROM version_name AS v WHERE v.name = object.name)"
#: Most tombstones found at once; others wait for the next pass.
_FOUND_MAX = 100_000


def read_rows(
    connection: sqlite3.Connection, stream: str, point: int, limit: int, is_ours: bool
) -> Rows:
    """The next rows of a stream after a point, and the point after them."""
    has_own = has_versions(connection)
    if stream == VERSIONS and not has_own:
        return [], point
    is_version = stream == VERSIONS
    query, fields = (_VERSIONS, _VERSION_FIELDS) if is_version else (_OBJECTS, _OBJECT_FIELDS)
    found = connection.execute(query, (point, limit)).fetchall()
    items = [dict(zip(fields, row, strict=True)) for row in found]
    if found and has_own and is_ours and not is_version:
        derived = _with_versions(connection, [item["name"] for item in items])
        items = [item for item in items if item["name"] not in derived]
    return items, found[-1][0] if found else point


def find_tombstones(connection: sqlite3.Connection, point: int, before: str) -> list[int]:
    """The ROWIDs in ``object``, up to a point, of tombstones that are older than a timestamp.

    Those of names with versions stay: they are derived from rows that stay.
    """
    horizon = Timestamp(before)
    query = _TOMBSTONES + (_WITHOUT_VERSIONS if has_versions(connection) else "")
    found = connection.execute(f"{query} LIMIT ?", (before, point, _FOUND_MAX))
    return [rowid for rowid, times in found if decode_times(times).metadata < horizon]


def delete_tombstones(connection: sqlite3.Connection, rowids: Sequence[int]) -> None:
    """Delete rows of ``object``; each may be gone already."""
    fields = ", ".join(_OBJECT_FIELDS)
    query = f"SELECT {fields} FROM object WHERE ROWID IN (SELECT value FROM json_each(?))"
    found = connection.execute(query, (json.dumps(list(rowids)),)).fetchall()
    replace_rows(connection, {rowid: Record(*columns) for rowid, *columns in found}, [])


def without_forgotten(
    connection: sqlite3.Connection, records: Sequence[Record], before: str
) -> Sequence[Record]:
    """The rows without tombstones from before a timestamp, except those that delete something."""
    old = [r for r in records if r.deleted and r.created_at < before and not r.version_id]
    if not old:
        return records
    names = json.dumps([record.name for record in old])
    kept = set(connection.execute(_STORED, (names,)).fetchall())
    dropped = {r for r in old if (r.name, r.storage_policy_index) not in kept}
    return [record for record in records if record not in dropped]


def _with_versions(connection: sqlite3.Connection, names: Sequence[str]) -> set[str]:
    """Those of the names that have versions."""
    return {name for (name,) in connection.execute(_WITH_VERSIONS, (json.dumps(names),))}

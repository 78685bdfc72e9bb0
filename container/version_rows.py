# SPDX-License-Identifier: Apache-2.0
"""The merge of rows of names with versions (container-db.md, "Versions").

A name has versions from its first row with a version id on. From then on its rows in the table
``version`` are authoritative. Its row in ``object``, the current version, is derived from them.
Rows may arrive in any order and repeatedly: the derived row is a function of the set of rows.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence

from container.record import CURRENT, NULL, Record, Times, data_time, decode_times, merge_records
from container.replace import replace_rows
from container.shard_spans import read_spans
from container.version_removals import merge_removals
from container.version_replaced import is_replaced, note_replaced
from container.version_tables import NOTE_POLICY, has_versions
from martlet.words.delete_markers import MARKER_TYPE, NULL_MARKER_ETAG

_TABLES = (
    """
    CREATE TABLE IF NOT EXISTS version (
        ROWID INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT,
        created_at TEXT,
        size INTEGER,
        content_type TEXT,
        etag TEXT,
        deleted INTEGER DEFAULT 0,
        storage_policy_index INTEGER DEFAULT 0,
        version_id TEXT,
        since TEXT
    )
    """,
    "CREATE UNIQUE INDEX IF NOT EXISTS ix_version_name_id ON version (name, version_id)",
    "CREATE INDEX IF NOT EXISTS ix_version_listing ON version (deleted, name, since DESC)",
    "CREATE TABLE IF NOT EXISTS version_name (name TEXT PRIMARY KEY, current TEXT) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS version_stat (version_count INTEGER, extra_bytes INTEGER)",
    "INSERT INTO version_stat SELECT 0, 0 WHERE NOT EXISTS (SELECT 1 FROM version_stat)",
)

_COLUMNS = (
    "name, created_at, size, content_type, etag, deleted, storage_policy_index, version_id, since"
)
_RECORD = "name, created_at, size, content_type, etag, deleted, storage_policy_index, version_id"

# Both use the index of listings: the cost must not depend on the number of versions. Version ids
# begin with a digit; the + prevents SQLite from using the other index.
NEWEST_VERSION = (
    f"SELECT {_RECORD} FROM version WHERE deleted = 0 AND name = ? AND +version_id < ':'"
    " ORDER BY since DESC LIMIT 1"
)
_OWN_POLICY = "SELECT storage_policy_index FROM container_info"
LAST_REMOVED = (
    f"SELECT {_RECORD} FROM version WHERE deleted = 1 AND name = ? ORDER BY since DESC LIMIT 1"
)


def merge_versions(
    connection: sqlite3.Connection, records: Sequence[Record]
) -> tuple[Sequence[Record], bool]:
    """Merge the rows of names with versions, and return the other rows.

    The second value is True if a row has another policy than the container.
    """
    wanted = {record.name for record in records}
    has_tables = has_versions(connection)
    known = _known_names(connection, wanted) if has_tables else set()
    names = known | {record.name for record in records if record.version_id}
    if not names:
        return records, False
    if not has_tables:
        for statement in _TABLES:
            connection.execute(statement)
    by_name: dict[str, list[Record]] = {}
    for record in records:
        if record.name in names:
            by_name.setdefault(record.name, []).append(record)
    (own_policy,) = connection.execute(_OWN_POLICY).fetchone()
    is_misplaced = False
    for name, incoming in by_name.items():
        is_new = name not in known
        is_misplaced |= _merge_name(connection, name, incoming, is_new, own_policy)
    return [record for record in records if record.name not in names], is_misplaced


def _known_names(connection: sqlite3.Connection, names: Iterable[str]) -> set[str]:
    query = "SELECT name FROM version_name WHERE name IN (SELECT value FROM json_each(?))"
    return {name for (name,) in connection.execute(query, (json.dumps(list(names)),))}


def _merge_name(
    connection: sqlite3.Connection,
    name: str,
    incoming: Sequence[Record],
    is_new: bool,
    own_policy: int,
) -> bool:
    query = (
        "SELECT ROWID, name, created_at, size, content_type, etag, deleted, storage_policy_index"
        " FROM object WHERE deleted IN (0, 1) AND name = ?"
    )
    derived = {rowid: Record(*rest) for rowid, *rest in connection.execute(query, (name,))}
    size = 0
    if is_new:
        incoming = [*derived.values(), *incoming]  # the present object is the null version
    else:
        size += sum(row.size for row in derived.values())
    removed = merge_removals(connection, incoming, own_policy)
    changed, replaced = _merged(connection, name, removed.left, own_policy)
    note_replaced(connection, replaced)
    policies = {row.storage_policy_index for row in replaced}
    count, size = -removed.versions, size - removed.size
    for before, after in changed:
        policies.add(after.storage_policy_index)
        count += _is_counted(after) - _is_counted(before)
        size += _counted_size(after) - _counted_size(before)
    policies.discard(own_policy)
    is_misplaced = bool(policies)
    connection.executemany(NOTE_POLICY, [(policy,) for policy in policies])
    current, row = _current(connection, name)
    size -= row.size
    if list(derived.values()) != [row]:
        is_misplaced |= replace_rows(connection, derived, [row])
    connection.execute("INSERT OR REPLACE INTO version_name VALUES (?, ?)", (name, current))
    if read_spans(connection).is_counted(name):
        connection.execute(
            "UPDATE version_stat SET version_count = version_count + ?,"
            " extra_bytes = extra_bytes + ?",
            (count, size),
        )
    return is_misplaced


def _merged(
    connection: sqlite3.Connection, name: str, incoming: Sequence[Record], own_policy: int
) -> tuple[list[tuple[Record | None, Record]], list[Record]]:
    """Store each version's winner; return the old and the new row of each changed version.

    Also return the rows of versions that are in another policy than the winner.
    """
    replaced: list[Record] = []
    versions = [record.version_id or NULL for record in incoming]
    stored = _versions(connection, name, versions)
    winners = dict(stored)
    for version, record in zip(versions, incoming, strict=True):
        record = record._replace(version_id=version)
        known = winners.get(version)
        if known is None:
            winners[version] = record
            continue
        winners[version] = winner = _merge(known, record, own_policy)
        replaced += (row for row in (known, record) if is_replaced(row, winner))
    changed = [(stored.get(v), row) for v, row in winners.items() if row != stored.get(v)]
    connection.executemany(
        "DELETE FROM version WHERE name = ? AND version_id = ?",
        [(name, before.version_id) for before, _ in changed if before is not None],
    )
    connection.executemany(
        f"INSERT INTO version ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [(*row, data_time(row.created_at)) for _, row in changed],
    )
    return changed, replaced


def _merge(one: Record, other: Record, own_policy: int) -> Record:
    """Merge two rows of a version. Of the same data in two policies, those in the own one count.

    The reconciler has moved them there. The row of the other policy may come late.
    """
    merged = merge_records(one, other)
    policies = one.storage_policy_index, other.storage_policy_index
    if policies[0] != policies[1] and own_policy in policies:
        own = one if policies[0] == own_policy else other
        if _data(own) == _data(merged):
            return merged._replace(storage_policy_index=own_policy)
    return merged


def _data(row: Record) -> tuple[str, int, str, int]:
    return data_time(row.created_at), row.deleted, row.etag, row.size


def _versions(
    connection: sqlite3.Connection, name: str, versions: Sequence[str]
) -> dict[str, Record]:
    """The stored rows of some versions of a name, by id."""
    if len(versions) == 1:  # the usual case, which costs a tenth less so
        one = _version(connection, name, versions[0])
        return {} if one is None else {versions[0]: one}
    query = (
        f"SELECT {_RECORD} FROM version"
        " WHERE name = ? AND version_id IN (SELECT value FROM json_each(?))"
    )
    found = map(Record._make, connection.execute(query, (name, json.dumps(versions))))
    return {record.version_id: record for record in found}


def _version(connection: sqlite3.Connection, name: str, version: str) -> Record | None:
    query = f"SELECT {_RECORD} FROM version WHERE name = ? AND version_id = ?"
    found = connection.execute(query, (name, version)).fetchone()
    return None if found is None else Record(*found)


def _is_counted(row: Record | None) -> int:
    return int(row is not None and not row.deleted and row.version_id != CURRENT)


def _counted_size(row: Record | None) -> int:
    return row.size if row is not None and _is_counted(row) else 0


def _current(connection: sqlite3.Connection, name: str) -> tuple[str, Record]:
    """The id of the current version, or empty, and the name's row for ``object``.

    The newest of three rows decides: the newest version, the null version or its removal, and the
    row that sets the current version. The last one wins over a version of the same time.
    """
    newest = connection.execute(NEWEST_VERSION, (name,)).fetchone()
    candidates = [
        None if newest is None else Record(*newest),
        _version(connection, name, NULL),
        _version(connection, name, CURRENT),
    ]
    found = [
        (data_time(row.created_at), rank, row)
        for rank, row in enumerate(candidates)
        if row is not None
    ]
    if not found:
        return "", _nothing(connection, name)
    since, _, winner = max(found)
    shown: Record | None = winner
    if winner.version_id == CURRENT and not winner.deleted:
        shown = _version(connection, name, winner.etag)
    if shown is None or shown.deleted:
        # Without a current version, the newest version is the latest if it is a delete marker.
        left = [row for row in candidates[:2] if row is not None and not row.deleted]
        last = max(left, key=lambda row: data_time(row.created_at), default=None)
        current = last.version_id if last is not None and _is_marker(last) else ""
        return current, _tombstone(winner, since)
    if _is_marker(shown):
        return shown.version_id, _tombstone(winner, since)
    return shown.version_id, shown._replace(created_at=_shown_at(shown, winner), version_id="")


def _is_marker(row: Record) -> bool:
    return row.content_type == MARKER_TYPE or row.etag == NULL_MARKER_ETAG


def _shown_at(shown: Record, winner: Record) -> str:
    """The times of a version's row; if it was made current again, that time counts."""
    if shown is winner:
        return shown.created_at
    since, own = decode_times(winner.created_at).data, decode_times(shown.created_at)
    return Times(since, max(since, own.content_type), max(since, own.metadata)).encode()


def _nothing(connection: sqlite3.Connection, name: str) -> Record:
    """The row of a name whose versions are all removed."""
    last = Record(*connection.execute(LAST_REMOVED, (name,)).fetchone())
    return _tombstone(last, data_time(last.created_at))


def _tombstone(row: Record, since: str) -> Record:
    created_at = Times(*[decode_times(since).data] * 3).encode()
    policy = row.storage_policy_index
    return Record(row.name, created_at, 0, "application/deleted", "noetag", 1, policy)

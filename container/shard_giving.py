# SPDX-License-Identifier: Apache-2.0
"""The rows that a replica gives to shards: reading them in parts, and removing what was given.

All reads and removals are of one span. A row of a name with versions is one of its versions; the
row in ``object`` is derived from them and is not given.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from container.database import ContainerDatabase
from container.record import Record
from container.replace import replace_rows
from container.shard_range import CLEAVED, CREATED, ShardRange
from container.shard_rows import merge_ranges, read_sharding
from container.shard_spans import (
    GIVEN,
    GIVING,
    Span,
    begin,
    bound_of,
    end,
    give,
    has_rows,
    join_given,
    read_spans,
    version_bytes_of,
)
from container.version_tables import has_versions

#: Rows in the form of an UPDATE.
Items = list[dict[str, Any]]

_FIELDS = "name, created_at, size, content_type, etag, deleted, storage_policy_index"
_NAMES = _FIELDS.split(", ")
_IN_SPAN = "name > ? AND name <= ?"


class Points(NamedTuple):
    """The last ROWIDs of both tables."""

    objects: int
    versions: int


class Part(NamedTuple):
    """Rows of a span, and where to go on."""

    items: Items
    marker: str
    is_last: bool


def begin_giving(database: ContainerDatabase, lower: str, upper: str) -> Points:
    """Begin to give a span; return the points up to which its rows must be read as a whole.

    :raises DatabaseError: as for every write.
    """

    def write(connection: sqlite3.Connection) -> Points:
        for span in read_spans(connection).all:
            if span.phase == GIVING and (span.lower, span.upper) != (lower, upper):
                end(connection, span.lower)  # of a range that has changed since
        begin(connection, lower, upper, GIVING)
        return _points(connection)

    return database.write(write)


def read_part(
    database: ContainerDatabase, span: tuple[str, str], marker: str, deleted: int, limit: int
) -> Part:
    """The next rows of a span in the order of names, live ones or tombstones.

    A part has about ``limit`` rows. It has more if a name has more versions than that.

    :param marker: the name after which to go on.
    :raises DatabaseError: as for every read.
    """
    lower, upper = span

    def look(connection: sqlite3.Connection) -> Part:
        rows = connection.execute(
            f"SELECT {_FIELDS} FROM object WHERE deleted = ? AND {_IN_SPAN} ORDER BY name LIMIT ?",
            (deleted, max(marker, lower), bound_of(upper), limit),
        ).fetchall()
        last = marker
        derived = _names_with_versions(connection, [row[0] for row in rows])
        items: Items = []
        for row in rows:
            if len(items) >= limit:
                return Part(items, last, False)
            last = row[0]
            items += _versions(connection, last) if last in derived else [_item(row)]
        return Part(items, last, len(rows) < limit)

    return database.read(look)


def read_changes(
    database: ContainerDatabase, span: tuple[str, str], points: Points, limit: int
) -> tuple[Items, Points, bool]:
    """Rows of a span after the points; the new points, and whether these are the last ones.

    :raises DatabaseError: as for every read.
    """

    def look(connection: sqlite3.Connection) -> tuple[Items, Points, bool]:
        now = _points(connection)
        rows, end = _after(connection, "object", _FIELDS, span, points.objects, limit)
        derived = _names_with_versions(connection, [row[0] for row in rows])
        items = [_item(row) for row in rows if row[0] not in derived]
        version_end = now.versions
        is_last = len(rows) < limit
        if has_versions(connection):
            fields = f"{_FIELDS}, version_id"
            versions, version_end = _after(
                connection, "version", fields, span, points.versions, limit
            )
            items += [_item(row[:-1], row[-1]) for row in versions]
            is_last = is_last and len(versions) < limit
        if is_last:
            return items, now, True
        return items, Points(end, version_end), False

    return database.read(look)


def finish_giving(
    database: ContainerDatabase,
    lower: str,
    points: Points,
    stats: tuple[int, int] | None,
    now: str,
) -> None:
    """Give a span: from now on its names are listed from the shard.

    :param stats: the objects and bytes of the shard; None: those of this replica.
    :raises DatabaseError: as for every write.
    """

    def write(connection: sqlite3.Connection) -> None:
        span = next((s for s in read_spans(connection).all if s.lower == lower), None)
        if span is None or span.phase != GIVING:
            return
        counts = counts_in(connection, span) if stats is None else stats
        give(connection, lower, points)
        sharding = read_sharding(connection)
        if sharding is None:
            return
        targets = [r for r in sharding.ranges if r.is_around(span.lower, span.upper)]
        changed: list[ShardRange] = []
        for target in targets:
            found = target.with_stats(*counts, now)
            if found.state == CREATED:
                found = replace(found, state=CLEAVED)
            changed.append(found)
        merge_ranges(connection, changed)

    database.write(write)


def counts_in(connection: sqlite3.Connection, span: Span) -> tuple[int, int]:
    """The objects and bytes of a span in the policy of the container."""
    count, size = connection.execute(
        f"SELECT count(*), coalesce(sum(size), 0) FROM object WHERE deleted = 0 AND {_IN_SPAN}"
        " AND storage_policy_index = (SELECT storage_policy_index FROM container_info)",
        (span.lower, bound_of(span.upper)),
    ).fetchone()
    return count, size + version_bytes_of(connection, span.lower, span.upper)


def drop_given(database: ContainerDatabase, limit: int) -> int:
    """Remove rows that are in the shard, at most ``limit`` of each span; return their number.

    :raises DatabaseError: as for every write.
    """

    def write(connection: sqlite3.Connection) -> int:
        removed = 0
        for span in read_spans(connection).all:
            if span.phase == GIVEN:
                removed += _drop(connection, span, limit)
        if not removed:
            join_given(connection)
        return removed

    if not database.read(lambda c: any(has_rows(c, s) for s in _given(c))):
        if database.read(lambda c: len(_given(c)) > 1):
            database.write(join_given)
        return 0
    return database.write(write)


def read_stray(database: ContainerDatabase, limit: int) -> tuple[Items, list[int], list[int]]:
    """Rows that came to names which were given already; their ROWIDs in both tables.

    :raises DatabaseError: as for every read.
    """

    def look(connection: sqlite3.Connection) -> tuple[Items, list[int], list[int]]:
        items: Items = []
        rowids: list[int] = []
        version_rowids: list[int] = []
        for span in _given(connection):
            bounds = span.lower, span.upper
            fields = f"{_FIELDS}, ROWID"
            rows, _ = _after(connection, "object", fields, bounds, span.point, limit)
            derived = _names_with_versions(connection, [row[0] for row in rows])
            plain = [row for row in rows if row[0] not in derived]
            items += [_item(row[:-1]) for row in plain]
            rowids += [row[-1] for row in plain]
            if has_versions(connection):
                fields = f"{_FIELDS}, version_id, ROWID"
                versions, _ = _after(
                    connection, "version", fields, bounds, span.version_point, limit
                )
                items += [_item(row[:-2], row[-2]) for row in versions]
                version_rowids += [row[-1] for row in versions]
        return items, rowids, version_rowids

    return database.read(look)


def remove_rows(
    database: ContainerDatabase, rowids: Sequence[int], version_rowids: Sequence[int]
) -> None:
    """Remove rows that were given; each may have been replaced already, and stays then.

    :raises DatabaseError: as for every write.
    """

    def write(connection: sqlite3.Connection) -> None:
        _remove_objects(connection, rowids)
        if version_rowids:
            _remove_versions(connection, version_rowids)

    database.write(write)


def _given(connection: sqlite3.Connection) -> list[Span]:
    return [span for span in read_spans(connection).all if span.phase == GIVEN]


def _drop(connection: sqlite3.Connection, span: Span, limit: int) -> int:
    names = span.lower, bound_of(span.upper)
    rows = connection.execute(
        f"SELECT ROWID, name FROM object WHERE deleted IN (0, 1) AND {_IN_SPAN} AND ROWID <= ?"
        " LIMIT ?",
        (*names, span.point, limit),
    ).fetchall()
    derived = _names_with_versions(connection, [name for _, name in rows])
    _remove_objects(connection, [rowid for rowid, name in rows if name not in derived])
    removed = len(rows) - len(derived)
    if not has_versions(connection):
        return removed
    found = connection.execute(
        f"SELECT ROWID FROM version WHERE {_IN_SPAN} AND ROWID <= ? LIMIT ?",
        (*names, span.version_point, limit),
    ).fetchall()
    _remove_versions(connection, [rowid for (rowid,) in found])
    return removed + len(found)


def _remove_objects(connection: sqlite3.Connection, rowids: Iterable[int]) -> None:
    found = connection.execute(
        f"SELECT ROWID, {_FIELDS} FROM object WHERE ROWID IN (SELECT value FROM json_each(?))",
        (json.dumps(list(rowids)),),
    ).fetchall()
    replace_rows(connection, {rowid: Record(*columns) for rowid, *columns in found}, [])


def _remove_versions(connection: sqlite3.Connection, rowids: Sequence[int]) -> None:
    """Remove rows of versions, and all of a name that has none left."""
    chosen = json.dumps(rowids)
    names = connection.execute(
        "SELECT DISTINCT name FROM version WHERE ROWID IN (SELECT value FROM json_each(?))",
        (chosen,),
    ).fetchall()
    connection.execute(
        "DELETE FROM version WHERE ROWID IN (SELECT value FROM json_each(?))", (chosen,)
    )
    for (name,) in names:
        left = "SELECT 1 FROM version WHERE name = ? LIMIT 1"
        if connection.execute(left, (name,)).fetchone() is not None:
            continue
        connection.execute("DELETE FROM version_name WHERE name = ?", (name,))
        derived = connection.execute(
            "SELECT ROWID FROM object WHERE deleted IN (0, 1) AND name = ?", (name,)
        ).fetchall()
        _remove_objects(connection, [rowid for (rowid,) in derived])


def _points(connection: sqlite3.Connection) -> Points:
    found = dict(connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
    return Points(found.get("object", -1), found.get("version", -1))


def _after(
    connection: sqlite3.Connection,
    table: str,
    fields: str,
    span: tuple[str, str],
    point: int,
    limit: int,
) -> tuple[list[Any], int]:
    """Rows of a span after a ROWID, and the ROWID of the last one."""
    lower, upper = span
    rows = connection.execute(
        f"SELECT {fields}, ROWID FROM {table} WHERE ROWID > ? AND {_IN_SPAN}"
        " ORDER BY ROWID LIMIT ?",
        (point, lower, bound_of(upper), limit),
    ).fetchall()
    return [row[:-1] for row in rows], rows[-1][-1] if rows else point


def _versions(connection: sqlite3.Connection, name: str) -> Items:
    found = connection.execute(
        f"SELECT {_FIELDS}, version_id FROM version WHERE name = ? ORDER BY ROWID", (name,)
    )
    return [_item(row[:-1], row[-1]) for row in found]


def _item(row: Sequence[Any], version: str = "") -> dict[str, Any]:
    item = dict(zip(_NAMES, row, strict=True))
    return item | {"version_id": version} if version else item


def _names_with_versions(connection: sqlite3.Connection, names: Sequence[str]) -> set[str]:
    if not names or not has_versions(connection):
        return set()
    query = "SELECT name FROM version_name WHERE name IN (SELECT value FROM json_each(?))"
    return {name for (name,) in connection.execute(query, (json.dumps(list(names)),))}

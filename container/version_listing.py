# SPDX-License-Identifier: Apache-2.0
"""Listings of versions of a container's objects: by name, then the newest first."""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from container.record import CURRENT, NULL
from container.version_tables import has_versions
from martlet.words.delete_markers import MARKER_ETAG, MARKER_TYPE, NULL_MARKER_ETAG
from storage.name_listing import ListingQuery, Range, Row, Subdir, list_names

_FIELDS = "name, created_at, size, content_type, etag"
_VERSIONS = (
    f"SELECT v.{_FIELDS.replace(', ', ', v.')}, v.version_id, v.since, n.current = v.version_id"
    " FROM version AS v JOIN version_name AS n ON n.name = v.name"
    f" WHERE v.deleted = 0 AND v.version_id <> '{CURRENT}' AND v.storage_policy_index = ?"
)
_OBJECTS = (
    f"SELECT {_FIELDS}, '{NULL}', '', 1 FROM object WHERE deleted = 0 AND storage_policy_index = ?"
)
_WITHOUT_VERSIONS = " AND NOT EXISTS (SELECT 1 FROM version_name AS n WHERE n.name = object.name)"


class VersionQuery(NamedTuple):
    """The parameters of a listing of versions, beside names.

    :param marker: the version of the marker's name after which the list begins; empty without one.
    :param names_null: the null version has the id null also if it is not current.
    """

    marker: str = ""
    names_null: bool = False


def list_versions(
    connection: sqlite3.Connection, query: ListingQuery, policy: int, wanted: VersionQuery
) -> Sequence[Row | Subdir]:
    """List the versions of a query, including those of the marker's name after its version.

    Rows are (name, created_at, size, content_type, etag, version id, is latest). A name without
    versions has one, the null version. If it is not current, it is listed under its time, without
    the offset, unless ``wanted`` names it.
    """
    is_versioned = has_versions(connection)

    def fetch(names: Range) -> Iterator[Row]:
        found = _run(connection, _OBJECTS, policy, names, _WITHOUT_VERSIONS if is_versioned else "")
        if not is_versioned:
            return found
        versions = _run(connection, _VERSIONS, policy, names, "", "v.")
        return heapq.merge(found, versions, key=lambda row: row[0], reverse=names.is_reversed)

    entries: list[Row | Subdir] = []
    if wanted.marker and is_versioned:
        entries += _rest_of_marker(connection, query, policy, wanted.marker)
    if len(entries) < query.limit:
        entries += list_names(replace(query, limit=query.limit - len(entries)), fetch)
    listed = entries[: query.limit]
    return [e if isinstance(e, Subdir) else _shown(e, wanted.names_null) for e in listed]


def _run(
    connection: sqlite3.Connection,
    select: str,
    policy: int,
    names: Range,
    more: str,
    table: str = "",
) -> Iterator[Row]:
    then = f"{table}since" if table else ""
    conditions, arguments = names.conditions(table, then)
    return connection.execute(select + more + conditions, (policy, *arguments))


def _rest_of_marker(
    connection: sqlite3.Connection, query: ListingQuery, policy: int, version_marker: str
) -> list[Row]:
    name = query.marker
    rolled_up = query.delimiter and query.delimiter in name[len(query.prefix) :]
    if not name.startswith(query.prefix) or rolled_up or query.path is not None:
        return []
    since = version_marker
    if version_marker == NULL:
        # Without a null version the marker is before the newest version.
        null = "SELECT since FROM version WHERE name = ? AND version_id = ? AND deleted = 0"
        found = connection.execute(null, (name, NULL)).fetchone()
        since = found[0] if found else ":"
    order = "> ? ORDER BY v.since" if query.is_reversed else "< ? ORDER BY v.since DESC"
    if query.is_reversed:
        since += "_~"  # the version may have an offset, which its id has not
    rows = connection.execute(
        f"{_VERSIONS} AND v.name = ? AND v.since {order} LIMIT ?",
        (policy, name, since, query.limit),
    ).fetchall()
    if since.startswith(":"):
        # As in Swift (its bug 2147042); its tests expect this.
        return [(*row[:7], 0) for row in rows]
    return rows


def _shown(row: Row, names_null: bool) -> Row:
    name, created_at, size, content_type, etag, version, since, is_latest = row
    if version == NULL and not is_latest and not names_null:
        version, _, _ = since.partition("_")  # its offset grows when it comes from another policy
    if etag == NULL_MARKER_ETAG:
        content_type, etag = MARKER_TYPE, MARKER_ETAG
    return (name, created_at, size, content_type, etag, version, bool(is_latest))

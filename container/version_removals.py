# SPDX-License-Identifier: Apache-2.0
"""The removal of many versions of a name at once, as lifecycle rules do it.

Their rows differ in the version id alone. So a few statements do for all what a merge does for each
row: it takes half of the time.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

from container.record import PLAIN_LENGTH, Record

#: Fewer rows are merged one by one.
REMOVALS_MIN = 8

#: The number of values of a row without the version id, which is the last one.
_OTHERS = len(Record._fields) - 1

# CROSS JOIN makes the list the outer loop.
_STORED = """
SELECT coalesce(sum(deleted = 0), 0), coalesce(sum(size * (deleted = 0)), 0),
    coalesce(max(created_at), ''), coalesce(max(length(created_at)), 0),
    coalesce(max(instr(content_type, 'swift_bytes')), 0),
    coalesce(max(storage_policy_index <> ?3), 0)
FROM json_each(?2) AS wanted
CROSS JOIN version ON name = ?1 AND version_id = wanted.value
"""
# A row gets a new ROWID, by which replication finds it.
_REPLACE = """
INSERT OR REPLACE INTO version
    (name, created_at, size, content_type, etag, deleted, storage_policy_index, version_id, since)
SELECT ?1, ?3, ?4, ?5, ?6, ?7, ?8, value, ?3 FROM json_each(?2)
"""


class Removed(NamedTuple):
    """The result of a merge of removals."""

    #: Versions that were there, and their bytes.
    versions: int
    size: int
    #: The rows that are to be merged one by one.
    left: Sequence[Record]


def merge_removals(
    connection: sqlite3.Connection, incoming: Sequence[Record], own_policy: int
) -> Removed:
    """Merge removals of versions of one name; part of the caller's write transaction.

    Only removals that are later than all that is stored of their versions are merged, if all these
    rows are of the container's own policy.
    """
    if len(incoming) < REMOVALS_MIN or any(
        record.storage_policy_index != own_policy for record in incoming
    ):
        return Removed(0, 0, incoming)
    alike: dict[tuple[Any, ...], list[str]] = {}
    for record in incoming:
        alike.setdefault(record[:_OTHERS], []).append(record.version_id)
    count = size = 0
    left: list[Record] = []
    for values, versions in alike.items():
        removal, stored = Record(*values), None
        if len(versions) >= REMOVALS_MIN:
            stored = _remove(connection, removal, sorted(set(versions)))
        if stored is None:
            left += [removal._replace(version_id=version) for version in versions]
        else:
            count, size = count + stored[0], size + stored[1]
    return Removed(count, size, left)


def _remove(
    connection: sqlite3.Connection, removal: Record, versions: Sequence[str]
) -> tuple[int, int] | None:
    """Store removals of versions; return how many of these were there, and their bytes.

    None: nothing is stored, as a removal may not win over what is there.
    """
    if not removal.deleted or len(removal.created_at) != PLAIN_LENGTH:
        return None
    # Ids begin with a digit; the others are words.
    if "swift_bytes" in removal.content_type or versions[0] < "0" or versions[-1] > ":":
        return None
    ids = json.dumps(versions)
    place = removal.name, ids, removal.storage_policy_index
    count, size, latest, length, *others = connection.execute(_STORED, place).fetchone()
    # Times of one length are in the order of their texts. With others, a part of a row may be
    # later. A version of another policy is still to be removed there.
    if latest >= removal.created_at or length > PLAIN_LENGTH or any(others):
        return None
    connection.execute(_REPLACE, (removal.name, ids, *removal[1:_OTHERS]))
    return count, size

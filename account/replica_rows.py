# SPDX-License-Identifier: Apache-2.0
"""The rows of an account's containers: their merge, also between replicas (account-db.md).

The totals in a row have no timestamp of their own. The time at which a container's server read them
is stored beside the row. The totals read last count, of equal times the greater ones. So a report
that arrives late changes nothing, and all replicas end with the same row.

The clocks of container servers differ. The sender of a report that counts for nothing is therefore
told the stored time. It reads the totals again, and gives them a later time (Lamport's clock).

Two replicas with the same totals may have other report times, which their hashes do not show. If a
row of a peer loses, the stored row therefore gets a new ROWID, and so is sent to that peer again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from account.record import COUNT_MAX, Record, make_record, merge_records
from martlet.words.names import BadNameError, check_text
from martlet.words.timestamp import Timestamp
from storage.replica import BadState
from storage.replicated_database import Rows

#: The replicas of a container report the same totals one after the other. A report that repeats
#: the stored totals after a longer time than this is stored as newer; seconds.
REPEATED_SECONDS = 60.0

_COLUMNS = (
    "name, put_timestamp, delete_timestamp, object_count, bytes_used, deleted, storage_policy_index"
)
_FIELDS = (*_COLUMNS.split(", "), "reported_at", "ROWID")
_STORED = """
SELECT c.name, c.put_timestamp, c.delete_timestamp, c.object_count, c.bytes_used, c.deleted,
    c.storage_policy_index, (SELECT reported_at FROM container_report AS r WHERE r.name = c.name),
    c.ROWID
FROM container AS c
"""
_OF_NAME = f"{_STORED} WHERE c.deleted IN (0, 1) AND c.name = ?"
_AFTER = f"{_STORED} WHERE c.ROWID > ? ORDER BY c.ROWID LIMIT ?"
#: Most tombstones found at once; others wait for the next pass.
_FOUND_MAX = 100_000
_SET_TIME = "INSERT OR REPLACE INTO container_report VALUES (?, ?)"
_HAS_TIMES = "SELECT 1 FROM sqlite_master WHERE name = 'container_report'"


class Report(NamedTuple):
    """A row and the time of the report that its totals are from."""

    record: Record
    reported_at: str

    @property
    def rank(self) -> tuple[Timestamp, int, int, int]:
        """Orders totals: the greatest counts."""
        return (Timestamp(self.reported_at), *_totals(self.record))


def merge_report(
    connection: sqlite3.Connection, report: Report, now: Timestamp
) -> Timestamp | None:
    """Merge a report of a container that came now: its totals count, unless later ones are stored.

    The clock of the sender may be fast: no report is newer than ``now``.

    :returns: the time of stored totals that are later than those of the report, and others.
    """
    record, at = report.record, min(Timestamp(report.reported_at), now)
    stored, rowids = _stored(connection, record.name)
    if stored is None:
        _replace(connection, (), Report(record, at.internal))
        return None
    stored_at = Timestamp(stored.reported_at)
    if stored_at > now:
        at = stored_at  # A clock was set back: until it has caught up, the last to arrive counts.
    is_late = at < stored_at
    if is_late:
        merged, at = merge_records(record, stored.record), stored_at
    else:
        merged = merge_records(stored.record, record)
    is_old = float(at) - float(stored_at) > REPEATED_SECONDS
    if merged != stored.record or len(rowids) > 1 or is_old:
        _replace(connection, rowids, Report(merged, at.internal))
    elif at > stored_at:
        connection.execute(_SET_TIME, (record.name, at.internal))
    return stored_at if is_late and _totals(merged) != _totals(record) else None


def merge_rows(connection: sqlite3.Connection, reports: Iterable[Report], before: str) -> None:
    """Merge rows of another replica; ``before`` as in ``ReplicatedDatabase.merge_items``."""
    for report in reports:
        stored, rowids = _stored(connection, report.record.name)
        if stored is None:
            if not (report.record.deleted and report.record.delete_timestamp < before):
                _replace(connection, (), report)
            continue
        winner, loser = (report, stored) if report.rank > stored.rank else (stored, report)
        # merge_records takes the totals of its second argument, and the later of both timestamps.
        merged = merge_records(loser.record, winner.record)
        # The touch: a row that loses must learn of the stored one.
        if merged != stored.record or merged != report.record:
            _replace(connection, rowids, Report(merged, winner.reported_at))


def read_rows(connection: sqlite3.Connection, point: int, limit: int) -> Rows:
    """The next rows after a point, and the point after them."""
    query = _AFTER
    if connection.execute(_HAS_TIMES).fetchone() is None:
        query = _without_times(query)
    found = connection.execute(query, (point, limit)).fetchall()
    items = [dict(zip(_FIELDS, row, strict=True)) for row in found]
    for item in items:
        item["reported_at"] = item["reported_at"] or _time_of(item)
    return items, found[-1][-1] if found else point


def parse_report(item: Any) -> Report:
    """Check an element of a report of several containers; without a time it is read now.

    :raises BadState: as ``parse_item``.
    """
    if isinstance(item, dict) and not item.get("reported_at"):
        item = {**item, "reported_at": Timestamp.now().internal}
    return parse_item(item)


def parse_item(item: Any) -> Report:
    """Check a row of a peer, of martlet or of OpenStack Swift.

    :raises BadState: a field is missing or not of its type.
    """
    try:
        name, objects, size = item["name"], item["object_count"], item["bytes_used"]
        policy = item.get("storage_policy_index", 0)
        put, delete = _time(item["put_timestamp"]), _time(item["delete_timestamp"])
        reported_at = _time(item.get("reported_at") or max(put, delete).internal)
        check_text(name)
    except (TypeError, AttributeError, KeyError, ValueError, BadNameError) as error:
        raise BadState(f"bad row: {error}"[:200]) from None
    if not (type(objects) is type(size) is type(policy) is int and name):
        raise BadState("the counts of a row must be numbers")
    if not (0 <= objects <= COUNT_MAX and 0 <= size <= COUNT_MAX and 0 <= policy < 2**31):
        raise BadState("the counts of a row must not be negative")
    return Report(make_record(name, (put, delete), objects, size, policy), reported_at.internal)


def _time(text: Any) -> Timestamp:
    if not isinstance(text, str):
        raise BadState("a timestamp must be text")
    return Timestamp(text)


def find_tombstones(connection: sqlite3.Connection, point: int, before: str) -> list[int]:
    """The ROWIDs up to a point of containers that were deleted before a timestamp."""
    found = connection.execute(
        "SELECT ROWID FROM container WHERE deleted = 1 AND delete_timestamp < ? AND ROWID <= ?"
        " LIMIT ?",
        (before, point, _FOUND_MAX),
    )
    return [rowid for (rowid,) in found]


def delete_tombstones(connection: sqlite3.Connection, rowids: Sequence[int]) -> None:
    """Delete rows and the times of their reports."""
    for rowid in rowids:
        query = "DELETE FROM container WHERE ROWID = ? RETURNING name"
        for (name,) in connection.execute(query, (rowid,)).fetchall():
            connection.execute("DELETE FROM container_report WHERE name = ?", (name,))


def _totals(record: Record) -> tuple[int, int, int]:
    return record.object_count, record.bytes_used, record.storage_policy_index


def _time_of(item: dict[str, Any]) -> str:
    put: str = item["put_timestamp"]
    delete: str = item["delete_timestamp"]
    return max(put, delete)


def _stored(connection: sqlite3.Connection, name: str) -> tuple[Report | None, list[int]]:
    found = connection.execute(_OF_NAME, (name,)).fetchall()
    if not found:
        return None, []
    *columns, reported_at, _ = found[0]
    record = Record(*columns)
    at = reported_at or max(record.put_timestamp, record.delete_timestamp)
    return Report(record, at), [row[-1] for row in found]


def _replace(connection: sqlite3.Connection, rowids: Iterable[int], report: Report) -> None:
    for rowid in rowids:
        connection.execute("DELETE FROM container WHERE ROWID = ?", (rowid,))
    connection.execute(
        f"INSERT INTO container ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", report.record
    )
    connection.execute(_SET_TIME, (report.record.name, report.reported_at))


def _without_times(query: str) -> str:
    """The query for a database in which nothing was written since it was made elsewhere."""
    start = query.index("(SELECT reported_at")
    end = query.index(")", start) + 1
    return f"{query[:start]}NULL{query[end:]}"

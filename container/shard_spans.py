# SPDX-License-Identifier: Apache-2.0
"""The spans of a replica: the names whose rows this replica has given to shards, or is giving.

A replica works through the ranges of its container by itself, so the spans are not replicated. A
copy of the file has the spans that fit its rows.

``GIVING``: rows are stored here and listed from here. Their senders are told to send them to the
shard, too. ``GIVEN``: rows are in the shard and listed from there. A row that comes here by another
way waits to be moved. ``TAKING``: rows of a neighbour that shrinks into this shard; they do not
count yet.

Rows in ``GIVEN`` and ``TAKING`` spans are not in the counts of the container.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from container.record import CURRENT
from container.shard_range import is_below, is_within
from container.version_tables import has_versions

GIVING, GIVEN, TAKING = 1, 2, 3

_TABLE = """
CREATE TABLE IF NOT EXISTS shard_span (
    lower TEXT PRIMARY KEY,
    upper TEXT,
    phase INTEGER,
    point INTEGER DEFAULT -1,
    version_point INTEGER DEFAULT -1
)
"""
_IN_SPAN = "name > ?1 AND name <= ?2"
_COUNTS = f"""
SELECT storage_policy_index, count(*), sum(size) FROM object
WHERE deleted = 0 AND {_IN_SPAN} GROUP BY storage_policy_index
"""
_VERSION_COUNTS = f"""
SELECT count(*), coalesce(sum(size), 0) FROM version
WHERE deleted = 0 AND version_id <> '{CURRENT}' AND {_IN_SPAN}
"""
_CURRENT_BYTES = f"""
SELECT coalesce(sum(o.size), 0) FROM version_name AS n
CROSS JOIN object AS o ON o.deleted = 0 AND o.name = n.name
WHERE {_IN_SPAN.replace("name", "n.name")}
"""


def bound_of(upper: str) -> str | bytes:
    """An upper bound as an argument of SQL. In SQLite every text is below every blob."""
    return upper or b""


class Span(NamedTuple):
    """Names above ``lower`` and up to ``upper``, as of a shard range.

    Rows up to the points are in the shard: the ROWIDs in ``object`` and in ``version``.
    """

    lower: str
    upper: str
    phase: int
    point: int = -1
    version_point: int = -1

    def covers(self, name: str) -> bool:
        """Whether a name lies in the span."""
        return is_within(name, self.lower, self.upper)


class Spans:
    """The spans of a replica in the order of names; they do not overlap."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self.all: Sequence[Span] = sorted(spans)
        self._lowers = [span.lower for span in self.all]

    def __bool__(self) -> bool:
        return bool(self.all)

    def of(self, name: str) -> Span | None:
        """The span of a name."""
        place = bisect_right(self._lowers, name) - 1
        # A lower bound is not in its span: it may be the last name of the one before.
        for span in self.all[max(0, place - 1) : place + 1]:
            if span.covers(name):
                return span
        return None

    def phase_of(self, name: str) -> int:
        """The phase of a name; 0: the rows of the name are this replica's own."""
        span = self.of(name)
        return 0 if span is None else span.phase

    def is_counted(self, name: str) -> bool:
        """Whether the rows of a name are in the counts of the container."""
        return self.phase_of(name) in (0, GIVING)

    def given(self) -> list[tuple[str, str]]:
        """The bounds of all names that were given away, with neighbours joined."""
        joined: list[tuple[str, str]] = []
        for span in self.all:
            if span.phase != GIVEN:
                continue
            if joined and joined[-1][1] == span.lower and span.lower:
                joined[-1] = joined[-1][0], span.upper
            else:
                joined.append((span.lower, span.upper))
        return joined

    def has_given(self, lower: str, upper: str) -> bool:
        """Whether all names between two bounds were given away."""
        return any(low <= lower and not is_below(high, upper) for low, high in self.given())

    def has_none(self, lower: str, upper: str) -> bool:
        """Whether no name between two bounds is in a span."""
        return not any(_overlap(span, lower, upper) for span in self.all)

    def gave_within(self, lower: str, upper: str) -> bool:
        """Whether a name between two bounds was given away."""
        return any(span.phase == GIVEN and _overlap(span, lower, upper) for span in self.all)


NO_SPANS = Spans([])


def has_spans(connection: sqlite3.Connection) -> bool:
    """Whether the replica has, or had, spans."""
    query = "SELECT 1 FROM sqlite_master WHERE name = 'shard_span'"
    return connection.execute(query).fetchone() is not None


def read_spans(connection: sqlite3.Connection) -> Spans:
    """The spans of a replica."""
    if not has_spans(connection):
        return NO_SPANS
    query = "SELECT lower, upper, phase, point, version_point FROM shard_span"
    return Spans(Span(*row) for row in connection.execute(query))


def begin(connection: sqlite3.Connection, lower: str, upper: str, phase: int) -> None:
    """Add a span, ``GIVING`` or ``TAKING``. Nothing happens if its names have one already."""
    connection.execute(_TABLE)
    spans = read_spans(connection)
    if any(_overlap(span, lower, upper) for span in spans.all):
        return
    connection.execute(
        "INSERT INTO shard_span (lower, upper, phase) VALUES (?, ?, ?)", (lower, upper, phase)
    )
    if phase == TAKING:
        _count(connection, lower, upper, -1)


def give(connection: sqlite3.Connection, lower: str, points: tuple[int, int]) -> None:
    """Make a span ``GIVEN``: the shard has its rows up to the points. They leave the counts."""
    found = connection.execute(
        "SELECT upper, phase FROM shard_span WHERE lower = ?", (lower,)
    ).fetchone()
    if found is None or found[1] != GIVING:
        return
    _count(connection, lower, found[0], -1)
    connection.execute(
        "UPDATE shard_span SET phase = ?, point = ?, version_point = ? WHERE lower = ?",
        (GIVEN, *points, lower),
    )


def end(connection: sqlite3.Connection, lower: str) -> None:
    """Remove a span; its rows are the replica's own again, and count."""
    found = connection.execute(
        "SELECT upper, phase FROM shard_span WHERE lower = ?", (lower,)
    ).fetchone()
    if found is None:
        return
    if found[1] != GIVING:
        _count(connection, lower, found[0], 1)
    connection.execute("DELETE FROM shard_span WHERE lower = ?", (lower,))


def join_given(connection: sqlite3.Connection) -> None:
    """Make one span of neighbours that are given away and have no row left."""
    last: Span | None = None
    for span in read_spans(connection).all:
        if span.phase != GIVEN or has_rows(connection, span):
            last = None
        elif last is None or last.upper != span.lower:
            last = span
        else:
            connection.execute("DELETE FROM shard_span WHERE lower = ?", (span.lower,))
            connection.execute(
                "UPDATE shard_span SET upper = ? WHERE lower = ?", (span.upper, last.lower)
            )
            last = last._replace(upper=span.upper)


def has_rows(connection: sqlite3.Connection, span: Span) -> bool:
    """Whether there is a row in a span."""
    query = f"SELECT 1 FROM object WHERE deleted IN (0, 1) AND {_IN_SPAN} LIMIT 1"
    return connection.execute(query, (span.lower, bound_of(span.upper))).fetchone() is not None


def _overlap(span: Span, lower: str, upper: str) -> bool:
    return is_below(lower or "\x00", span.upper) and is_below(span.lower or "\x00", upper)


def _count(connection: sqlite3.Connection, lower: str, upper: str, sign: int) -> None:
    """Add the rows between two bounds to the counts, or subtract them."""
    for policy, count, size in connection.execute(_COUNTS, (lower, bound_of(upper))).fetchall():
        connection.execute(
            "INSERT INTO policy_stat VALUES (?, ?, ?) ON CONFLICT (storage_policy_index) DO UPDATE"
            " SET object_count = object_count + excluded.object_count,"
            " bytes_used = bytes_used + excluded.bytes_used",
            (policy, sign * count, sign * size),
        )
    if not has_versions(connection):
        return
    (count, _) = connection.execute(_VERSION_COUNTS, (lower, bound_of(upper))).fetchone()
    connection.execute(
        "UPDATE version_stat SET version_count = version_count + ?, extra_bytes = extra_bytes + ?",
        (sign * count, sign * version_bytes_of(connection, lower, upper)),
    )


def version_bytes_of(connection: sqlite3.Connection, lower: str, upper: str) -> int:
    """The bytes of all versions between two bounds, without those of current versions."""
    if not has_versions(connection):
        return 0
    _, size = connection.execute(_VERSION_COUNTS, (lower, bound_of(upper))).fetchone()
    (current,) = connection.execute(_CURRENT_BYTES, (lower, bound_of(upper))).fetchone()
    difference: int = size - current
    return difference

# SPDX-License-Identifier: Apache-2.0
"""The table of shard ranges, and what a replica concludes from it and from its spans.

The ranges replicate; the spans do not (`shard_spans`). Both together say where the rows of a name
are: here, or in a shard.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import unquote

from container.record import Record
from container.shard_range import (
    ACTIVE,
    CLEAVED,
    CREATED,
    CREATED_STATES,
    FOUND,
    QUOTED_PARENT,
    QUOTED_ROOT,
    SHRINKING,
    ShardRange,
    age,
    merge_range,
    walk,
)
from container.shard_spans import (
    GIVEN,
    GIVING,
    NO_SPANS,
    TAKING,
    Spans,
    begin,
    end,
    give,
    read_spans,
)
from martlet.words.timestamp import Timestamp
from storage.metadata import parse_metadata
from storage.replica import NO_ROW

UNSHARDED, SHARDING, SHARDED = "unsharded", "sharding", "sharded"

_FIELDS = (
    "name, timestamp, lower, upper, object_count, bytes_used, meta_timestamp, deleted, state,"
    " state_timestamp, epoch, reported, tombstones"
)
_NAMES = "SELECT account, container, created_at, metadata FROM container_info"


class Redirect(NamedTuple):
    """Rows that belong into a shard: their places in the request, and its range."""

    target: ShardRange
    places: list[int]


class Sharding:
    """The shards of a container, as one transaction of a replica sees them."""

    def __init__(
        self, own: ShardRange, ranges: Sequence[ShardRange], spans: Spans, has_own: bool
    ) -> None:
        """``ranges`` are those of shards, without deleted ones."""
        self.own = own
        self.ranges = ranges
        self.spans = spans
        self.has_own = has_own
        self._created = [r for r in ranges if r.state in CREATED_STATES]

    @property
    def state(self) -> str:
        """The state of this replica, in the words of OpenStack Swift."""
        if self.spans.has_given(self.own.lower, self.own.upper):
            return SHARDED
        is_begun = any(span.phase in (GIVING, GIVEN) for span in self.spans.all)
        return SHARDING if is_begun else UNSHARDED

    def listed(self) -> list[ShardRange]:
        """Where to list the names of the container, in order and without a gap.

        The range of the container itself stands for names whose rows are here.
        """
        found: list[ShardRange] = []
        at = self.own.lower
        for lower, upper in self.spans.given():
            if lower > at:
                found.append(replace(self.own, lower=at, upper=lower))
            found += walk(self._created, self.own, lower, upper)
            at = upper
            if not upper:
                return found
        if not found or not self.own.upper or at < self.own.upper:
            found.append(replace(self.own, lower=at, upper=self.own.upper))
        return found

    def updated(self) -> list[ShardRange]:
        """Where to send rows of the names of the container, in order and without a gap.

        A shard gets them directly once all replicas of the container have given it theirs. Until
        then each replica decides, and redirects.
        """
        found: list[ShardRange] = []
        for item in walk(self._created, self.own, self.own.lower, self.own.upper):
            is_direct = item.state == ACTIVE and self.spans.has_given(item.lower, item.upper)
            found.append(
                item if is_direct else replace(self.own, lower=item.lower, upper=item.upper)
            )
        return found

    @property
    def is_being_filled(self) -> bool:
        """Whether replicas of another container may still have rows for this one."""
        is_new = self.has_own and self.own.state in (FOUND, CREATED, CLEAVED)
        return is_new or any(span.phase == TAKING for span in self.spans.all)

    def given_stats(self) -> tuple[int, int]:
        """The objects and bytes in the shards that have rows of this replica."""
        listed = {r.name: r for r in self.listed() if r.name != self.own.name}
        known = [r for r in self.ranges if r.name in listed]
        return sum(r.object_count for r in known), sum(r.bytes_used for r in known)

    def target_of(self, name: str) -> ShardRange | None:
        """The shard that a row of a name must go to; None: it stays here."""
        if self.spans.phase_of(name) not in (GIVING, GIVEN):
            return None
        covering = [r for r in self._created if r.covers(name)]
        return min(covering, key=age, default=None)

    def split(self, records: Sequence[Record]) -> tuple[list[Record], list[Redirect]]:
        """The rows to be stored here, and those to be sent on; some are both."""
        own: list[Record] = []
        away: dict[str, Redirect] = {}
        for place, record in enumerate(records):
            target = self.target_of(record.name)
            if target is not None:
                away.setdefault(target.name, Redirect(target, [])).places.append(place)
            if target is None or self.spans.phase_of(record.name) != GIVEN:
                own.append(record)
        return own, list(away.values())


def read_ranges(connection: sqlite3.Connection) -> list[ShardRange]:
    """All ranges, including deleted ones and that of the container itself, in order."""
    if not _has_table(connection):
        return []
    rows = connection.execute(f"SELECT {_FIELDS} FROM shard_range ORDER BY lower, upper, name")
    return [_range_of(row) for row in rows]


def read_sharding(connection: sqlite3.Connection) -> Sharding | None:
    """The shards of a container; None: it has none."""
    spans = read_spans(connection)
    ranges = read_ranges(connection) if spans or _has_ranges(connection) else []
    if not ranges:
        return None
    account, container, created_at, metadata = connection.execute(_NAMES).fetchone()
    own_name = f"{account}/{container}"
    own = next((r for r in ranges if r.name == own_name), None)
    others = [r for r in ranges if r.name != own_name and not r.deleted]
    if is_shard(metadata):
        others = [r for r in others if not _is_donor(r, own_name)]
    default = ShardRange(own_name, created_at, state=ACTIVE)
    if own is None and not others:
        return None
    return Sharding(own or default, others, spans if others else NO_SPANS, own is not None)


def merge_ranges(connection: sqlite3.Connection, items: Iterable[ShardRange]) -> bool:
    """Merge ranges of shards and of the container itself; return whether one has changed.

    A shard that learns of a neighbour that shrinks into it begins to take its rows. Once its own
    range has grown, these rows count.
    """
    stored = {found.name: found for found in read_ranges(connection)}
    account, container, _, metadata = connection.execute(_NAMES).fetchone()
    has_changed = False
    for item in items:
        known = stored.get(item.name)
        merged = item if known is None else merge_range(known, item)
        if merged == known:
            continue
        has_changed = True
        stored[item.name] = merged
        _write(connection, merged)
    own = stored.get(f"{account}/{container}")
    if has_changed and own is not None and is_shard(metadata):
        _take_over(connection, own, list(stored.values()))
    if has_changed:
        _catch_up(connection)
    return has_changed


def _take_over(
    connection: sqlite3.Connection, own: ShardRange, ranges: Iterable[ShardRange]
) -> None:
    """Begin and end the spans of neighbours that shrink into this shard."""
    for span in read_spans(connection).all:
        if span.phase == TAKING and own.is_around(span.lower, span.upper):
            end(connection, span.lower)
    for donor in ranges:
        if donor.deleted or not _is_donor(donor, own.name):
            continue
        if own.is_around(donor.lower, donor.upper):
            stamp = max(own.timestamp, donor.timestamp)  # the same on all replicas
            _write(connection, replace(donor, deleted=1, timestamp=stamp))
        elif donor.upper == own.lower or donor.lower == own.upper:
            begin(connection, donor.lower, donor.upper, TAKING)


def _catch_up(connection: sqlite3.Connection) -> None:
    """Give away the names of active ranges, if this replica has not.

    All others have, and their rows do not come here any more: this is a new replica. Its own rows
    wait to be moved.
    """
    sharding = read_sharding(connection)
    for item in [] if sharding is None else sharding.ranges:
        if item.state == ACTIVE and read_spans(connection).has_none(item.lower, item.upper):
            begin(connection, item.lower, item.upper, GIVING)
            give(connection, item.lower, (NO_ROW, NO_ROW))


def _is_donor(item: ShardRange, own_name: str) -> bool:
    """Whether a range in a shard is that of a neighbour that shrinks into it.

    A shard lets no shards of its own shrink: its root does that.
    """
    return item.state == SHRINKING and item.name != own_name


def write_empty_stats(connection: sqlite3.Connection, now: str) -> None:
    """Record that all shards are empty."""
    ranges = [found for found in read_ranges(connection) if not found.deleted]
    merge_ranges(connection, [found.with_stats(0, 0, now) for found in ranges])


def merge_stats(connection: sqlite3.Connection, items: Iterable[ShardRange]) -> Timestamp | None:
    """Merge the statistics of ranges that are known here.

    :returns: the latest time of stored statistics that are later than those of an item, and others.
    """
    stored = {found.name: found for found in read_ranges(connection)}
    known, later = [], []
    for item in items:
        found = stored.get(item.name)
        if found is None:
            continue
        counts = item.object_count, item.bytes_used
        known.append(found.with_stats(*counts, item.meta_timestamp))
        is_late = Timestamp(item.meta_timestamp) < Timestamp(found.meta_timestamp)
        if is_late and counts != (found.object_count, found.bytes_used):
            later.append(Timestamp(found.meta_timestamp))
    merge_ranges(connection, known)
    return max(later, default=None)


def root_of(raw_metadata: str, account: str, container: str) -> tuple[str, str]:
    """The account and container that clients know: of a shard its root, else its own names."""
    return _named(raw_metadata, QUOTED_ROOT) or (account, container)


def parent_of(raw_metadata: str, account: str, container: str) -> tuple[str, str]:
    """The container whose range a shard has: its root, or another shard."""
    found = _named(raw_metadata, QUOTED_PARENT)
    return found or root_of(raw_metadata, account, container)


def is_shard(raw_metadata: str) -> bool:
    """Whether the metadata is that of a shard."""
    return _named(raw_metadata, QUOTED_ROOT) is not None


def _named(raw_metadata: str, header: str) -> tuple[str, str] | None:
    if header not in raw_metadata:
        return None
    account, _, container = unquote(parse_metadata(raw_metadata)[header][0]).partition("/")
    return (account, container) if account and container else None


def _has_table(connection: sqlite3.Connection) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE name = 'shard_range'"
    return connection.execute(query).fetchone() is not None


def _has_ranges(connection: sqlite3.Connection) -> bool:
    if not _has_table(connection):
        return False
    return connection.execute("SELECT 1 FROM shard_range LIMIT 1").fetchone() is not None


def _range_of(row: Sequence[object]) -> ShardRange:
    name, stamp, lower, upper, count, size, meta, deleted, state, changed, epoch, told, tombs = row
    values = name, stamp, lower or "", upper or "", count or 0, size or 0, meta or stamp
    rest = deleted or 0, state, changed or stamp, epoch or "", told or 0
    return ShardRange(*values, *rest, -1 if tombs is None else tombs)  # type: ignore[arg-type]


def _write(connection: sqlite3.Connection, item: ShardRange) -> None:
    connection.execute("DELETE FROM shard_range WHERE name = ?", (item.name,))
    connection.execute(
        f"INSERT INTO shard_range ({_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            item.name,
            item.timestamp,
            item.lower,
            item.upper,
            item.object_count,
            item.bytes_used,
            item.meta_timestamp,
            item.deleted,
            item.state,
            item.state_timestamp,
            item.epoch or None,
            item.reported,
            item.tombstones,
        ),
    )

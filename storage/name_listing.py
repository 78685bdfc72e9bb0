# SPDX-License-Identifier: Apache-2.0
"""Listings of names in order: prefix, delimiter, path, markers, limit, forwards or backwards.

The order is that of the UTF-8 bytes, as of code points, SQLite's BINARY collation and Python's
``str``. One new query skips a large group of names that a delimiter rolls up. So the cost of a
listing depends on its entries, not on the number of rows in its groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

#: The most rows of a group that are read and ignored.
_PATIENCE_MAX = 8

#: One row of a table; the name comes first.
Row = tuple[Any, ...]


class Subdir(NamedTuple):
    """An entry for all names that begin with ``name``, rolled up."""

    name: str


class Bound(NamedTuple):
    """One end of a range of names."""

    name: str
    is_inclusive: bool


@dataclass(frozen=True, slots=True)
class Range:
    """The names between two bounds, either of which may be open."""

    lower: Bound | None
    upper: Bound | None
    is_reversed: bool
    limit: int

    def conditions(self, table: str = "", then: str = "") -> tuple[str, list[str | int]]:
        """SQL for the end of a query on a table with a column ``name``, and its arguments.

        :param table: the qualifier of the column, with its dot.
        :param then: the column that orders rows of one name: descending, or ascending in a reversed
            listing.
        """
        sql, arguments = "", list[str | int]()
        if self.lower is not None:
            sql += f" AND {table}name {'>=' if self.lower.is_inclusive else '>'} ?"
            arguments.append(self.lower.name)
        if self.upper is not None:
            sql += f" AND {table}name {'<=' if self.upper.is_inclusive else '<'} ?"
            arguments.append(self.upper.name)
        sql += f" ORDER BY {table}name{' DESC' if self.is_reversed else ''}"
        if then:
            sql += f", {then}{'' if self.is_reversed else ' DESC'}"
        return f"{sql} LIMIT ?", [*arguments, self.limit]


#: Runs the query of a range; rows come in order, and the caller may stop reading early.
Fetch = Callable[[Range], Iterator[Row]]


@dataclass(frozen=True, slots=True)
class ListingQuery:
    """The parameters of a listing. An empty string means "not given", except for ``path``."""

    limit: int
    marker: str = ""
    end_marker: str = ""
    prefix: str = ""
    delimiter: str = ""
    is_reversed: bool = False
    path: str | None = None


def list_names(query: ListingQuery, fetch: Fetch) -> list[Row | Subdir]:
    """The entries of a listing, in order.

    Without a delimiter: each name that begins with the prefix and is strictly between the markers.
    With a delimiter: names that contain it after the prefix are rolled up into a ``Subdir`` that
    ends with it. A ``Subdir`` equal to the lower marker is left out.
    With a path: the names directly below ``path/``, including those whose only further slash is
    the last character; nothing is rolled up.
    """
    walk = _Walk(query, fetch)
    return walk.plain() if not walk.delimiter else walk.rolled_up()


class _Walk:
    """A running listing; ``lower`` and ``upper`` are the bounds of the unread names."""

    def __init__(self, query: ListingQuery, fetch: Fetch) -> None:
        self.query = query
        self.fetch = fetch
        self.prefix, self.delimiter = query.prefix, query.delimiter
        if query.path is not None:
            self.prefix = f"{query.path.rstrip('/')}/" if query.path else ""
            self.delimiter = "/"
        low, high = query.marker, query.end_marker
        if query.is_reversed:
            low, high = high, low
        self.low_marker = low
        self.patience = _PATIENCE_MAX  # rows of a group that are read before a query steps over it
        self.lower, self.upper = _bounds(low, high, self.prefix)
        if query.path is not None and self.lower.name == self.prefix:
            self.lower = Bound(self.prefix, is_inclusive=False)  # without the path itself

    def plain(self) -> list[Row | Subdir]:
        return list(self.fetch(self._rest(self.query.limit)))

    def rolled_up(self) -> list[Row | Subdir]:
        entries: list[Row | Subdir] = []
        while len(entries) < self.query.limit:
            group = self._read_up_to_large_group(entries)
            if group is None or not self._step_over(group):
                break
        return entries

    def _read_up_to_large_group(self, entries: list[Row | Subdir]) -> str | None:
        """Append entries; return the group after which to go on, None at the end of all.

        Rows of a small group are read and ignored: a new query costs more than some rows.
        """
        limit = self.query.limit - len(entries)
        group, rows, rows_of_group, entries_to_group = None, 0, 0, 0
        for row in self.fetch(self._rest(limit)):
            rows += 1
            name: str = row[0]
            if group is not None and self._is_inside(name, group):
                rows_of_group += 1
                if rows_of_group > self.patience:
                    self.patience = max(self.patience // 2, 1)
                    return group
                continue
            if rows_of_group:
                self.patience = min(self.patience * 2, _PATIENCE_MAX)
                rows_of_group = 0
            found = name.find(self.delimiter, len(self.prefix))
            if found < 0:
                entries.append(row)
                continue
            start = name[: found + len(self.delimiter)]
            if self.query.path is None:
                group, rows_of_group = start, 1
                if group != self.low_marker:
                    entries.append(Subdir(group))
            elif len(name) > len(start):
                group, rows_of_group = start, 1
            else:
                entries.append(row)
                continue
            entries_to_group = len(entries)
        if group is None or rows < limit or len(entries) == self.query.limit:
            return None
        # The query ended before the page is full. Entries after the group are read again: of a name
        # with versions there may be more rows.
        del entries[entries_to_group:]
        return group

    def _is_inside(self, name: str, group: str) -> bool:
        """Whether a name is one of those that a group stands for."""
        return name.startswith(group) and (self.query.path is None or name != group)

    def _step_over(self, group: str) -> bool:
        """Narrow the range to the names after a group; return False if there can be none."""
        if self.query.is_reversed:
            # Backwards, a name equal to the group's prefix is the last of the group.
            self.upper = Bound(group, is_inclusive=self.query.path is not None)
            return True
        following = successor_of_prefix(group)
        if following is None:
            return False
        self.lower = Bound(following, is_inclusive=True)
        return True

    def _rest(self, limit: int) -> Range:
        return Range(self.lower, self.upper, self.query.is_reversed, limit)


def _bounds(low: str, high: str, prefix: str) -> tuple[Bound, Bound | None]:
    # Names that begin with NUL are in a reserved namespace, which clients cannot list.
    lower = Bound("\x01", is_inclusive=True)
    if low >= lower.name:
        lower = Bound(low, is_inclusive=False)
    upper = Bound(high, is_inclusive=False) if high else None
    if prefix:
        if prefix > lower.name:
            lower = Bound(prefix, is_inclusive=True)
        end = successor_of_prefix(prefix)
        if end is not None and (upper is None or end < upper.name):
            upper = Bound(end, is_inclusive=False)
    return lower, upper


_LAST_CHARACTER = "\U0010ffff"
_BEFORE_SURROGATES = "\ud7ff"
_AFTER_SURROGATES = "\ue000"


def successor_of_prefix(prefix: str) -> str | None:
    """The least string above all strings that begin with ``prefix``; None if there is none.

    Surrogates do not exist in UTF-8, so they are skipped.
    """
    stem = prefix.rstrip(_LAST_CHARACTER)
    if not stem:
        return None
    last = stem[-1]
    following = _AFTER_SURROGATES if last == _BEFORE_SURROGATES else chr(ord(last) + 1)
    return stem[:-1] + following

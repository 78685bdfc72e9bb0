"""Listings: every parameter, every UTF-8 name, against a plain model; and what a listing costs."""

import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.name_listing import (
    ListingQuery,
    Range,
    Row,
    Subdir,
    list_names,
    successor_of_prefix,
)

# Few letters, so that names share prefixes, and the edges of UTF-8, of surrogates and of Unicode.
EDGES = "\x01\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010fffe\U0010ffff"
LETTERS = st.sampled_from("ab//--" + EDGES)
ANY_CHARACTER = st.characters(exclude_characters="\x00", exclude_categories=["Cs"])
TEXT = st.text(LETTERS, max_size=6) | st.text(LETTERS | ANY_CHARACTER, max_size=4)
NAMES = st.sets(TEXT.filter(bool), max_size=25)


def model(names: set[str], query: ListingQuery) -> list[str | Subdir]:
    """What a listing must be, one name at a time."""
    prefix, delimiter = query.prefix, query.delimiter
    if query.path is not None:
        prefix = query.path.rstrip("/") + "/" if query.path else ""
        delimiter = "/"
    low, high = query.marker, query.end_marker
    if query.is_reversed:
        low, high = high, low
    entries: set[str | Subdir] = set()
    for name in names:
        if not name.startswith(prefix) or name <= low or (high and name >= high):
            continue
        rest = name[len(prefix) :]
        head, found, tail = rest.partition(delimiter) if delimiter else (rest, "", "")
        if query.path is not None:
            if rest and not tail:
                entries.add(name)
        elif found:
            group = prefix + head + found
            if group != low:
                entries.add(Subdir(group))
        else:
            entries.add(name)

    def key(entry: str | Subdir) -> bytes:
        return (entry.name if isinstance(entry, Subdir) else entry).encode()

    return sorted(entries, key=key, reverse=query.is_reversed)[: query.limit]


class Table:
    """Names in SQLite, and how many rows were read of them."""

    def __init__(self, names: set[str]) -> None:
        self.rows_read = self.queries = 0
        self._sqlite = sqlite3.connect(":memory:")
        self._sqlite.execute("CREATE TABLE t (name TEXT PRIMARY KEY)")
        self._sqlite.executemany("INSERT INTO t VALUES (?)", [(n,) for n in names])

    def fetch(self, names: Range) -> Iterator[Row]:
        self.queries += 1
        conditions, arguments = names.conditions()
        for row in self._sqlite.execute("SELECT name FROM t WHERE 1" + conditions, arguments):
            self.rows_read += 1
            yield row


def listing(table: Table, query: ListingQuery) -> list[str | Subdir]:
    return [e if isinstance(e, Subdir) else e[0] for e in list_names(query, table.fetch)]


@settings(max_examples=600, deadline=None)
@given(st.data())
def test_listing_is_what_the_model_says(data: st.DataObject) -> None:
    names = data.draw(NAMES)
    near = st.just("") | TEXT | (st.sampled_from(sorted(names)) if names else TEXT)
    query = ListingQuery(
        limit=data.draw(st.integers(0, 30)),
        marker=data.draw(near),
        end_marker=data.draw(near),
        prefix=data.draw(st.just("") | st.text(LETTERS, max_size=3)),
        delimiter=data.draw(st.just("") | st.text(LETTERS, max_size=3)),
        is_reversed=data.draw(st.booleans()),
        path=data.draw(st.none() | st.text(LETTERS, max_size=3)),
    )
    assert listing(Table(names), query) == model(names, query)


@settings(max_examples=200, deadline=None)
@given(NAMES, st.text(LETTERS, max_size=2), st.booleans(), st.integers(1, 4))
def test_pages_add_up_to_the_whole(
    names: set[str], delimiter: str, is_reversed: bool, page_size: int
) -> None:
    """A client that goes on from the last entry of a page sees every entry once."""
    table = Table(names)
    whole = ListingQuery(limit=100, delimiter=delimiter, is_reversed=is_reversed)
    pages: list[str | Subdir] = []
    marker = ""
    while True:
        query = ListingQuery(page_size, marker, delimiter=delimiter, is_reversed=is_reversed)
        page = listing(table, query)
        if not page:
            break
        pages += page
        assert len(pages) <= len(names), "an entry came twice"
        last = page[-1]
        marker = last.name if isinstance(last, Subdir) else last
    assert pages == listing(table, whole)


@given(st.text(LETTERS | ANY_CHARACTER, min_size=1, max_size=4), st.lists(TEXT, max_size=8))
def test_successor_is_the_end_of_a_prefix(prefix: str, tails: list[str]) -> None:
    successor = successor_of_prefix(prefix)
    if successor is None:
        assert set(prefix) == {"\U0010ffff"}
        return
    successor.encode()  # no surrogate
    assert all(prefix + tail < successor for tail in tails)
    assert not successor.startswith(prefix)


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("per_group", [1, 3, 300])
def test_a_listing_costs_what_it_returns(per_group: int, is_reversed: bool) -> None:
    """However many rows a group holds, it costs a few of them; small ones cost no query."""
    table = Table({f"{g:03}/{n:04}" for g in range(50) for n in range(per_group)})
    query = ListingQuery(limit=20, delimiter="/", is_reversed=is_reversed)
    assert len(listing(table, query)) == 20
    assert table.rows_read <= (20 if per_group == 1 else 80)
    assert table.queries <= {1: 1, 3: 12, 300: 21}[per_group]


@pytest.mark.parametrize("limit", [1, 2, 3])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_page_of_a_path_is_full(limit: int, is_reversed: bool) -> None:
    """The object of the path itself is not listed, and takes nobody's place."""
    names = {"d/", "d/1", "d/2", "d/3", "d/4/5"}
    query = ListingQuery(limit, path="d", is_reversed=is_reversed)
    assert listing(Table(names), query) == model(names, query)
    assert len(model(names, query)) == limit


def test_names_of_the_reserved_namespace_are_not_listed() -> None:
    table = Table({"\x00reserved", "plain"})
    assert listing(table, ListingQuery(limit=10)) == ["plain"]
    assert listing(table, ListingQuery(limit=10, prefix="\x00")) == []

"""Rows of objects: three times in one column, and a merge that does not care about order."""

import functools
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from container.record import (
    InvalidRecord,
    Record,
    Times,
    decode_times,
    last_modified,
    merge_records,
    parse_record,
    split_swift_bytes,
)
from martlet.words.timestamp import Timestamp

ROW = {
    "name": "o",
    "created_at": "1795223541.00001",
    "size": 1,
    "content_type": "text/plain",
    "etag": "e",
    "deleted": 0,
    "storage_policy_index": 0,
}


def row(**values: Any) -> Record:
    return parse_record({**ROW, **values})


@pytest.mark.parametrize(
    ("created_at", "content_type_time", "metadata_time", "stored"),
    [
        ("1795223541.00001", None, None, "1795223541.00001"),
        ("1795223541.00001_000000000000000a", None, None, "1795223541.00001_a"),
        ("1795223541.00001", "1795223541.00001", "1795223541.00001", "1795223541.00001"),
        ("1795223541.00001", "1795223542.00001", None, "1795223541.00001+186a0+0"),
        ("1795223541.00001", None, "1795223542.00001", "1795223541.00001+0+186a0"),
        (
            "1795223541.00001",
            "1795223542.00001",
            "1795223544.00001",
            "1795223541.00001+186a0+30d40",
        ),
        ("1795223541.00001+186a0+30d40", None, None, "1795223541.00001+186a0+30d40"),
        # A content type is never older than the data that it came with.
        ("1795223541.00001", "1795223540.00001", "1795223540.00001", "1795223541.00001"),
        ("1795223541", None, None, "1795223541.00000"),
    ],
)
def test_the_three_times_share_a_column(
    created_at: str, content_type_time: str | None, metadata_time: str | None, stored: str
) -> None:
    taken = row(
        created_at=created_at, ctype_timestamp=content_type_time, meta_timestamp=metadata_time
    )
    assert taken.created_at == stored
    assert decode_times(stored).encode() == stored


TICKS = st.integers(10**14, 10**14 + 5)


@given(TICKS, st.integers(0, 2), st.integers(0, 3), st.integers(-2, 3))
def test_times_survive_encoding(data: int, offset: int, to_type: int, to_meta: int) -> None:
    times = Times(
        Timestamp.from_ticks(data, offset),
        Timestamp.from_ticks(data + to_type, 0 if to_type else offset),
        Timestamp.from_ticks(data + to_type + to_meta, 0 if to_meta or to_type else offset),
    )
    if times.metadata >= times.data:
        assert decode_times(times.encode()) == times


def test_a_listing_shows_the_time_of_the_last_change() -> None:
    assert last_modified("1795223541.00001") == "2026-11-21T01:12:21.000010"
    assert last_modified("1795223541.00001+186a0+30d40") == "2026-11-21T01:12:24.000010"


@pytest.mark.parametrize(
    ("stored", "content_type", "swift_bytes"),
    [
        ("text/plain", "text/plain", None),
        ("text/plain;swift_bytes=5", "text/plain", "5"),
        ("text/plain; charset=utf-8; swift_bytes=5", "text/plain; charset=utf-8", "5"),
        ("a/b;swift_bytes=5;x=y", "a/b;x=y", "5"),
        ("a/b;x=swift_bytes", "a/b;x=swift_bytes", None),
        ("", "", None),
    ],
)
def test_swift_bytes_are_taken_out(stored: str, content_type: str, swift_bytes: str | None) -> None:
    assert split_swift_bytes(stored) == (content_type, swift_bytes)


def test_each_value_is_decided_by_its_own_time() -> None:
    old = row(created_at="1795223541.00000", etag="old", size=1, content_type="a/a;swift_bytes=7")
    post = row(created_at="1795223541.00000", content_type="b/b", ctype_timestamp="1795223543")
    new = row(created_at="1795223542.00000", etag="new", size=2, content_type="c/c;swift_bytes=9")
    merged = merge_records(merge_records(old, post), new)
    # The data are the later PUT's; the content type was changed after that.
    assert merged[1:5] == ("1795223542.00000+186a0+0", 2, "b/b;swift_bytes=9", "new")


def test_a_tombstone_wins_over_data_of_its_time() -> None:
    live = row(size=5)
    dead = row(deleted=1, size=0, etag="noetag", content_type="application/deleted")
    assert merge_records(live, dead).deleted == merge_records(dead, live).deleted == 1


TIMES = st.integers(0, 3).flatmap(
    lambda t: st.sampled_from([f"179522354{t}.00000", f"179522354{t}.00000_0000000000000001"])
)
ROWS = st.fixed_dictionaries(
    {
        "created_at": TIMES,
        "size": st.integers(0, 2),
        "etag": st.sampled_from(["d", "e"]),
        "content_type": st.sampled_from(["a/a", "b/b", "a/a;swift_bytes=5", "b/b; swift_bytes=6"]),
        "deleted": st.integers(0, 1),
    },
    optional={
        "ctype_timestamp": st.none() | TIMES,
        "meta_timestamp": st.none() | TIMES,
    },
).map(lambda values: row(**values))


@given(st.lists(ROWS, min_size=1, max_size=4))
def test_merging_in_any_order_gives_the_same(rows: list[Record]) -> None:
    results = {functools.reduce(merge_records, order) for order in itertools.permutations(rows)}
    assert len(results) == 1


@given(ROWS, ROWS)
def test_merging_again_changes_nothing(one: Record, other: Record) -> None:
    merged = merge_records(one, other)
    assert merge_records(merged, other) == merge_records(one, merged) == merged
    assert merge_records(one, one) == one


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": None},
        {"name": 5},
        {"name": "a\x00b"},
        {"name": "\ud800"},
        {"etag": "\udfff"},
        {"size": -1},
        {"size": 2**63},
        {"size": "5"},
        {"size": True},
        {"size": 1.5},
        {"created_at": "yesterday"},
        {"created_at": 1795223541.0},
        {"created_at": "1795223541.00001+"},
        {"created_at": "99999999999999"},
        {"ctype_timestamp": "x"},
        {"meta_timestamp": []},
        {"deleted": 2},
        {"deleted": "yes"},
        {"storage_policy_index": -1},
        {"storage_policy_index": "0"},
        {"content_type": None},
    ],
)
def test_a_malformed_row_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidRecord):
        row(**change)


@pytest.mark.parametrize("item", [None, [], "row", 5, {}, {"name": "o"}])
def test_what_is_no_row_is_refused(item: Any) -> None:
    with pytest.raises(InvalidRecord):
        parse_record(item)

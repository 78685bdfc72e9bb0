"""The quick way to a listing's JSON gives what the plain way gives."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from container.listing_rows import object_entry, render_rows
from container.record import NULL, Times, last_modified
from martlet.http.listing import JSON, render_container
from martlet.words.timestamp import Timestamp
from storage.name_listing import Subdir

texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"))  # as SQLite has them
ticks = st.integers(0, 9_999_999_999 * 100_000 + 99_999)
plain_times = ticks.map(lambda value: Timestamp.from_ticks(value).normal)
joined_times = st.tuples(ticks, ticks, ticks).map(
    lambda t: Times(*(Timestamp.from_ticks(value) for value in sorted(t))).encode()
)
types = st.one_of(
    st.sampled_from(["image/jpeg", "a/b;swift_bytes=77", "a/b; charset=x;swift_bytes=many"]), texts
)
rows = st.tuples(
    texts,
    st.one_of(plain_times, joined_times),
    st.integers(0, 2**63 - 1),
    types,
    texts,
    st.one_of(st.sampled_from(["", NULL]), plain_times),
)


@given(st.lists(st.one_of(rows, texts.map(Subdir))))
def test_rows_are_rendered_as_json_dumps_would(listing: list[tuple[str, ...] | Subdir]) -> None:
    body = render_rows(listing, "/a/c")
    assert body == render_container([object_entry(row, "/a/c") for row in listing], JSON, "c")
    json.loads(body)


@given(plain_times)
def test_the_shown_time_is_that_of_the_timestamp(created_at: str) -> None:
    assert last_modified(created_at) == Timestamp(created_at).isoformat


def test_swift_bytes_go_before_the_size() -> None:
    row = ("n", "1700000000.00001", 5, "a/b;swift_bytes=77", "e", "")
    assert json.loads(render_rows([row, Subdir("d/")], "/a/c")) == [
        {
            "bytes": 77,
            "hash": "e",
            "name": "n",
            "content_type": "a/b",
            "last_modified": "2023-11-14T22:13:20.000010",
        },
        {"subdir": "d/"},
    ]

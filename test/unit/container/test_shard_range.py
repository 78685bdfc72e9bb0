"""Shard ranges merge in any order, and divide the names without a gap or an overlap."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from container.shard_range import (
    ACTIVE,
    STATE_NAMES,
    BadRange,
    ShardRange,
    is_within,
    merge_range,
    parse_range,
    shard_name,
    shards_account,
    walk,
)
from container.shard_spans import GIVEN, GIVING, TAKING, Span, Spans

STAMPS = st.sampled_from([f"170000000{n}.00000" for n in range(4)])
BOUNDS = st.sampled_from(["", "a", "b", "bb", "c", "d"])
NAMES = ["0", "a", "aa", "b", "ba", "bb", "bbb", "c", "cc", "d", "e", "\U0010ffff"]


@st.composite
def ranges(draw: st.DrawFn, name: str = "") -> ShardRange:
    lower, upper = draw(BOUNDS), draw(BOUNDS)
    if upper and upper <= lower:
        lower, upper = ("", lower) if upper == lower else (upper, lower)
    return ShardRange(
        name or draw(st.sampled_from([".shards_a/c-1", ".shards_a/c-2", ".shards_a/c-3"])),
        draw(STAMPS),
        lower,
        upper,
        draw(st.integers(0, 3)),
        draw(st.integers(0, 3)),
        draw(STAMPS),
        draw(st.integers(0, 1)),
        draw(st.sampled_from(sorted(STATE_NAMES))),
        draw(STAMPS),
        draw(st.sampled_from(["", "1700000000.00000"])),
        draw(st.integers(0, 1)),
        draw(st.integers(-1, 2)),
    )


SAME = ranges(name=".shards_a/c-1")


@given(SAME, SAME, SAME)
def test_the_order_of_merges_does_not_matter(
    one: ShardRange, two: ShardRange, three: ShardRange
) -> None:
    merged = merge_range(merge_range(one, two), three)
    for a, b, c in itertools.permutations((one, two, three)):
        assert merge_range(merge_range(a, b), c) == merged
        assert merge_range(a, merge_range(b, c)) == merged
    assert merge_range(merged, one) == merged


@given(ranges())
def test_a_range_comes_back_from_json(item: ShardRange) -> None:
    assert parse_range(item.as_dict()) == item


@pytest.mark.parametrize(
    "change",
    [
        {"name": "a"},
        {"name": "a/b/c"},
        {"name": "/b"},
        {"name": 1},
        {"timestamp": "yesterday"},
        {"lower": None},
        {"lower": "b", "upper": "a"},
        {"state": 41},
        {"state": "active"},
        {"object_count": -1},
        {"deleted": 2},
        {"upper": "\ud800"},
    ],
)
def test_a_malformed_range_is_refused(change: dict[str, Any]) -> None:
    whole = ShardRange("a/c", "1700000000.00000", "a", "b", state=ACTIVE).as_dict()
    parse_range(whole)
    with pytest.raises(BadRange):
        parse_range(whole | change)


@given(st.lists(ranges(), max_size=5))
def test_a_walk_divides_all_names(items: list[ShardRange]) -> None:
    """Each name is in one part, and that is of the oldest range that covers it."""
    own = ShardRange("a/c", "1700000000.00000", state=ACTIVE)
    parts = list(walk(items, own, "", ""))
    assert parts[0].lower == ""
    assert parts[-1].upper == ""
    assert all(one.upper == other.lower for one, other in itertools.pairwise(parts))
    for name in NAMES:
        (part,) = [p for p in parts if p.covers(name)]
        covering = [item for item in items if item.covers(name)]
        oldest = min(covering, key=lambda r: (r.timestamp, r.name), default=own)
        assert (part.name, part.timestamp) == (oldest.name, oldest.timestamp)


@given(st.sets(BOUNDS.filter(bool)), st.lists(st.sampled_from([0, GIVING, GIVEN, TAKING])))
def test_the_span_of_a_name_is_found(bounds: set[str], phases: list[int]) -> None:
    edges = ["", *sorted(bounds), ""]
    given_phases = itertools.chain(phases, itertools.repeat(0))
    expected = [
        (lower, upper, phase)
        for (lower, upper), phase in zip(itertools.pairwise(edges), given_phases, strict=False)
    ]
    spans = Spans(Span(*entry) for entry in expected if entry[2])
    for name in NAMES:
        (phase,) = [p for lower, upper, p in expected if is_within(name, lower, upper)]
        assert spans.phase_of(name) == phase
        assert spans.is_counted(name) == (phase in (0, GIVING))
    for lower, upper, phase in expected:
        assert spans.has_given(lower, upper) == (phase == GIVEN)
        assert spans.gave_within(lower, upper) == (phase == GIVEN)
    is_all = all(phase == GIVEN for *_, phase in expected)
    assert spans.has_given("", "") == is_all


def test_names_of_shards_are_those_of_swift() -> None:
    assert shards_account("AUTH_a", ".") == ".shards_AUTH_a"
    assert shards_account(".shards_AUTH_a", ".") == ".shards_AUTH_a"
    name = shard_name(".shards_AUTH_a", "c", "c", "1700000000.00000", 3)
    assert name == ".shards_AUTH_a/c-4a8a08f09d37b73795649038408b5f33-1700000000.00000-3"


def test_the_state_wins_by_its_own_time() -> None:
    """A later report of statistics does not bring an old state back."""
    old = ShardRange("a/c", "1700000000.00000", state=ACTIVE, state_timestamp="1700000001.00000")
    reported = replace(old, object_count=7, meta_timestamp="1700000005.00000")
    shrinking = old.in_state(50, "1700000002.00000")
    merged = merge_range(reported, shrinking)
    assert (merged.state, merged.object_count) == (50, 7)

"""The row of a write goes to the shard of its name."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from proxy.replicas.shard_ranges import ShardRanges

OWN = ("a", "c")
NAMES = st.text("ab", min_size=1, max_size=4)


@given(st.sets(NAMES), NAMES)
def test_a_range_has_its_upper_bound(bounds: set[str], name: str) -> None:
    edges = ["", *sorted(bounds), ""]
    items = [
        {"name": f".shards_a/{number}", "lower": lower, "upper": upper}
        for number, (lower, upper) in enumerate(itertools.pairwise(edges))
    ]
    ranges = ShardRanges.of(items, OWN, 0.0)
    (expected,) = [
        item["name"]
        for item in items
        if name > item["lower"] and (not item["upper"] or name <= item["upper"])
    ]
    assert "/".join(ranges.target_of(name)) == expected


def test_without_ranges_the_container_gets_its_rows() -> None:
    assert ShardRanges.of([], OWN, 0.0).target_of("x") == OWN

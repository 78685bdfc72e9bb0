"""The decisions of the sharder: bounds of new shards, and neighbours that are joined."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from container.shard_range import ACTIVE, SHARDING, ShardRange, is_within
from replicator.sharder.finder import acceptor_of, divide, pair_to_join
from replicator.sharder.options import SharderOptions


def name_after(names: Sequence[str]) -> object:
    def find(name: str, distance: int) -> str | None:
        later = [other for other in names if other > name]
        return later[distance - 1] if len(later) >= distance else None

    return find


@given(st.integers(0, 60), st.integers(1, 20), st.integers(1, 20))
def test_a_container_is_divided_into_equal_parts(count: int, rows: int, rows_min: int) -> None:
    names = [f"{number:03d}" for number in range(count)]
    found = divide(name_after(names), count, rows, rows_min, "", "")  # type: ignore[arg-type]
    assert found[0].lower == ""
    assert found[-1].upper == ""
    assert all(one.upper == other.lower for one, other in itertools.pairwise(found))
    sizes = [sum(is_within(n, part.lower, part.upper) for n in names) for part in found]
    assert sizes == [part.objects for part in found]
    assert all(size == rows for size in sizes[:-1])
    assert len(sizes) == 1 or rows_min <= sizes[-1] < rows + rows_min


def ranges_of(*counts: int) -> list[ShardRange]:
    edges = ["", *(f"{number}" for number in range(1, len(counts))), ""]
    return [
        ShardRange(f".shards_a/c-{n}", "1.0", lower, upper, count, state=ACTIVE)
        for n, ((lower, upper), count) in enumerate(
            zip(itertools.pairwise(edges), counts, strict=True)
        )
    ]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((50, 50), None),
        ((50, 3, 50), (1, 0)),
        ((3, 50, 50), (0, 1)),
        ((50, 5, 3), (2, 1)),
        ((98, 3, 50), None),  # both together would be too large
        ((3,), None),
        ((0, 0, 0), (0, 1)),
    ],
)
def test_the_smallest_shard_joins_its_neighbour(
    counts: tuple[int, ...], expected: tuple[int, int] | None
) -> None:
    ranges = ranges_of(*counts)
    pair = pair_to_join(ranges, shrink_max=10, joined_max=100)
    found = pair and (ranges.index(pair.donor), ranges.index(pair.acceptor))
    assert found == expected


def test_a_shard_that_is_being_divided_takes_no_neighbour() -> None:
    first, second, third = ranges_of(50, 3, 50)
    busy = first.in_state(SHARDING, "2.0")
    assert pair_to_join([busy, second, third], 10, 100) is None
    assert acceptor_of(second, [busy, second, third]) == busy  # the bounds alone decide


def test_sizes_follow_the_threshold() -> None:
    options = SharderOptions()
    sizes = options.rows, options.rows_min, options.shrink_max, options.joined_max
    assert sizes == (500_000, 100_000, 100_000, 750_000)
    small = SharderOptions(shard_container_threshold=10, rows_per_shard=3, minimum_shard_size=2)
    assert (small.rows, small.rows_min, small.shrink_max, small.joined_max) == (3, 2, 1, 7)
    for wrong in (
        {"interval": 0.0},
        {"rows_per_shard": -1},
        {"cleave_batch_size": 0},
        {"expansion_limit": 1_000_000},
    ):
        with pytest.raises(ValueError, match="must"):
            SharderOptions(**wrong)  # type: ignore[arg-type]

# SPDX-License-Identifier: Apache-2.0
"""The choice of the bounds of new shards, and of small neighbours to be joined."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import NamedTuple

from container.shard_range import ACTIVE, ShardRange
from container.shard_spans import bound_of


class Found(NamedTuple):
    """The bounds of a new shard, and about how many objects it gets."""

    lower: str
    upper: str
    objects: int


#: The name at a distance in objects after another one; None: there are not so many.
NameAfter = Callable[[str, int], str | None]


def divide(
    name_after: NameAfter, count: int, rows: int, rows_min: int, lower: str, upper: str
) -> list[Found]:
    """Divide the names between two bounds into ranges of ``rows`` objects. Pure.

    The last range has at least ``rows_min`` objects; a smaller one is joined with the one before.
    """
    found: list[Found] = []
    at, left = lower, count
    while left >= rows + rows_min:
        bound = name_after(at, rows)
        if bound is None or bound == upper:
            break
        found.append(Found(at, bound, rows))
        at, left = bound, left - rows
    return [*found, Found(at, upper, max(0, left))]


def name_after_in(connection: sqlite3.Connection, upper: str) -> NameAfter:
    """The names of the live objects of a database, up to a bound."""

    def name_after(name: str, distance: int) -> str | None:
        row = connection.execute(
            "SELECT name FROM object WHERE deleted = 0 AND name > ? AND name <= ?"
            " ORDER BY name LIMIT 1 OFFSET ?",
            (name, bound_of(upper), distance - 1),
        ).fetchone()
        return None if row is None else row[0]

    return name_after


class Pair(NamedTuple):
    """A small shard, and the neighbour that takes its rows."""

    donor: ShardRange
    acceptor: ShardRange


def acceptor_of(donor: ShardRange, ranges: Sequence[ShardRange]) -> ShardRange | None:
    """The neighbour that takes the rows of a shard: the one below; of the first shard, that above.

    The bounds alone decide, so that a repetition chooses the same.
    """
    for item in ranges:
        is_below = donor.lower != "" and item.upper == donor.lower
        is_above = donor.lower == "" and donor.upper != "" and item.lower == donor.upper
        if item.name != donor.name and (is_below or is_above):
            return item
    return None


def pair_to_join(ranges: Sequence[ShardRange], shrink_max: int, joined_max: int) -> Pair | None:
    """The smallest shard that fits into its neighbour; None if there is none. Pure.

    Only shards that are in no change themselves count.
    """
    found: list[Pair] = []
    for donor in ranges:
        if donor.state != ACTIVE or donor.object_count > shrink_max:
            continue
        acceptor = acceptor_of(donor, ranges)
        if acceptor is None or acceptor.state != ACTIVE:
            continue
        if donor.object_count + acceptor.object_count <= joined_max:
            found.append(Pair(donor, acceptor))
    return min(found, key=lambda pair: pair.donor.object_count, default=None)

# SPDX-License-Identifier: Apache-2.0
"""The rows of several requests, merged as one, whose cost they share.

Rows of names that were given to shards are not merged, if their sender follows redirects.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from container.merge import merge_rows
from container.record import Record
from container.shard_rows import Redirect, read_sharding
from container.shard_spans import has_spans


class Merged(NamedTuple):
    """The result of a merge."""

    #: Whether a row, or one merged at the same time, has another policy than the container.
    is_misplaced: bool
    #: Rows that must go to shards.
    redirects: Sequence[Redirect] = ()


class Merge:
    """The transaction that merges the rows of a request.

    :param is_redirected: not those whose names were given to shards. The result then is `Merged`,
        else whether a row is misplaced.
    """

    __slots__ = ("is_redirected", "records")

    def __init__(self, records: Sequence[Record], is_redirected: bool) -> None:
        self.records = records
        self.is_redirected = is_redirected

    def __call__(self, connection: sqlite3.Connection) -> Merged | bool:
        return merge_together(connection, [self])[0]


def merge_together(connection: sqlite3.Connection, merges: Sequence[Merge]) -> list[Merged | bool]:
    """Run merges as one, whose cost they share."""
    sharding = None
    if has_spans(connection) and any(merge.is_redirected for merge in merges):
        sharding = read_sharding(connection)
    records: list[Record] = []
    redirects: list[Sequence[Redirect]] = []
    for merge in merges:
        own, away = merge.records, list[Redirect]()
        if sharding is not None and merge.is_redirected:
            own, away = sharding.split(merge.records)
        records += own
        redirects.append(away)
    is_misplaced = bool(records) and merge_rows(connection, records)
    return [
        Merged(is_misplaced, away) if merge.is_redirected else is_misplaced
        for merge, away in zip(merges, redirects, strict=True)
    ]

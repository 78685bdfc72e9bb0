# SPDX-License-Identifier: Apache-2.0
"""One replica gives the rows of a range to its shard.

First the servers tell all that write a row to send it to the shard, too. Then the rows are sent in
the order of names, then those that have changed meanwhile. Now the shard has every row that was
acknowledged, and the range is listed from it. Last, the rows are removed here. A crash anywhere
repeats the work of one range: rows may arrive at the shard any number of times.
"""

from __future__ import annotations

from container.database import ContainerDatabase
from container.shard_giving import (
    begin_giving,
    drop_given,
    finish_giving,
    read_changes,
    read_part,
    read_stray,
    remove_rows,
)
from container.shard_range import ShardRange
from martlet.words.timestamp import Timestamp
from replicator.sharder.figures import SharderFigures
from replicator.sharder.requests import ShardRequests

#: Tries to send the last changes before the range is given nevertheless; what is left follows.
_CATCH_UPS_MAX = 20


class Giving:
    """Gives rows of the databases of one process."""

    def __init__(self, requests: ShardRequests, rows_at_once: int) -> None:
        self._requests = requests
        self._rows_at_once = rows_at_once

    def give(
        self,
        database: ContainerDatabase,
        target: ShardRange,
        is_shrinking: bool,
        figures: SharderFigures,
    ) -> None:
        """Give the names between the bounds of ``target`` to its container.

        :param is_shrinking: the container does not count these rows yet.
        :raises ShardError: a replica of the shard has not all rows; nothing is lost. Listings from
            it would miss them.
        :raises DatabaseError: the database cannot be read or written.
        """
        span = target.lower, target.upper
        self._requests.check_all(target.path)
        points = begin_giving(database, *span)
        for deleted in (0, 1):
            marker, is_last = "", False
            while not is_last:
                items, marker, is_last = read_part(
                    database, span, marker, deleted, self._rows_at_once
                )
                self._requests.send_rows(target.path, items, needs_all=True)
                figures.rows += len(items)
        for _ in range(_CATCH_UPS_MAX):
            items, points, is_last = read_changes(database, span, points, self._rows_at_once)
            self._requests.send_rows(target.path, items, needs_all=True)
            figures.rows += len(items)
            if is_last and not items:
                break
        stats = None if is_shrinking else self._requests.counts_of(target.path)
        now = Timestamp.now().normal
        finish_giving(database, target.lower, points, stats, now)
        figures.given += 1

    def clear(
        self, database: ContainerDatabase, targets: list[ShardRange], figures: SharderFigures
    ) -> None:
        """Move rows that came here after their names were given, and remove those given.

        :raises ShardError, DatabaseError: as for ``give``.
        """
        while True:
            items, rowids, version_rowids = read_stray(database, self._rows_at_once)
            for target in targets:
                mine = [item for item in items if target.covers(item["name"])]
                self._requests.send_rows(target.path, mine)
            sent = {i for i, item in enumerate(items) if _is_in(item["name"], targets)}
            if len(sent) < len(items) or not items:
                break  # without a range, rows wait
            remove_rows(database, rowids, version_rowids)
            figures.moved += len(items)
        while removed := drop_given(database, self._rows_at_once):
            figures.removed += removed


def _is_in(name: str, targets: list[ShardRange]) -> bool:
    return any(target.covers(name) for target in targets)

# SPDX-License-Identifier: Apache-2.0
"""The progress of container sync in a container's rows: its two sync points.

Every replica of a container syncs its own share of the new rows, up to point 1
(``x_container_sync_point1``). Then it checks the shares of the others, up to point 2: every row up
to there is known to have arrived.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from container.database import ContainerDatabase
from container.record import decode_times


class SyncPoints(NamedTuple):
    """ROWIDs; -1 before the first row. ``checked`` is never greater than ``shared``."""

    shared: int
    checked: int


class SyncRow(NamedTuple):
    """An object that was written, changed or deleted, with the time of its last change."""

    rowid: int
    name: str
    timestamp: str
    is_deleted: bool
    policy_index: int


def read_points(database: ContainerDatabase) -> SyncPoints:
    """Read the sync points of a container."""

    def run(connection: sqlite3.Connection) -> SyncPoints:
        return SyncPoints(
            *connection.execute(
                "SELECT x_container_sync_point1, x_container_sync_point2 FROM container_info"
            ).fetchone()
        )

    return database.read(run)


def set_points(database: ContainerDatabase, points: SyncPoints) -> None:
    """Store the sync points, durably."""
    database.write(
        lambda connection: connection.execute(
            "UPDATE container_info SET x_container_sync_point1 = ?, x_container_sync_point2 = ?",
            points,
        )
    )


def rows_after(database: ContainerDatabase, rowid: int, limit: int) -> list[SyncRow]:
    """Read the next rows in the order of their arrival."""

    def run(connection: sqlite3.Connection) -> list[SyncRow]:
        found = connection.execute(
            "SELECT ROWID, name, created_at, deleted, storage_policy_index FROM object"
            " WHERE ROWID > ? ORDER BY ROWID LIMIT ?",
            (rowid, limit),
        )
        return [
            SyncRow(rowid, name, decode_times(times).metadata.internal, bool(deleted), policy)
            for rowid, name, times, deleted, policy in found
        ]

    return database.read(run)

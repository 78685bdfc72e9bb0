# SPDX-License-Identifier: Apache-2.0
"""How far a container's rows have been brought to another cluster: its two sync points.

Every replica of a container does its own share of the new rows, up to point 1
(``x_container_sync_point1``). Behind, up to point 2, it makes sure that the others did theirs: up
to there every row is known to have arrived.
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
    """An object that was written, changed or deleted, and when last."""

    rowid: int
    name: str
    timestamp: str
    is_deleted: bool
    policy_index: int


def read_points(database: ContainerDatabase) -> SyncPoints:
    """The points of a container."""

    def run(connection: sqlite3.Connection) -> SyncPoints:
        return SyncPoints(
            *connection.execute(
                "SELECT x_container_sync_point1, x_container_sync_point2 FROM container_info"
            ).fetchone()
        )

    return database.read(run)


def set_points(database: ContainerDatabase, points: SyncPoints) -> None:
    """Remember how far it is; durable."""
    database.write(
        lambda connection: connection.execute(
            "UPDATE container_info SET x_container_sync_point1 = ?, x_container_sync_point2 = ?",
            points,
        )
    )


def rows_after(database: ContainerDatabase, rowid: int, limit: int) -> list[SyncRow]:
    """The next rows in the order in which they came."""

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

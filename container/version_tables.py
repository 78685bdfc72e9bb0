# SPDX-License-Identifier: Apache-2.0
"""The tables of versions in a container database, which it has once there was a version."""

from __future__ import annotations

import sqlite3

#: A container with a row of another policy has a total of that policy, too: the sweep looks for it.
NOTE_POLICY = "INSERT OR IGNORE INTO policy_stat (storage_policy_index) VALUES (?)"


def has_versions(connection: sqlite3.Connection) -> bool:
    """Whether the database has, or had, names with versions."""
    query = "SELECT 1 FROM sqlite_master WHERE name = 'version_stat'"
    return connection.execute(query).fetchone() is not None


def version_stat(connection: sqlite3.Connection) -> tuple[int, int]:
    """The number of versions, and the bytes of those that are not current."""
    if not has_versions(connection):
        return 0, 0
    query = "SELECT version_count, extra_bytes FROM version_stat"
    count, extra_bytes = connection.execute(query).fetchone()
    return count, extra_bytes

# SPDX-License-Identifier: Apache-2.0
"""Whether a container database has the tables of versions."""

from __future__ import annotations

import sqlite3


def has_versions(connection: sqlite3.Connection) -> bool:
    """Whether the database has, or had, names with versions."""
    query = "SELECT 1 FROM sqlite_master WHERE name = 'version_stat'"
    return connection.execute(query).fetchone() is not None

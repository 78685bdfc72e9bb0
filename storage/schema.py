# SPDX-License-Identifier: Apache-2.0
"""The tables that account and container databases have in common, and the row hash."""

from __future__ import annotations

from hashlib import md5

_SYNC_TABLE = """
CREATE TABLE {name} (
    remote_id TEXT UNIQUE,
    sync_point INTEGER,
    updated_at TEXT DEFAULT 0
);
CREATE TRIGGER {name}_insert AFTER INSERT ON {name} BEGIN
    UPDATE {name} SET updated_at = strftime('%s', 'now') WHERE rowid = new.rowid;
END;
CREATE TRIGGER {name}_update AFTER UPDATE ON {name} BEGIN
    UPDATE {name} SET updated_at = strftime('%s', 'now') WHERE rowid = new.rowid;
END;
"""

#: How far the rows of a peer have come here, and ours there: kept for replication.
SYNC_TABLES = _SYNC_TABLE.format(name="incoming_sync") + _SYNC_TABLE.format(name="outgoing_sync")


def chexor(old: str, name: str, stamp: str) -> str:
    """XOR the md5 of a row into the hash of all rows; applied twice it takes the row out again.

    The hash is the same for the same set of rows, in whatever order they came.
    """
    return f"{int(old, 16) ^ row_hash(name, stamp):032x}"


def row_hash(name: str, stamp: str) -> int:
    """What one row adds to the hash of all rows."""
    digest = md5(f"{name}-{stamp}".encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest, "big")

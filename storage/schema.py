# SPDX-License-Identifier: Apache-2.0
"""The common tables of account and container databases, and the row hash."""

from __future__ import annotations

import functools
import hashlib

try:
    # For a text this short, hashlib's takes twice the time.
    from _md5 import md5 as _md5  # type: ignore[import-not-found]
except ImportError:
    _md5 = functools.partial(hashlib.md5, usedforsecurity=False)

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

#: Up to which row each peer has our rows, and we have those of the peer; for replication.
SYNC_TABLES = _SYNC_TABLE.format(name="incoming_sync") + _SYNC_TABLE.format(name="outgoing_sync")


def chexor(old: str, name: str, stamp: str) -> str:
    """XOR the MD5 of a row into the hash of all rows; a second call removes the row again.

    The hash depends on the set of rows only, not on their order.
    """
    return f"{int(old, 16) ^ row_hash(name, stamp):032x}"


def row_hash(name: str, stamp: str) -> int:
    """The hash of one row, a part of the hash of all rows."""
    return int.from_bytes(_md5(f"{name}-{stamp}".encode()).digest(), "big")

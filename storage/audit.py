# SPDX-License-Identifier: Apache-2.0
"""The check of one database for damage, which reads all of it.

SQLite has no checksums. Its check finds a page that is not one of its tree, or a wrong value. It
also compares rows with indexes. The hash of all rows finds a changed name or time.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from functools import reduce
from operator import xor

from storage.schema import row_hash

#: Rows read at once.
_ROWS_AT_ONCE = 1000


def check_integrity(connection: sqlite3.Connection) -> None:
    """Check the tree, the indexes and the values of a database.

    :raises sqlite3.DatabaseError: it is damaged; with the error code of that.
    """
    try:
        (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except UnicodeDecodeError as error:
        raise damaged(str(error)) from error
    if found == "ok":
        return
    failed = _error_code(found)
    if failed is not None and failed & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        unread = sqlite3.OperationalError(found)  # a page could not be read now: no damage
        unread.sqlite_errorcode = failed
        raise unread
    raise damaged(found)


def _error_code(found: str) -> int | None:
    """The code of SQLite in a line of the check, if it has one."""
    match = re.search(r"error code=(\d+)", found)
    return int(match[1]) if match else None


def hash_of_rows(connection: sqlite3.Connection, query: str) -> str:
    """The hash of all rows of a query for their names and stamps.

    :raises sqlite3.DatabaseError: a text is no text.
    """
    try:
        parts = (row_hash(name, stamp) for name, stamp in _rows(connection.execute(query)))
        return f"{reduce(xor, parts, 0):032x}"
    except (sqlite3.OperationalError, UnicodeDecodeError) as error:
        if getattr(error, "sqlite_errorcode", None) is not None:
            raise
        raise damaged(str(error)) from error  # text that is not UTF-8


def damaged(reason: str) -> sqlite3.DatabaseError:
    """The error of a damaged database, as from SQLite itself."""
    error = sqlite3.DatabaseError(reason)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def _rows(cursor: sqlite3.Cursor) -> Iterator[tuple[str, str]]:
    while rows := cursor.fetchmany(_ROWS_AT_ONCE):
        yield from rows

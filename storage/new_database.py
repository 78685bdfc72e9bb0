# SPDX-License-Identifier: Apache-2.0
"""The file of a new database: a copy of a file with its tables, and its first rows.

The statements that create the tables take ten times as long as the copy. So the file that they made
first is kept in memory, for each schema.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from storage.database_copy import append
from storage.schema import SYNC_TABLES, chexor

T = TypeVar("T")

# The write and the read version in the header; 2 is a write-ahead log. "PRAGMA journal_mode = WAL"
# sets no more than these, but it also makes a log and its index, and removes both again.
_VERSIONS_AT, _WAL_VERSIONS = 18, b"\2\2"

#: By schema. Two threads may both make one: they are alike.
_files_with_tables: dict[str, bytes] = {}


def write_new(file: str, schema: str, fill: Callable[[sqlite3.Connection], T]) -> T:
    """Write a database to an empty file without other users; return what ``fill`` returns.

    Nothing is flushed.

    :param schema: the statements that create its tables, beside the common ones.
    :raises OSError, sqlite3.Error: the file is of no use.
    """
    known = _files_with_tables.get(schema)
    if known is None:
        with _opened(file) as connection:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # before the first table
            connection.executescript(f"BEGIN;{SYNC_TABLES}{schema};COMMIT")
        _files_with_tables[schema] = Path(file).read_bytes()
    else:
        append(file, known)
    with _opened(file) as connection:
        connection.execute("BEGIN")
        result = fill(connection)
        connection.execute("COMMIT")
    handle = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(handle, _WAL_VERSIONS, _VERSIONS_AT)
    finally:
        os.close(handle)
    return result


@contextlib.contextmanager
def _opened(file: str) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(file, isolation_level=None)
    with contextlib.closing(connection):
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA journal_mode = MEMORY")
        connection.create_function("chexor", 3, chexor, deterministic=True)
        yield connection

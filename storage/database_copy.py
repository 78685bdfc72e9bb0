# SPDX-License-Identifier: Apache-2.0
"""A whole database as one file: written for a peer, and adopted from a peer.

The file is consistent and has all rows, metadata and timestamps of its replica. So the new replica
has the same age and content as the old one.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import sqlite3
import time
import uuid
from collections.abc import Callable, Mapping

from storage.database_files import device_path_of, make_private_directory
from storage.schema import chexor

#: A file in ``tmp`` without a write for this time is left over from a crash, seconds.
LEFT_SECONDS = 86400.0
_is_scratch_name = re.compile(
    r"[0-9a-f]{32}\.[0-9a-f]{16}(-wal|-shm|-journal)?", re.ASCII
).fullmatch


class BadCopy(Exception):
    """The file is not a whole database with the requested name."""


def new_scratch_file(path: str) -> str:
    """Create an empty file in ``tmp`` of the database's device; the caller unlinks it.

    After a crash it stays there; nothing reads it, and a later call unlinks it.
    """
    scratch = f"{device_path_of(path)}/tmp"
    make_private_directory(scratch)
    _remove_leftovers(scratch)
    name = f"{scratch}/{os.path.basename(path)[:-3]}.{secrets.token_hex(8)}"
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    return name


def _remove_leftovers(scratch: str) -> None:
    """Unlink files left by crashes: a copy may be as large as the largest database."""
    long_ago = time.time() - LEFT_SECONDS
    for entry in os.scandir(scratch):
        if _is_scratch_name(entry.name):
            with contextlib.suppress(FileNotFoundError):  # another request was faster
                if entry.stat(follow_symlinks=False).st_mtime < long_ago:
                    os.unlink(entry.path)


def append(file: str, chunk: bytes) -> None:
    """Append a piece to a file."""
    with open(file, "ab") as handle:
        handle.write(chunk)


def remove_scratch_file(file: str) -> None:
    """Unlink a file of `new_scratch_file`, and files that SQLite may have left beside it."""
    for name in (file, f"{file}-wal", f"{file}-shm", f"{file}-journal"):
        with contextlib.suppress(FileNotFoundError):  # most never existed
            os.unlink(name)


def write_copy(connection: sqlite3.Connection, file: str) -> None:
    """Copy the database of a connection into an empty file; its writers are not blocked."""
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as target:
        target.execute("PRAGMA synchronous = OFF")  # it is sent on, and never opened here again
        target.execute("PRAGMA journal_mode = OFF")
        connection.backup(target)


def make_ours(file: str, device: str, tables: frozenset[str], names: Mapping[str, str]) -> None:
    """Check a copy and make it a separate replica on ``device``; not durable yet.

    It gets a new id. For replication it records up to which row it has the source's rows.

    :param names: the account, and the container of a container's database.
    :raises BadCopy: the file is damaged, of another kind, or of another name.
    """
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.create_function("chexor", 3, chexor, deterministic=True)
        try:
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("PRAGMA journal_mode = MEMORY")
            _check(connection, tables, names)
            _give_id(connection, device, "container" in names)
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.DatabaseError as error:
            raise BadCopy(str(error)) from error
        except UnicodeDecodeError as error:  # SQLite's message quotes damaged text
            raise BadCopy(f"a damaged schema: {error}") from error


def names_in_copy(
    file: str, stat_table: str, is_name: Callable[[Mapping[str, str]], bool]
) -> dict[str, str]:
    """The names in a copy of a database: the account, and the container of a container's.

    :param is_name: whether these are the right names.
    :raises BadCopy: it is not a database of this kind, or of other names.
    """
    columns = ("account", "container") if stat_table == "container_info" else ("account",)
    query = f"SELECT {', '.join(columns)} FROM {stat_table}"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        try:
            row = connection.execute(query).fetchone()
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise BadCopy(str(error)) from error
    if row is None or not all(isinstance(name, str) for name in row):
        raise BadCopy("it has no name")
    names = dict(zip(columns, row, strict=True))
    if not is_name(names):
        raise BadCopy(f"it is of {row}")
    return names


def _check(
    connection: sqlite3.Connection, tables: frozenset[str], names: Mapping[str, str]
) -> None:
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise BadCopy(found)
    there = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    if missing := (tables | {"incoming_sync"}) - there:
        raise BadCopy(f"table {min(missing)} is missing")
    query = f"SELECT {', '.join(names)} FROM {_stat_table('container' in names)}"
    row = connection.execute(query).fetchone()
    if row is None or list(row) != list(names.values()):
        raise BadCopy(f"it is of {row}")


def _give_id(connection: sqlite3.Connection, device: str, is_container: bool) -> None:
    stat = _stat_table(is_container)
    rows = "object" if is_container else "container"
    connection.execute("BEGIN")
    connection.execute(
        "INSERT OR REPLACE INTO incoming_sync (remote_id, sync_point)"
        f" SELECT id, (SELECT coalesce(max(ROWID), -1) FROM {rows}) FROM {stat}"
    )
    if is_container and _has_table(connection, "version"):
        connection.execute(
            "INSERT OR REPLACE INTO incoming_sync (remote_id, sync_point)"
            f" SELECT id || '/version', (SELECT coalesce(max(ROWID), -1) FROM version) FROM {stat}"
        )
    connection.execute(f"UPDATE {stat} SET id = ?", (f"{uuid.uuid4()}-{device}",))
    connection.execute("COMMIT")


def _has_table(connection: sqlite3.Connection, name: str) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return connection.execute(query, (name,)).fetchone() is not None


def _stat_table(is_container: bool) -> str:
    return "container_info" if is_container else "account_stat"

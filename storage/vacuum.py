# SPDX-License-Identifier: Apache-2.0
"""Giving the free pages of a database back to the file system, while servers use it.

SQLite keeps the pages of deleted rows in the file. A database with ``auto_vacuum`` gives them back
in small steps, each of which is a transaction of its own. Writers wait for one step at most. A
database without it, as those of OpenStack Swift, is rewritten as a whole, which writers wait for;
so this is done up to a size only. It has ``auto_vacuum`` from then on.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from dataclasses import dataclass
from enum import Enum
from urllib.parse import quote

from martlet.service.disk_calls import on_disk
from storage.database_files import device_path_of

#: Fewer free pages than this are left in the file: the next rows fill them; bytes.
FREE_BYTES_MIN = 1 << 20
#: ... and a smaller share of the file.
FREE_SHARE_MIN = 0.25
#: The largest content that is rewritten as a whole, bytes; about half a second.
REWRITTEN_BYTES_MAX = 64 << 20
#: Pages given back in one transaction.
STEP_PAGES = 256
#: Pause after each step, seconds: longer than the step, so that writers and other disks' work fit.
STEP_PAUSE = 0.02
#: Most steps in one pass: a database of which more is free goes on in the next pass.
STEPS_MAX = 1000

_INCREMENTAL = 2


class Method(Enum):
    """A way to give back the free pages of a database."""

    NONE = "none"
    STEPS = "steps"
    REWRITE = "rewrite"


@dataclass(frozen=True, slots=True)
class Space:
    """The space of a database file."""

    page_bytes: int
    pages: int
    free_pages: int
    has_auto_vacuum: bool


def method_for(space: Space) -> Method:
    """Choose how to give back free pages. Pure."""
    is_much = (
        space.free_pages * space.page_bytes >= FREE_BYTES_MIN
        and space.free_pages >= space.pages * FREE_SHARE_MIN
    )
    if not is_much:
        return Method.NONE
    if space.has_auto_vacuum:
        return Method.STEPS
    used = (space.pages - space.free_pages) * space.page_bytes
    return Method.REWRITE if used <= REWRITTEN_BYTES_MAX else Method.NONE


def space_in(connection: sqlite3.Connection) -> Space:
    """The space of the database of a connection."""

    def ask(pragma: str) -> int:
        (value,) = connection.execute(f"PRAGMA {pragma}").fetchone()
        return int(value)

    return Space(
        ask("page_size"),
        ask("page_count"),
        ask("freelist_count"),
        ask("auto_vacuum") == _INCREMENTAL,
    )


def vacuum(path: str) -> int:
    """Give back the free pages of a database if there are many; return their size in bytes.

    A kill at any time leaves a whole database: each step is a transaction.

    :raises sqlite3.Error: the database is busy, damaged or gone.
    :raises DiskStuck: the device does not answer.
    """
    device = device_path_of(path)
    connection = on_disk(device, _open, path)
    try:
        space = on_disk(device, space_in, connection)
        method = method_for(space)
        if method is Method.NONE:
            return 0
        if method is Method.REWRITE:
            on_disk(device, _rewrite, connection)
        else:
            for _ in range(STEPS_MAX):
                if not on_disk(device, _step, connection):
                    break
                time.sleep(STEP_PAUSE)
        on_disk(device, _shorten, connection)
        pages = on_disk(device, space_in, connection).pages
        return max(0, space.pages - pages) * space.page_bytes
    finally:
        on_disk(device, connection.close)


def _open(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(path)}?mode=rw",
        uri=True,
        timeout=1.0,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def _rewrite(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
    connection.execute("VACUUM")


def _step(connection: sqlite3.Connection) -> bool:
    """Give back some pages; return whether there are more."""
    # The pragma frees one page a row: `execute` would stop after the first.
    connection.executescript(f"PRAGMA incremental_vacuum({STEP_PAGES})")
    (left,) = connection.execute("PRAGMA freelist_count").fetchone()
    return bool(left)


def _shorten(connection: sqlite3.Connection) -> None:
    """Write the log into the file, which gets its new length then, unless a reader uses it."""
    with contextlib.suppress(sqlite3.OperationalError):  # the next checkpoint does it
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

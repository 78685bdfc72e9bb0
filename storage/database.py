# SPDX-License-Identifier: Apache-2.0
"""One SQLite database of an account or a container (doc/formats/account-db.md, container-db.md).

It has a write-ahead log with ``synchronous = FULL``: on return a commit is durable in the log.
Concurrent writers of one process share commits. Readers have their own connections and see whole
commits. All SQLite calls run in native threads of the device.

A process that moves or removes a database file holds a write transaction on it. A writer checks,
inside its own transaction, whether the path still leads to its file. So no row is acknowledged that
went into a removed file.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, ParamSpec, TypeVar
from urllib.parse import quote

from martlet.service.disk_calls import (
    DiskStuck,
    ProcessStuck,
    guard,
    native_lock,
    on_disk,
    on_disk_later,
)
from storage.database_copy import (
    append,
    make_ours,
    new_scratch_file,
    remove_scratch_file,
    write_copy,
)
from storage.database_files import create_durably, device_path_of, quarantine
from storage.errors import (
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseError,
    DatabaseMissing,
    DatabaseUnsupported,
    DeviceBusy,
    DeviceFailed,
    DeviceStuck,
    ProcessLost,
)
from storage.group_commit import GroupCommit
from storage.new_database import write_new
from storage.schema import chexor

T = TypeVar("T")
P = ParamSpec("P")
Transaction = Callable[[sqlite3.Connection], Any]

BUSY_SECONDS = 25.0  # longest wait for another process that writes the same database
#: Longest wait for a thread that makes a database. A proxy waits ten seconds for the answer, and
#: the request also waits before and after. Work that comes too late only delays others.
CREATION_WAIT_SECONDS_MAX = 3.0
IDLE_READERS_MAX = 2
PAGE_CACHE_KIB = 2048

_PRIMARY_CODE = 0xFF  # the low byte of SQLite's extended error codes


def _take_as_there(_path: str) -> None:
    """Check nothing; for tools that work on one file."""


class Database:
    """A database file and this process's connections to it. Safe for concurrent use."""

    #: The tables that every database of this kind has.
    required_tables: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, path: str, check_device: Callable[[str], None] = _take_as_there) -> None:
        """Open nothing yet: a missing or damaged file is detected on the first read or write.

        ``check_device`` is called in a native thread with the path of a database that is missing or
        to be created. It raises DeviceMissing if the device is missing.
        """
        self.path = path
        self._device = device_path_of(path)
        self._check_device = check_device
        # One commit at a time: if a commit hangs, its leader gives up but its thread goes on.
        self._writing = native_lock()
        self._writer: _Connection | None = None  # guarded by _writing
        # Used by native threads without a lock: append and pop of a deque are atomic.
        self._readers: deque[_Connection] = deque()
        self._commits: GroupCommit[Transaction] = GroupCommit(
            lambda transactions: self._on_device(self._commit, transactions)
        )

    def build(self, schema: str, fill: Callable[[sqlite3.Connection], T]) -> T:
        """Create the database file durably; return what ``fill`` returns.

        :param schema: the statements that create its tables, beside the common ones.
        :param fill: writes the first rows, and may read them.
        :raises DatabaseExists: another process created it first.
        :raises DeviceBusy: too many are being made; nothing was done.
        :raises DeviceMissing: the device is missing.
        :raises DeviceFailed: the device is full, fails or hangs.
        """
        asked_at = time.monotonic()

        def create() -> T:
            if time.monotonic() - asked_at > CREATION_WAIT_SECONDS_MAX:
                raise DeviceBusy(self.path)
            self._check_device(self.path)
            return create_durably(self.path, lambda file: write_new(file, schema, fill))

        return self._on_files(create)

    def copy(self) -> str:
        """Write a consistent copy to a file, which the caller unlinks; return its path.

        :raises DatabaseError: as for every read; the device is full or fails.
        """
        file = self._on_files(new_scratch_file, self.path)
        try:
            self.read(lambda connection: write_copy(connection, file))
        except BaseException:
            on_disk_later(self._device, partial(remove_scratch_file, file))
            raise
        return file

    def adopt(self, chunks: Iterable[bytes], names: Mapping[str, str]) -> None:
        """Create the database file durably from the pieces of another replica's copy.

        :param names: the account, and the container of a container's database.
        :raises BadCopy: the copy is damaged, or of another database.
        :raises DatabaseExists: another process created it first.
        :raises DeviceMissing: the device is missing.
        :raises DeviceFailed: the device is full, fails or hangs.
        """
        self.adopt_file(chunks, lambda _file: names)

    def adopt_file(
        self, chunks: Iterable[bytes], names_in: Callable[[str], Mapping[str, str]]
    ) -> None:
        """As ``adopt``; ``names_in`` gets the file of the copy and returns the names it must have.

        :raises BadCopy, DatabaseExists, DeviceMissing, DeviceFailed: as for ``adopt``.
        """
        self._on_files(self._check_device, self.path)
        file = self._on_files(new_scratch_file, self.path)
        try:
            for chunk in chunks:
                self._on_files(append, file, chunk)
            device = os.path.basename(self._device)
            names = self._on_files(names_in, file)
            self._on_files(make_ours, file, device, self.required_tables, names)
            self._on_files(create_durably, self.path, lambda temporary: os.replace(file, temporary))
        finally:
            on_disk_later(self._device, partial(remove_scratch_file, file))

    def prepare_writer(self, connection: sqlite3.Connection) -> None:
        """Prepare a database for writes if another program created it; for subclasses."""

    def run(self, connection: sqlite3.Connection, transactions: Sequence[Transaction]) -> list[Any]:
        """Run the transactions of one commit and return their results; for subclasses."""
        return [transaction(connection) for transaction in transactions]

    def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``query`` in a native thread, in one read transaction.

        :raises DatabaseError: one of its subclasses; a damaged database has been quarantined.
        """
        return self._on_device(self._read, query)

    def write(self, transaction: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``transaction`` and commit it, together with those of other waiting writers.

        Its writes are durable on return. If it raises, none of them is kept, and only its caller
        gets the error. It may be run twice, so it must have no effects outside the database.

        :raises DeviceStuck: the device hangs; the transaction may be committed later.
        :raises DatabaseError: nothing was kept.
        """
        result: T = self._commits.submit(transaction)
        return result

    def close(self) -> None:
        """Close every connection, after the last use of the database.

        No request waits for it: the caller often works on another device.
        """
        on_disk_later(self._device, self._close)

    def _close(self) -> None:
        while (reader := self._idle_reader()) is not None:
            reader.close()
        with self._writing:
            self._drop_writer()

    def _on_device(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return on_disk(self._device, function, *args, **kwargs)
        except ProcessStuck as error:
            raise ProcessLost(self.path, str(error)) from error
        except DiskStuck as error:
            raise DeviceStuck(self.path, str(error)) from error

    def _on_files(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return self._on_device(function, *args, **kwargs)
        except (OSError, sqlite3.OperationalError) as error:
            raise DeviceFailed(self.path, str(error)) from error

    def _read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        with self._mapped_errors() as used:
            reader = used.connection = self._take_reader()
            try:
                reader.sqlite.execute("BEGIN")
                result = query(reader.sqlite)
                reader.sqlite.execute("COMMIT")
            except BaseException:
                reader.close()
                raise
            if len(self._readers) < IDLE_READERS_MAX:
                self._readers.append(reader)
            else:
                reader.close()
            return result

    def _take_reader(self) -> _Connection:
        while (reader := self._idle_reader()) is not None:
            if reader.is_current():
                return reader
            reader.close()
        return self._connect()

    def _connect(self) -> _Connection:
        try:
            return _Connection(self.path, self.required_tables)
        except DatabaseMissing:
            self._check_device(self.path)
            raise

    def _idle_reader(self) -> _Connection | None:
        try:
            return self._readers.pop()
        except IndexError:
            return None

    def _commit(self, transactions: list[Transaction]) -> list[Any]:
        """Commit all transactions together, or one by one if one of them raises."""
        with self._writing:
            try:
                return self._commit_together(transactions)
            except DatabaseError:
                raise
            except Exception as error:
                if len(transactions) == 1:
                    return [error]
            outcomes: list[Any] = []
            for transaction in transactions:
                try:
                    outcomes += self._commit_together([transaction])
                except Exception as error:
                    outcomes.append(error)
            return outcomes

    def _commit_together(self, transactions: list[Transaction]) -> list[Any]:
        with self._mapped_errors() as used:
            try:
                used.connection = self._writer
                connection = self._begin()
                used.connection = self._writer
                results = self.run(connection, transactions)
                connection.execute("COMMIT")
            except (sqlite3.DatabaseError, OSError):
                # After a failed write or fsync the state of this connection is unreliable.
                self._drop_writer()
                raise
            except BaseException:
                if self._writer is not None and self._writer.sqlite.in_transaction:
                    self._writer.sqlite.execute("ROLLBACK")
                raise
        return results

    def _begin(self) -> sqlite3.Connection:
        """Begin a write transaction on the file that has the path now."""
        while True:
            if self._writer is None:
                self._writer = self._connect()
                self.prepare_writer(self._writer.sqlite)
            self._writer.sqlite.execute("BEGIN IMMEDIATE")
            if self._writer.is_current():
                return self._writer.sqlite
            self._drop_writer()

    def _drop_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    @contextlib.contextmanager
    def _mapped_errors(self) -> Iterator[_Used]:
        """Convert errors of SQLite to errors of this package; quarantine a damaged file."""
        used = _Used()
        try:
            yield used
        except OSError as error:
            raise DeviceFailed(self.path, str(error)) from error
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
            if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise self._set_aside(used.connection, str(error)) from error
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise DatabaseBusy(self.path, str(error)) from error
            if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN):
                if _inode_of(self.path) is None:
                    self._check_device(self.path)
                    raise DatabaseMissing(self.path) from error
                raise DeviceFailed(self.path, str(error)) from error
            raise

    def _set_aside(self, connection: _Connection | None, reason: str) -> DatabaseDamaged:
        # The path may lead to a new and healthy file by now.
        if connection is not None and not connection.is_current():
            return DatabaseDamaged(self.path, f"{reason}; moved away already")
        target = quarantine(self.path)
        where = f"quarantined to {target}" if target else "moved away already"
        return DatabaseDamaged(self.path, f"{reason}; {where}")


class _Used:
    """The connection that a block of statements uses."""

    connection: _Connection | None = None


class _Connection:
    """A connection and the identity of its file."""

    __slots__ = ("_inode", "path", "sqlite")

    def __init__(self, path: str, required_tables: frozenset[str]) -> None:
        """
        :raises DatabaseMissing: there is no such file; it is not created.
        :raises DatabaseUnsupported: the schema is of another kind or version.
        :raises sqlite3.DatabaseError: the file is damaged or cannot be read.
        """
        self.path = path
        before = _inode_of(path)
        if before is None:
            raise DatabaseMissing(path)
        self._inode = before
        self.sqlite = sqlite3.connect(
            f"file:{quote(path)}?mode=rw",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=64,
        )
        try:
            self._prepare(required_tables)
        except BaseException:
            self.sqlite.close()
            raise

    def _prepare(self, required_tables: frozenset[str]) -> None:
        run = self.sqlite.execute
        try:
            names = {row[0] for row in run("SELECT name FROM sqlite_master WHERE type = 'table'")}
        except UnicodeDecodeError as error:  # SQLite's message quotes damaged text
            raise _not_a_database(f"a damaged schema: {error}") from error
        if not names:
            raise _not_a_database("the file has no tables")
        if missing := required_tables - names:
            raise DatabaseUnsupported(self.path, f"table {min(missing)} is missing")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        run("PRAGMA temp_store = MEMORY")
        run(f"PRAGMA cache_size = -{PAGE_CACHE_KIB}")
        self.sqlite.create_function("chexor", 3, chexor, deterministic=True)

    def is_current(self) -> bool:
        """Whether the path still leads to the file that this connection has open."""
        return _inode_of(self.path) == self._inode

    def close(self) -> None:
        """Close the connection and ignore errors: nothing is pending on it."""
        try:
            self.sqlite.close()
        except sqlite3.Error:
            pass  # SQLite has released the file nevertheless


def _not_a_database(reason: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(reason)
    error.sqlite_errorcode = sqlite3.SQLITE_NOTADB
    return error


def _enter_sqlite() -> None:
    """Take and release SQLite's lock of the process.

    SQLite holds the lock while it opens and closes files. If a disk hangs then, the process can
    open no database. Every open takes the lock to look for a handle to reuse. The path opened here
    leads to no disk.
    """
    with contextlib.suppress(sqlite3.OperationalError):
        sqlite3.connect("file:/proc/martlet-has-none?mode=ro", uri=True).close()


guard(_enter_sqlite)


def _inode_of(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None  # any other error says nothing about the file
    return found.st_dev, found.st_ino

# SPDX-License-Identifier: Apache-2.0
"""One SQLite database of an account or a container (doc/formats/account-db.md, container-db.md).

Write-ahead log with ``synchronous = FULL``: a commit is in the log on the platter when it returns,
and concurrent writers of one process share commits. Readers have connections of their own and see
whole commits. All of SQLite runs in native threads of the device.

Whoever moves or removes a database file holds a write transaction on it. A writer looks, inside its
own transaction, whether its file is still the one of that name: so no row is ever acknowledged into
a file that has been taken away.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
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
    DeviceFailed,
    DeviceStuck,
    ProcessLost,
)
from storage.group_commit import GroupCommit
from storage.schema import SYNC_TABLES, chexor

T = TypeVar("T")
P = ParamSpec("P")
Transaction = Callable[[sqlite3.Connection], Any]

BUSY_SECONDS = 25.0  # longest wait for another process that writes the same database
IDLE_READERS_MAX = 2
PAGE_CACHE_KIB = 2048

_PRIMARY_CODE = 0xFF  # the low byte of SQLite's extended error codes


def _take_as_there(_path: str) -> None:
    """For tools, which work on one file."""


class Database:
    """A database file and this process's connections to it. Safe for concurrent use."""

    #: Tables without which a file is no database of this kind.
    required_tables: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, path: str, check_device: Callable[[str], None] = _take_as_there) -> None:
        """Nothing is opened yet: a missing or damaged file shows on the first read or write.

        ``check_device`` gets the path of a database that is missing or to be created, in a native
        thread; it raises DeviceMissing where a device should be and is not.
        """
        self.path = path
        self._device = device_path_of(path)
        self._check_device = check_device
        # One commit at a time: the leader of one that hangs has given up, the thread has not.
        self._writing = native_lock()
        self._writer: _Connection | None = None  # guarded by _writing
        # Filled and emptied by native threads: no lock, but a deque's atomic ends.
        self._readers: deque[_Connection] = deque()
        self._commits: GroupCommit[Transaction] = GroupCommit(
            lambda transactions: self._on_device(self._commit, transactions)
        )

    def build(self, fill: Callable[[sqlite3.Connection], None]) -> None:
        """Create the database file durably; ``fill`` makes its tables.

        :raises DatabaseExists: another process made it first.
        :raises DeviceMissing: the device is not there.
        :raises DeviceFailed: the device is full, fails or hangs.
        """

        def write_file(temporary: str) -> None:
            connection = sqlite3.connect(temporary, isolation_level=None)
            with contextlib.closing(connection):
                connection.execute("PRAGMA synchronous = OFF")
                connection.execute("PRAGMA journal_mode = MEMORY")
                connection.create_function("chexor", 3, chexor, deterministic=True)
                connection.executescript(SYNC_TABLES)
                fill(connection)
                connection.execute("PRAGMA journal_mode = WAL")

        def create() -> None:
            self._check_device(self.path)
            create_durably(self.path, write_file)

        self._on_files(create)

    def copy(self) -> str:
        """Write a copy of one moment to a file, which the caller unlinks; returns its path.

        :raises DatabaseError: as for every read; the device is full or fails.
        """
        file = self._on_files(new_scratch_file, self.path)
        try:
            self.read(lambda connection: write_copy(connection, file))
        except BaseException:
            self._on_files(remove_scratch_file, file)
            raise
        return file

    def adopt(self, chunks: Iterable[bytes], names: Mapping[str, str]) -> None:
        """Create the database file durably from a copy of another replica, which comes in pieces.

        :param names: the account, and the container of a container's database.
        :raises BadCopy: the copy is damaged, or of another database.
        :raises DatabaseExists: another process made it first.
        :raises DeviceMissing: the device is not there.
        :raises DeviceFailed: the device is full, fails or hangs.
        """
        self._on_files(self._check_device, self.path)
        file = self._on_files(new_scratch_file, self.path)
        try:
            for chunk in chunks:
                self._on_files(append, file, chunk)
            device = os.path.basename(self._device)
            self._on_files(make_ours, file, device, self.required_tables, names)
            self._on_files(create_durably, self.path, lambda temporary: os.replace(file, temporary))
        finally:
            self._on_files(remove_scratch_file, file)

    def prepare_writer(self, connection: sqlite3.Connection) -> None:
        """For subclasses: make a database that others have made fit for our writes."""

    def read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``query`` in a native thread, in one read transaction.

        :raises DatabaseError: one of its subclasses; a damaged database is in quarantine by then.
        """
        return self._on_device(self._read, query)

    def write(self, transaction: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``transaction`` and commit, together with those of other writers that wait just now.

        What it wrote is durable on return. When it raises, nothing of it is kept, and the error
        goes to its caller alone; it may be run a second time, so it has no effects outside the
        database.

        :raises DeviceStuck: the device hangs; the transaction may be committed later.
        :raises DatabaseError: nothing was kept.
        """
        result: T = self._commits.submit(transaction)
        return result

    def close(self) -> None:
        """Close every connection, once the database is not used any more.

        No request waits for it: who closes it often works on another device.
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
        """One commit for all; if one of them raises, each gets a commit of its own instead."""
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
                results = [transaction(connection) for transaction in transactions]
                connection.execute("COMMIT")
            except (sqlite3.DatabaseError, OSError):
                # After a failed write or fsync the state of this connection is not worth trusting.
                self._drop_writer()
                raise
            except BaseException:
                if self._writer is not None and self._writer.sqlite.in_transaction:
                    self._writer.sqlite.execute("ROLLBACK")
                raise
        return results

    def _begin(self) -> sqlite3.Connection:
        """Begin a write transaction on the file that has the name now."""
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
        """Turns SQLite's errors into ours; sets a damaged file aside."""
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
        # What has the name now may be a new and healthy file.
        if connection is not None and not connection.is_current():
            return DatabaseDamaged(self.path, f"{reason}; moved away already")
        target = quarantine(self.path)
        where = f"quarantined to {target}" if target else "moved away already"
        return DatabaseDamaged(self.path, f"{reason}; {where}")


class _Used:
    """Which connection a block of statements has come to use."""

    connection: _Connection | None = None


class _Connection:
    """A connection, and which file it was opened on."""

    __slots__ = ("_inode", "path", "sqlite")

    def __init__(self, path: str, required_tables: frozenset[str]) -> None:
        """
        :raises DatabaseMissing: there is no such file; it is never created here.
        :raises DatabaseUnsupported: the schema is of another kind or age.
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
        except UnicodeDecodeError as error:  # SQLite quotes what it read
            raise _not_a_database(f"a damaged schema: {error}") from error
        if not names:
            raise _not_a_database("the file holds no tables")
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
        """Close without a word: nothing that matters is pending on it."""
        try:
            self.sqlite.close()
        except sqlite3.Error:
            pass  # SQLite has released the file all the same


def _not_a_database(reason: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(reason)
    error.sqlite_errorcode = sqlite3.SQLITE_NOTADB
    return error


def _enter_sqlite() -> None:
    """Pass SQLite's lock of the process.

    SQLite holds it while it opens and closes files, so a disk that hangs then keeps every database
    of the process from being opened. An open looks there for a handle to use again; this one names
    no file on any disk.
    """
    with contextlib.suppress(sqlite3.OperationalError):
        sqlite3.connect("file:/proc/martlet-has-none?mode=ro", uri=True).close()


guard(_enter_sqlite)


def _inode_of(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None  # and any other error says nothing about the file
    return found.st_dev, found.st_ino

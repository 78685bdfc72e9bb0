"""A database file: made durably, shared commits, nothing acknowledged is lost, damage set aside."""

import errno
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from storage import database as database_module
from storage.database import Database
from storage.database_files import create_durably, database_path
from storage.database_pool import DatabasePool
from storage.errors import (
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseExists,
    DatabaseMissing,
    DatabaseUnsupported,
    DeviceFailed,
    DeviceMissing,
)

HASH = "0123456789abcdef0123456789abcdef"


class Notes(Database):
    """The smallest database there is."""

    required_tables = frozenset({"note"})

    def create(self) -> None:
        self.build("CREATE TABLE note (text TEXT);", lambda sqlite: None)

    def add(self, text: str) -> None:
        self.write(lambda sqlite: sqlite.execute("INSERT INTO note VALUES (?)", (text,)))

    def all(self) -> list[str]:
        return self.read(lambda sqlite: [r[0] for r in sqlite.execute("SELECT text FROM note")])


@pytest.fixture
def path(tmp_path: Path) -> str:
    return database_path(str(tmp_path / "sda"), "containers", "7", HASH)


@pytest.fixture
def notes(path: str) -> Iterator[Notes]:
    database = Notes(path)
    database.create()
    yield database
    database.close()


def test_a_database_lies_where_swift_puts_it(path: str, tmp_path: Path) -> None:
    assert path == f"{tmp_path}/sda/containers/7/def/{HASH}/{HASH}.db"


def test_other_users_of_the_host_cannot_read_a_database(path: str, tmp_path: Path) -> None:
    """It holds keys and ACLs; so do its log and its index, and the directories may not be seen."""
    (tmp_path / "sda").mkdir()
    before = os.umask(0)
    try:
        database = Notes(path)
        database.create()
        database.add("a")
        below = [p for p in (tmp_path / "sda").rglob("*") if p != tmp_path / "sda"]
        modes = {p.name: p.stat().st_mode & 0o777 for p in below}
        database.close()
    finally:
        os.umask(before)
    assert modes.pop("tmp") == 0o700
    files = {f"{HASH}.db", f"{HASH}.db-wal", f"{HASH}.db-shm"}
    assert files <= set(modes)
    assert all(mode == (0o600 if name in files else 0o700) for name, mode in modes.items())


def test_a_new_database_is_whole_and_durable_with_its_name(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is fsynced before it gets its name, and every directory above it afterwards."""
    events: list[str] = []
    real_fsync, real_link = os.fsync, os.link

    def fsync(handle: int) -> None:
        events.append(f"fsync {os.readlink(f'/proc/self/fd/{handle}')}")
        real_fsync(handle)

    def link(source: str, target: str) -> None:
        events.append("link")
        real_link(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "link", link)
    Notes(path).create()
    before, after = events[: events.index("link")], events[events.index("link") + 1 :]
    assert len(before) == 1
    assert "/sda/tmp/" in before[0]
    parents = [str(parent) for parent in Path(path).parents[:5]]
    assert after == [f"fsync {parent}" for parent in parents]
    assert os.listdir(f"{parents[4]}/tmp") == []
    with sqlite3.connect(path) as plain:
        assert plain.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_creating_twice_keeps_the_first(notes: Notes) -> None:
    notes.add("first")
    with pytest.raises(DatabaseExists):
        notes.create()
    assert notes.all() == ["first"]


def test_a_failed_creation_leaves_nothing(path: str) -> None:
    def build(temporary: str) -> None:
        Path(temporary).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        create_durably(path, build)
    assert not os.path.exists(path)
    assert os.listdir(Path(path).parents[4] / "tmp") == []


def test_a_full_device_is_told_as_such(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(DeviceFailed, match="No space"):
        Notes(path).create()


def test_a_missing_database_is_never_created(path: str) -> None:
    with pytest.raises(DatabaseMissing):
        Notes(path).add("x")
    with pytest.raises(DatabaseMissing):
        Notes(path).all()
    assert not os.path.exists(path)


def test_connections_are_durable_ones(notes: Notes) -> None:
    """synchronous = FULL (2) in a write-ahead log: the log is flushed at each commit."""
    for run in (notes.read, notes.write):
        assert run(lambda c: c.execute("PRAGMA synchronous").fetchone()) == (2,)
        assert run(lambda c: c.execute("PRAGMA journal_mode").fetchone()) == ("wal",)


def test_concurrent_writers_share_commits(notes: Notes) -> None:
    """While one commit is under way, all others gather for the next one."""
    commits: list[int] = []
    entered, may_go_on = threading.Event(), threading.Event()
    original = notes._commit_together

    def commit_together(transactions: list[Any]) -> list[Any]:
        commits.append(len(transactions))
        if len(commits) == 1:
            entered.set()
            assert may_go_on.wait(10)
        return original(transactions)

    notes._commit_together = commit_together  # type: ignore[method-assign]
    with ThreadPoolExecutor(41) as pool:
        first = pool.submit(notes.add, "first")
        assert entered.wait(10)
        others = [pool.submit(notes.add, str(n)) for n in range(40)]
        while len(notes._commits._queue) < 40:
            assert not any(f.done() for f in others)
        may_go_on.set()
        for future in [first, *others]:
            future.result(10)
    assert commits == [1, 40]
    assert sorted(notes.all()) == sorted(["first", *map(str, range(40))])


def test_a_bad_transaction_does_not_harm_its_neighbours(notes: Notes) -> None:
    def bad(sqlite: sqlite3.Connection) -> None:
        sqlite.execute("INSERT INTO note VALUES ('half')")
        raise ValueError("bad")

    good = [lambda c, n=n: c.execute("INSERT INTO note VALUES (?)", (n,)) for n in "ab"]
    outcomes = notes._commit([good[0], bad, good[1]])
    assert isinstance(outcomes[1], ValueError)
    assert notes.all() == ["a", "b"]
    with pytest.raises(ValueError, match="bad"):
        notes.write(bad)
    with pytest.raises(sqlite3.OperationalError):
        notes.write(lambda c: c.execute("INSERT INTO nowhere VALUES (1)"))
    notes.add("c")
    assert notes.all() == ["a", "b", "c"]


def test_a_reader_sees_whole_commits(notes: Notes) -> None:
    notes.add("a")

    def read_twice(sqlite: sqlite3.Connection) -> tuple[int, int]:
        first = sqlite.execute("SELECT count(*) FROM note").fetchone()[0]
        notes.add("b")
        return first, sqlite.execute("SELECT count(*) FROM note").fetchone()[0]

    assert notes.read(read_twice) == (1, 1)
    assert notes.all() == ["a", "b"]


def test_another_process_that_holds_the_database_is_waited_for_and_then_told(
    notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "BUSY_SECONDS", 0.05)
    other = sqlite3.connect(notes.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseBusy):
        notes.add("x")
    other.execute("ROLLBACK")
    notes.add("y")
    assert notes.all() == ["y"]


def test_no_row_goes_into_a_file_that_was_moved_away(notes: Notes, tmp_path: Path) -> None:
    notes.add("old")
    assert notes.all() == ["old"]
    directory = os.path.dirname(notes.path)
    os.rename(directory, tmp_path / "moved")
    with pytest.raises(DatabaseMissing):
        notes.add("lost?")
    with pytest.raises(DatabaseMissing):
        notes.all()
    notes.create()
    notes.add("new")
    assert notes.all() == ["new"]


def overwrite(path: str, offset: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


@pytest.mark.parametrize("damage", ["garbage", "empty", "torn", "page"])
@pytest.mark.parametrize("use", ["read", "write"])
def test_a_damaged_database_goes_to_quarantine(
    path: str, tmp_path: Path, damage: str, use: str
) -> None:
    notes = Notes(path)
    notes.create()
    for n in range(200):
        notes.add(f"{n:0500}")
    notes.close()
    if damage == "garbage":
        overwrite(path, 0, os.urandom(4096))
    elif damage == "empty":
        os.truncate(path, 0)
    elif damage == "torn":
        os.truncate(path, 4096 * 3)
    else:
        for page in range(6, os.path.getsize(path) // 4096):
            overwrite(path, page * 4096, b"\xff" * 4096)
    content = Path(path).read_bytes()
    run = notes.read if use == "read" else notes.write
    with pytest.raises(DatabaseDamaged):
        run(lambda c: c.execute("SELECT sum(length(text)) FROM note").fetchone())
    assert not os.path.exists(path)
    shelf = tmp_path / "sda" / "quarantined" / "containers" / HASH
    assert (shelf / f"{HASH}.db").read_bytes()[4096:] == content[4096:]
    with pytest.raises(DatabaseMissing):
        notes.all()
    notes.create()  # only on request, and beside what was quarantined
    overwrite(path, 0, b"not a database")
    with pytest.raises(DatabaseDamaged):
        notes.all()
    assert len(os.listdir(shelf.parent)) == 2


@pytest.mark.parametrize("use", ["read", "write"])
def test_damage_in_a_file_that_was_replaced_does_not_touch_the_new_one(
    notes: Notes, tmp_path: Path, use: str
) -> None:
    """A request that still has the old file open finds it damaged, after a new one was made."""

    def find_damage(sqlite: sqlite3.Connection) -> None:
        os.rename(os.path.dirname(notes.path), tmp_path / "moved")
        Notes(notes.path).create()
        raise damage

    damage = sqlite3.DatabaseError("malformed")
    damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    with pytest.raises(DatabaseDamaged, match="moved away already"):
        (notes.read if use == "read" else notes.write)(find_damage)
    notes.add("in the new one")
    assert notes.all() == ["in the new one"]


def test_a_database_of_another_kind_stays_where_it_is(path: str) -> None:
    Database(path).build("CREATE TABLE other (x);", lambda c: None)
    with pytest.raises(DatabaseUnsupported, match="note is missing"):
        Notes(path).all()
    assert os.path.exists(path)


def test_kill_loses_no_acknowledged_row(notes: Notes, tmp_path: Path) -> None:
    """A real process, killed in the midst of batches of several threads, several times over."""
    script = tmp_path / "writer.py"
    script.write_text(
        "import sqlite3, sys, threading\n"
        "from storage.database import Database\n"
        "database = Database(sys.argv[1])\n"
        "def write(thread):\n"
        "    for n in range(10**9):\n"
        "        texts = [(f'{sys.argv[2]}-{thread}-{n}-{i}',) for i in range(20)]\n"
        "        database.write(lambda c: c.executemany('INSERT INTO note VALUES (?)', texts))\n"
        "        sys.stdout.write(f'{sys.argv[2]}-{thread}-{n}\\n')\n"
        "        sys.stdout.flush()\n"
        "for thread in range(4):\n"
        "    threading.Thread(target=write, args=(thread,)).start()\n"
    )
    acknowledged: list[str] = []
    for run in range(3):
        process = subprocess.Popen(
            [sys.executable, str(script), notes.path, str(run)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(150):
            acknowledged.append(process.stdout.readline().strip())
        process.send_signal(signal.SIGKILL)
        acknowledged += [line.strip() for line in process.stdout if line.endswith("\n")]
        process.wait()
        stored = notes.all()
        batches = {text.rpartition("-")[0] for text in stored}
        assert set(acknowledged) <= batches
        assert len(stored) == 20 * len(batches)  # each batch is there whole or not at all
    assert notes.read(lambda c: c.execute("PRAGMA integrity_check").fetchone()) == ("ok",)


def test_the_pool_is_bounded_and_keeps_what_is_in_use(tmp_path: Path) -> None:
    paths = [database_path(str(tmp_path / "sda"), "containers", "7", f"{n:032x}") for n in range(6)]
    for path in paths:
        Notes(path).create()
    pool = DatabasePool(Notes, limit=2)
    with pool.use(paths[0]) as held:
        for path in paths[1:]:
            with pool.use(path) as database:
                database.add("x")
        with pool.use(paths[0]) as again:
            assert again is held
        assert open_files(tmp_path) == set(paths[-2:])
        held.add("still open")
    assert open_files(tmp_path) == {paths[-1], paths[0]}
    pool.close()
    assert open_files(tmp_path) == set()


def open_files(below: Path) -> set[str]:
    """The database files under a directory that this process has open."""
    found = set()
    for handle in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{handle}")
        except OSError:
            continue
        if target.startswith(str(below)) and target.endswith(".db"):
            found.add(target)
    return found


@pytest.mark.parametrize("use", ["read", "write"])
def test_a_file_that_cannot_be_looked_at_is_not_missing(
    notes: Notes, monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    """A disk that was detached, or fails: what lies there is not known."""
    notes.add("one")
    stat = os.stat

    def fail(path: Any, *arguments: Any, **options: Any) -> Any:
        if path == notes.path:
            raise OSError(errno.EIO, "Input/output error")
        return stat(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", fail)
        for database in (notes, Notes(notes.path)):
            with pytest.raises(DeviceFailed):
                (database.read if use == "read" else database.write)(lambda sqlite: None)
    assert notes.all() == ["one"]


def test_a_missing_database_is_not_told_of_a_device_that_is_not_there(path: str) -> None:
    def is_away(_path: str) -> None:
        raise DeviceMissing(path, "away")

    database = Notes(path, is_away)
    for use in (database.all, lambda: database.add("x"), database.create):
        with pytest.raises(DeviceMissing):
            use()
    assert not os.path.exists(path)

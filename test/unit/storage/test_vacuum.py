"""Free pages of a database are given back while others use it, in one of two ways."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path

import pytest
from storage_calls import stamp

from container.database import ContainerDatabase
from container.record import Record
from storage.vacuum import FREE_BYTES_MIN, Method, Space, method_for, vacuum

PAGE = 4096
MUCH = FREE_BYTES_MIN // PAGE


@pytest.mark.parametrize(
    ("pages", "free", "has_auto_vacuum", "expected"),
    [
        (4 * MUCH, MUCH, True, Method.STEPS),
        (4 * MUCH, MUCH, False, Method.REWRITE),
        (4 * MUCH, MUCH - 1, True, Method.NONE),  # too little
        (4 * MUCH + 1, MUCH, True, Method.NONE),  # too small a share
        (100_000, 90_000, False, Method.REWRITE),
        (100_000, 30_000, False, Method.NONE),  # writers would wait too long
        (100_000, 30_000, True, Method.STEPS),
    ],
)
def test_the_method(pages: int, free: int, has_auto_vacuum: bool, expected: Method) -> None:
    assert method_for(Space(PAGE, pages, free, has_auto_vacuum)) is expected


def record(number: int) -> Record:
    return Record(f"{number:06d}" + "n" * 200, stamp(1), 1, "a/b", "e" * 32, 0, 0)


def emptied(directory: Path, has_auto_vacuum: bool = True) -> ContainerDatabase:
    """A database of which most pages are free."""
    path = directory / "d1/containers/3/abc" / ("0" * 29 + "abc") / ("0" * 29 + "abc.db")
    database = ContainerDatabase(str(path))
    database.create("AUTH_a", "c", stamp(0), 0, {})
    if not has_auto_vacuum:
        database.close()
        with sqlite3.connect(path, isolation_level=None) as other:
            other.execute("PRAGMA auto_vacuum = NONE")
            other.execute("VACUUM")
            assert other.execute("PRAGMA auto_vacuum").fetchone() == (0,)
    database.merge([record(number) for number in range(10_000)])
    database.write(lambda c: c.execute("DELETE FROM object WHERE name >= '000100'"))
    database.read(lambda c: c.execute("PRAGMA wal_checkpoint").fetchone())
    return database


def names(database: ContainerDatabase) -> list[str]:
    return database.read(lambda c: [n for (n,) in c.execute("SELECT name FROM object")])


@pytest.mark.parametrize("has_auto_vacuum", [True, False])
def test_the_file_shrinks_and_keeps_its_rows(tmp_path: Path, has_auto_vacuum: bool) -> None:
    database = emptied(tmp_path, has_auto_vacuum)
    before, kept = os.path.getsize(database.path), names(database)
    rowids = "SELECT ROWID, name FROM object ORDER BY ROWID"
    rows = database.read(lambda c: c.execute(rowids).fetchall())
    freed = vacuum(database.path)
    assert freed > FREE_BYTES_MIN
    assert os.path.getsize(database.path) <= before - freed
    assert names(database) == kept
    assert len(kept) == 100
    assert database.read(lambda c: c.execute(rowids).fetchall()) == rows  # for the sync points
    assert database.read(lambda c: c.execute("PRAGMA auto_vacuum").fetchone()) == (2,)
    assert database.read(lambda c: c.execute("PRAGMA integrity_check").fetchone()) == ("ok",)
    assert vacuum(database.path) == 0
    database.close()


def test_writers_go_on_between_the_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = emptied(tmp_path)
    pauses: list[int] = []

    def write(seconds: float) -> None:
        pauses.append(len(names(database)))
        database.merge([record(20_000 + len(pauses))])

    monkeypatch.setattr("storage.vacuum.time.sleep", write)
    assert vacuum(database.path) > 0
    assert len(pauses) > 2
    assert pauses == list(range(100, 100 + len(pauses)))
    database.close()


def test_a_database_in_use_is_left_for_the_next_pass(tmp_path: Path) -> None:
    database = emptied(tmp_path)
    begun, done = threading.Event(), threading.Event()

    def hold() -> None:
        with sqlite3.connect(database.path, isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            begun.set()
            done.wait()
            other.execute("ROLLBACK")

    holder = threading.Thread(target=hold)
    holder.start()
    begun.wait()
    try:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            vacuum(database.path)
    finally:
        done.set()
        holder.join()
    assert vacuum(database.path) > 0
    database.close()

"""A new database: the copy of a file with tables is what the statements make."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from storage.new_database import write_new

SCHEMA = "CREATE TABLE note (text TEXT); CREATE INDEX by_text ON note (text)"


def write(file: Path, schema: str, text: str) -> int:
    file.touch()

    def fill(connection: sqlite3.Connection) -> int:
        connection.execute("INSERT INTO note VALUES (?)", (text,))
        (count,) = connection.execute("SELECT count(*) FROM note").fetchone()
        return int(count)

    return write_new(str(file), schema, fill)


def test_a_second_database_has_the_tables_and_no_row_of_the_first(tmp_path: Path) -> None:
    seen = []
    for name in ("first", "second"):
        file = tmp_path / name
        assert write(file, SCHEMA, name) == 1
        assert [p.name for p in tmp_path.glob(f"{name}*")] == [name]  # no log beside it
        with contextlib.closing(sqlite3.connect(file)) as plain:
            assert plain.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert plain.execute("PRAGMA auto_vacuum").fetchone() == (2,)
            assert plain.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert plain.execute("SELECT text FROM note").fetchall() == [(name,)]
            seen.append(plain.execute("SELECT type, name, sql FROM sqlite_master").fetchall())
    assert seen[0] == seen[1]
    assert {"incoming_sync", "outgoing_sync", "note", "by_text"} <= {row[1] for row in seen[0]}


def test_each_schema_has_a_file_of_its_own(tmp_path: Path) -> None:
    write(tmp_path / "a", SCHEMA, "a")
    other = SCHEMA.replace("by_text", "other_index")
    write(tmp_path / "b", other, "b")
    with contextlib.closing(sqlite3.connect(tmp_path / "b")) as plain:
        names = {row[0] for row in plain.execute("SELECT name FROM sqlite_master")}
    assert "other_index" in names
    assert "by_text" not in names


def test_a_bad_schema_is_not_kept(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with pytest.raises(sqlite3.OperationalError):
            write(tmp_path / name, "CREATE TABEL note (text TEXT)", name)

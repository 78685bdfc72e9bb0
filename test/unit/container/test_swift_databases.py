"""OpenStack Swift's databases here, and ours there, with Swift's own code (from PyPI)."""

import functools
import operator
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from swift.container.backend import ContainerBroker

from container.database import ContainerDatabase
from container.record import parse_record
from storage.database_files import database_path
from storage.name_listing import ListingQuery
from storage.schema import row_hash

SAMPLE = Path(__file__).parents[2] / "golden" / "swift" / "container.db"


@pytest.fixture
def path(tmp_path: Path) -> str:
    return database_path(str(tmp_path / "d1"), "containers", "0", "ab" * 16)


@pytest.fixture
def sample(path: str) -> Iterator[ContainerDatabase]:
    """A container of a running Swift: 33 tombstones, deleted."""
    Path(path).parent.mkdir(parents=True)
    shutil.copy(SAMPLE, path)
    database = ContainerDatabase(path)
    yield database
    database.close()


def rows(*names: str, time: int = 1, **values: Any) -> list[Any]:
    return [
        parse_record(
            {
                "name": name,
                "created_at": f"179522360{time}.00000",
                "size": 7,
                "content_type": "text/plain",
                "etag": "e",
                **values,
            }
        )
        for name in names
    ]


def test_the_sample_of_swift_opens(sample: ContainerDatabase) -> None:
    info = sample.info()
    assert (info.account, info.container) == ("AUTH_test", "bucket")
    assert info.hash == "8b24239e6d2d07aa07d912dc30ef47e6"
    assert info.is_deleted
    assert info.is_unreported
    assert info.metadata["X-Container-Read"] == ("", "1795223550.98318")
    assert sample.list_objects(ListingQuery(100), None)[1] == []


def test_the_sample_of_swift_takes_rows_and_lists_them(sample: ContainerDatabase) -> None:
    sample.merge(rows("foo☃bar☃baz", "dir/subdir/object", "new"))
    info, listing = sample.list_objects(ListingQuery(100, delimiter="/"), None)
    assert [entry[0] for entry in listing] == ["dir/", "foo☃bar☃baz", "new"]
    assert (info.object_count, info.bytes_used) == (3, 21)
    assert info.hash == hash_of_rows(sample)
    newest = sample.read(lambda c: c.execute("SELECT min(ROWID) FROM object WHERE deleted = 0"))
    assert newest.fetchone()[0] > 348  # the sequence goes on where Swift's ended


def hash_of_rows(database: ContainerDatabase) -> str:
    query = "SELECT name, created_at FROM object"
    found = database.read(lambda c: c.execute(query).fetchall())
    return f"{functools.reduce(operator.xor, (row_hash(*row) for row in found)):032x}"


def test_rows_of_swift_are_replaced_and_the_counts_follow(sample: ContainerDatabase) -> None:
    """By a merge, which counts by itself, and row by row, by the triggers in Swift's place."""
    sample.merge(rows("x", "y"))
    sample.merge(rows("x", time=2, deleted=1, size=0))
    sample.write(lambda c: c.execute("DELETE FROM object WHERE name = 'y'"))
    sample.write(
        lambda c: c.execute("INSERT INTO object (name, created_at, size) VALUES (1, 2, 9)")
    )
    info = sample.info()
    assert (info.object_count, info.bytes_used) == (1, 9)
    assert info.hash == hash_of_rows(sample)


def schema(path: str | Path) -> dict[tuple[str, str], Any]:
    """Type and name of everything, and the columns of tables and views."""
    with sqlite3.connect(path) as connection:
        found = connection.execute(
            "SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
        ).fetchall()
        return {
            (kind, name): connection.execute(f"PRAGMA table_info({name})").fetchall()
            for kind, name in found
        }


def without_case(columns: dict[tuple[str, str], Any]) -> Any:
    """Default values are spelled in different cases in Swift's own scripts."""
    return {key: [tuple(map(str, c)) for c in value] for key, value in columns.items()}


def test_our_schema_has_everything_that_swifts_has(path: str, tmp_path: Path) -> None:
    database = ContainerDatabase(path)
    database.create("a", "c", "1795223500.00000", 0, {})
    database.close()
    theirs = tmp_path / "theirs.db"
    shutil.copy(SAMPLE, theirs)
    assert without_case(schema(path)) == without_case(schema(theirs))


def test_swift_reads_and_writes_ours(path: str) -> None:
    database = ContainerDatabase(path)
    database.create("AUTH_test", "c", "1795223500.00000", 0, {})
    database.merge(rows("a", "b/1", "b/2", "ü"))
    database.close()
    broker = ContainerBroker(path)
    info = broker.get_info()
    assert (info["account"], info["container"]) == ("AUTH_test", "c")
    assert (info["object_count"], info["bytes_used"]) == (4, 28)
    listing = broker.list_objects_iter(100, "", None, None, "/")
    assert [entry[0] for entry in listing] == ["a", "b/", "ü"]
    broker.put_object("z", "1795223601.00000", 9, "text/plain", "e", 0)
    broker.delete_object("a", "1795223602.00000", 0)
    assert broker.get_info()["object_count"] == 4
    broker.update_metadata({"X-Container-Meta-A": ("b", "1795223601.00000")})
    broker.reported("1", "0", 4, 30)
    broker.conn.close()
    ours = ContainerDatabase(path)
    info = ours.info()
    assert (info.object_count, info.bytes_used) == (4, 30)
    assert info.metadata == {"X-Container-Meta-A": ("b", "1795223601.00000")}
    assert info.reported_bytes_used == 30
    listing = ours.list_objects(ListingQuery(100), None)[1]
    assert [entry[0] for entry in listing] == ["b/1", "b/2", "z", "ü"]
    ours.close()


def test_both_come_to_the_same_hash_and_rows(path: str, tmp_path: Path) -> None:
    """The same updates in the same order, there and here, POSTed content types included."""
    updates = [
        {"name": "a", "created_at": "1795223601.00000", "size": 1, "etag": "1"},
        {
            "name": "a",
            "created_at": "1795223601.00000",
            "size": 1,
            "etag": "1",
            "content_type": "b/b;swift_bytes=5",
            "ctype_timestamp": "1795223603.00000",
            "meta_timestamp": "1795223604.00000",
        },
        {"name": "a", "created_at": "1795223602.00000_0000000000000001", "size": 2, "etag": "2"},
        {"name": "b", "created_at": "1795223602.00000", "size": 2, "etag": "2"},
        {"name": "b", "created_at": "1795223603.00000", "size": 0, "etag": "noetag", "deleted": 1},
        {"name": "ü", "created_at": "1795223603.00000", "size": 4, "etag": "4"},
    ]
    updates = [
        {"content_type": "a/a", "deleted": 0, "storage_policy_index": 0} | u for u in updates
    ]
    theirs = tmp_path / "d1" / "containers" / "0" / "000" / "theirs" / "theirs.db"
    broker = ContainerBroker(str(theirs), account="AUTH_test", container="c")
    broker.initialize("1795223500.00000", 0)
    database = ContainerDatabase(path)
    database.create("AUTH_test", "c", "1795223500.00000", 0, {})
    for update in updates:
        broker.merge_items([dict(update)])
        database.merge([parse_record(update)])
    query = "SELECT name, created_at, size, content_type, etag, deleted FROM object ORDER BY name"
    ours = database.read(lambda c: c.execute(query).fetchall())
    with broker.get() as connection:
        assert ours == [tuple(r) for r in connection.execute(query)]
    assert database.info().hash == broker.get_info()["hash"]
    database.close()

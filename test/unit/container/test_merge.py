"""Batches of rows in a real database: counts, hash, tombstones, order, repetition."""

import itertools
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_databases import container_in_memory

from container.database import ContainerDatabase
from container.merge import merge_rows
from container.record import Record, parse_record
from storage.database_files import database_path
from storage.name_listing import ListingQuery
from storage.schema import chexor


def row(name: str, time: int, **values: Any) -> Record:
    default = {
        "name": name,
        "created_at": f"179522354{time}.00000",
        "size": 10 + time,
        "content_type": "text/plain",
        "etag": f"etag{time}",
    }
    return parse_record(default | values)


def tombstone(name: str, time: int, **values: Any) -> Record:
    gone = {"size": 0, "etag": "noetag", "content_type": "application/deleted", "deleted": 1}
    return row(name, time, **gone, **values)


def rows_of(connection: sqlite3.Connection) -> list[Any]:
    return connection.execute(
        "SELECT name, storage_policy_index, created_at, size, content_type, etag, deleted"
        " FROM object ORDER BY name, storage_policy_index"
    ).fetchall()


def state_of(connection: sqlite3.Connection) -> dict[str, Any]:
    """Rows, counts and hash; the counts must be those of the rows."""
    rows = rows_of(connection)
    counted = connection.execute(
        "SELECT storage_policy_index, sum(1 - deleted), sum(size) FROM object GROUP BY 1"
    ).fetchall()
    kept = connection.execute("SELECT * FROM policy_stat ORDER BY 1").fetchall()
    assert [stat for stat in kept if stat[1:] != (0, 0)] == [c for c in counted if c[1:] != (0, 0)]
    row_hash = "0" * 32
    for name, _, created_at, *_ in rows:
        row_hash = chexor(row_hash, name, created_at)
    assert connection.execute("SELECT hash FROM container_info").fetchone() == (row_hash,)
    return {"rows": rows, "counts": counted}


@pytest.fixture
def database(tmp_path: Path) -> ContainerDatabase:
    path = database_path(str(tmp_path / "d1"), "containers", "0", "ab" * 16)
    made = ContainerDatabase(path)
    made.create("a", "c", "1795223500.00000", 0, {})
    return made


def test_new_rows_are_counted(database: ContainerDatabase) -> None:
    database.merge(
        [row("a", 1), row("b", 2), tombstone("c", 3), row("d", 1, storage_policy_index=1)]
    )
    info = database.info()
    assert (info.object_count, info.bytes_used, info.object_count_max) == (2, 23, 2)
    stats = database.read(lambda c: c.execute("SELECT * FROM policy_stat").fetchall())
    assert stats == [(0, 2, 23), (1, 1, 11)]
    _, names = database.list_objects(ListingQuery(10), None)
    assert [name[0] for name in names] == ["a", "b"]
    _, names = database.list_objects(ListingQuery(10), 1)
    assert [name[0] for name in names] == ["d"]


def test_a_newer_row_replaces_and_an_older_one_does_not(database: ContainerDatabase) -> None:
    database.merge([row("a", 2)])
    first = database.read(lambda c: c.execute("SELECT max(ROWID) FROM object").fetchone()[0])
    database.merge([row("a", 1), tombstone("a", 1)])
    unchanged = database.read(lambda c: c.execute("SELECT ROWID, etag FROM object").fetchall())
    assert unchanged == [(first, "etag2")]
    database.merge([row("a", 3)])
    rowid, etag = database.read(lambda c: c.execute("SELECT ROWID, etag FROM object").fetchone())
    assert rowid > first  # replication finds changed rows by their ROWID
    assert etag == "etag3"
    assert database.info().object_count == 1


def test_a_deleted_row_stays_as_a_tombstone(database: ContainerDatabase) -> None:
    database.merge([row("a", 1)])
    database.merge([tombstone("a", 2)])
    assert database.info().object_count == 0
    assert database.info().is_empty
    database.merge([row("a", 1)])  # late news of the life before
    assert database.info().object_count == 0
    database.merge([row("a", 3)])
    assert database.info().object_count == 1


def test_one_name_several_times_in_a_batch(database: ContainerDatabase) -> None:
    database.merge([row("a", 2), row("a", 5), tombstone("a", 4), row("b", 1)])
    database.merge([row("a", 1), row("b", 1), row("b", 1)])
    rows = database.read(rows_of)
    assert [(r[0], r[5]) for r in rows] == [("a", "etag5"), ("b", "etag1")]


def test_rows_are_not_updated_in_place(database: ContainerDatabase) -> None:
    database.merge([row("a", 1)])
    with pytest.raises(sqlite3.IntegrityError, match="rows are replaced"):
        database.write(lambda c: c.execute("UPDATE object SET size = 5"))


def test_the_view_of_old_tools_can_be_written(database: ContainerDatabase) -> None:
    database.merge([row("a", 1)])
    database.write(lambda c: c.execute("UPDATE container_stat SET metadata = '{}', hash = 'h'"))
    assert database.info().raw_metadata == "{}"
    assert database.info().hash == "h"
    assert database.info().object_count == 1


def test_sync_tables_note_when_they_change(database: ContainerDatabase) -> None:
    for table in ("incoming_sync", "outgoing_sync"):
        database.write(lambda c, t=table: c.execute(f"INSERT INTO {t} VALUES ('peer', 5, 0)"))
        query = f"SELECT updated_at > 1700000000 FROM {table}"
        assert database.read(lambda c, q=query: c.execute(q).fetchone()) == (1,)


TIME = st.integers(0, 3)
ROW = st.one_of(
    st.builds(row, st.sampled_from("abc"), TIME, storage_policy_index=st.integers(0, 1)),
    st.builds(tombstone, st.sampled_from("abc"), TIME),
    st.builds(
        row,
        st.sampled_from("abc"),
        TIME,
        content_type=st.sampled_from(["x/x", "y/y;swift_bytes=4"]),
        ctype_timestamp=TIME.map(lambda t: f"179522354{t}.50000"),
    ),
)
BATCHES = st.lists(st.lists(ROW, min_size=1, max_size=4), min_size=1, max_size=3)


@settings(max_examples=150, deadline=None)
@given(BATCHES)
def test_batches_in_any_order_and_again_come_to_the_same(batches: list[list[Record]]) -> None:
    states = []
    for order in itertools.permutations(batches):
        connection = container_in_memory()
        for batch in [*order, *order]:
            merge_rows(connection, batch)
        states.append(state_of(connection))
        connection.close()
    one_by_one = container_in_memory()
    for record in itertools.chain(*batches):
        merge_rows(one_by_one, [record])
    states.append(state_of(one_by_one))
    assert all(state == states[0] for state in states)


def test_a_repeated_batch_writes_nothing() -> None:
    connection = container_in_memory()
    batch = [row("a", 1, content_type="a/b; swift_bytes=5"), tombstone("b", 2)]
    merge_rows(connection, batch)
    changes = connection.total_changes
    merge_rows(connection, batch)
    assert connection.total_changes == changes


def test_many_rows_in_one_batch() -> None:
    """More than SQLite takes as arguments of one statement."""
    connection = container_in_memory()
    batch = [row(json.dumps(n), 1) for n in range(40_000)]
    merge_rows(connection, batch)
    merge_rows(connection, [*batch[:5], tombstone(batch[7].name, 2)])
    assert connection.execute("SELECT object_count FROM policy_stat").fetchone() == (39_999,)


def test_merges_of_one_commit_become_one(
    database: ContainerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But not past other work; and one that raises does not harm the others."""
    sizes: list[int] = []

    def merge(connection: sqlite3.Connection, records: list[Record]) -> bool:
        sizes.append(len(records))
        return merge_rows(connection, records)

    works: list[Any] = []
    with monkeypatch.context() as patched:
        patched.setattr(database, "write", works.append)
        database.merge([row("a", 1), row("b", 1)])
        database.merge([row("a", 2), row("x", 1, storage_policy_index=1)])
        database.merge([row("c", 1)])
    monkeypatch.setattr("container.merges.merge_rows", merge)
    query = "SELECT count(*) FROM object"
    works.insert(2, lambda connection: connection.execute(query).fetchone())
    assert database._commit(works) == [True, True, (3,), False]
    assert sizes == [4, 1]
    info, rows = database.list_objects(ListingQuery(10), 0)
    assert [(found[0], found[2]) for found in rows] == [("a", 12), ("b", 11), ("c", 11)]
    assert info.object_count == 3

    sizes.clear()
    works[1].records = [row("d", 1)._replace(created_at="never"), row("d", 1)]
    outcomes = database._commit(works[:2])
    assert outcomes[0] is False
    assert isinstance(outcomes[1], ValueError)
    assert sizes == [4, 2, 2]


@pytest.mark.parametrize("count", [1, 3, 8, 11, 127, 128, 129, 300])
def test_a_batch_of_any_size_is_inserted_in_its_order(count: int) -> None:
    connection = container_in_memory()
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    batch = [row(f"{number:04d}", number % 9) for number in range(count)]
    merge_rows(connection, batch)
    assert rows_of(connection) == sorted(
        (r.name, 0, r.created_at, r.size, r.content_type, r.etag, 0) for r in batch
    )
    assert [name for (name,) in connection.execute("SELECT name FROM object ORDER BY ROWID")] == [
        r.name for r in batch
    ]
    # SQLite repeats the text at each trigger.
    inserts = {text for text in statements if "INSERT INTO object" in text}
    assert len(inserts) == -(-count // 128)

"""Removals of many versions are merged as rows one by one are, with fewer statements."""

import sqlite3
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_databases import container_in_memory
from storage_calls import stamp

from container import version_removals
from container.grid_update import GridUpdate
from container.merge import merge_rows
from container.record import Record, parse_record

MANY = 500
NAMES = st.sampled_from(["o", "p"])
TIMES = st.integers(1, 6)
POLICIES = st.sampled_from([0, 0, 0, 1])


def written(name: str, time: float, policy: int = 0, **values: Any) -> Record:
    row = {"name": name, "created_at": stamp(time), "size": 5, "etag": f"{time}"}
    row |= {"content_type": "text/plain", "storage_policy_index": policy}
    return parse_record(row | values)


def version(name: str, time: float, policy: int = 0, **values: Any) -> Record:
    return written(name, time, policy, version_id=stamp(time), **values)


def removed(name: str, at: float, time: float | None, policy: int = 0) -> Record:
    gone = {"size": 0, "content_type": "application/deleted", "etag": "noetag", "deleted": 1}
    return written(name, at, policy, version_id=None if time is None else stamp(time), **gone)


def posted(name: str, time: float, at: float) -> Record:
    return version(name, time, meta_timestamp=stamp(at), ctype_timestamp=stamp(at))


def removals_of(name: str, at: float, times: set[int], policy: int) -> list[Record]:
    return [removed(name, at, time, policy) for time in sorted(times)]


_batches = st.one_of(
    st.builds(lambda *given: [version(*given)], NAMES, TIMES, POLICIES),
    st.builds(lambda *given: [written(*given)], NAMES, TIMES, POLICIES),
    st.builds(lambda name, time: [removed(name, time, None)], NAMES, TIMES),
    st.builds(lambda name, time: [posted(name, time, 12)], NAMES, TIMES),
    st.builds(
        lambda name, time: [version(name, time, content_type="a/b;swift_bytes=7")], NAMES, TIMES
    ),
    st.builds(removals_of, NAMES, st.integers(10, 13), st.sets(TIMES, min_size=1), POLICIES),
)


@settings(max_examples=300, deadline=None)
@given(batches=st.lists(_batches, min_size=1, max_size=8), data=st.data())
def test_the_result_is_that_of_rows_one_by_one(
    batches: list[list[Record]], data: st.DataObject
) -> None:
    joined = data.draw(st.booleans())
    if joined:  # rows of several requests are merged together
        batches = [[row for batch in batches for row in batch]]
    few, many = (merged(batches, removals_min) for removals_min in (1, MANY))
    assert few == many


def merged(batches: list[list[Record]], removals_min: int) -> list[Any]:
    """The content of all tables, without the ROWIDs, after each batch."""
    connection = container_in_memory()
    states: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(version_removals, "REMOVALS_MIN", removals_min)
        for batch in [[version("o", 9), version("p", 9)], *batches]:
            last = last_row(connection) if states else 0
            is_misplaced = merge_rows(connection, batch)
            later = "SELECT name, version_id FROM version WHERE ROWID > ? ORDER BY 1, 2"
            states += [is_misplaced, connection.execute(later, (last,)).fetchall()]
            states.append([table(connection, *query) for query in _TABLES])
    return states


_TABLES = (
    ("name, created_at, size, content_type, etag, deleted, storage_policy_index", "object"),
    (
        "name, version_id, created_at, size, content_type, etag, deleted, storage_policy_index,"
        " since",
        "version",
    ),
    ("name, current", "version_name"),
    ("version_count, extra_bytes", "version_stat"),
    ("storage_policy_index, object_count, bytes_used", "policy_stat"),
    ("hash, storage_policy_index", "container_info"),
    ("name, storage_policy_index, created_at", "version_replaced"),
)


def table(connection: sqlite3.Connection, columns: str, name: str) -> list[Any]:
    """Its rows; none if there is no such table."""
    there = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,))
    if there.fetchone() is None:
        return []
    return connection.execute(f"SELECT {columns} FROM {name} ORDER BY 1, 2").fetchall()


def last_row(connection: sqlite3.Connection) -> int:
    (last,) = connection.execute("SELECT max(ROWID) FROM version").fetchone()
    assert isinstance(last, int)
    return last


def test_the_number_of_statements_does_not_depend_on_that_of_versions() -> None:
    counts = []
    for count in (10, MANY):
        connection = container_in_memory()
        merge_rows(connection, [version("o", time) for time in range(1, count + 2)])
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        removals = removals_of("o", 1000, set(range(1, count + 1)), 0)
        assert not merge_rows(connection, removals)
        connection.set_trace_callback(None)
        assert table(connection, "version_count, extra_bytes", "version_stat") == [(1, 0)]
        assert not merge_rows(connection, removals)  # again
        assert table(connection, "version_count, extra_bytes", "version_stat") == [(1, 0)]
        counts.append(len(statements))
    assert counts[0] == counts[1] < 20


@pytest.mark.parametrize(
    "values",
    [
        [None, None, stamp(2)],
        [None, None, stamp(9)],  # after its time
        [None, None, "null"],
        [None, None, "current"],
        [None, None, None],
        [None, None, ""],
        [None, None, 7],
        [stamp(8), None, stamp(2)],
        [None, stamp(8), stamp(2)],
        [None, "", stamp(2)],
        [0, None, stamp(2)],
        [None, [], stamp(2)],
        [None, None, f"{stamp(2)}_0000000000000001"],
        [None, None, "x"],
    ],
)
def test_rows_of_versions_are_read_as_each_alone(values: list[Any]) -> None:
    usual = ["o", stamp(5), 0, "application/deleted", "noetag", 1, None, None, stamp(3)]
    rows = [usual] * 6 + [[*usual[:6], *values]]

    def read(rows: list[Any]) -> Any:
        try:
            return GridUpdate("d1", 0, "a", "c", 0, stamp(5), rows, True).records()
        except Exception as error:
            return str(error)

    one_by_one = [read([row]) for row in rows]
    failed = [found for found in one_by_one if isinstance(found, str)]
    together = read(rows)
    assert together == (failed[0] if failed else [row for (row,) in one_by_one])

"""Account databases: counts and hash follow the rows, and OpenStack Swift reads them."""

import itertools
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_databases import account_in_memory
from swift.account.backend import AccountBroker

from account.database import AccountDatabase
from account.record import Record, make_record
from account.replica_rows import Report, merge_report
from martlet.words.timestamp import Timestamp
from storage.database_files import database_path
from storage.name_listing import ListingQuery
from storage.schema import chexor


def record(
    name: str, put: int, delete: int = 0, totals: tuple[int, int] = (0, 0), policy: int = 0
) -> Record:
    return make_record(name, (Timestamp(put), Timestamp(delete)), *totals, policy)


def report(row: Record, seconds: int = 9) -> Report:
    return Report(row, Timestamp(seconds).internal)


def report_now(connection: sqlite3.Connection, row: Record) -> None:
    now = Timestamp.now()
    merge_report(connection, Report(row, now.internal), now)


RECORDS = st.builds(
    record,
    st.sampled_from("abc"),
    st.integers(0, 3),
    st.integers(0, 3),
    st.tuples(st.integers(0, 2), st.integers(0, 20)),
    st.integers(0, 1),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(RECORDS, max_size=12))
def test_counts_and_hash_are_those_of_the_rows(records: list[Record]) -> None:
    connection = account_in_memory()
    for each in records:
        report_now(connection, each)
    rows = connection.execute(
        "SELECT name, put_timestamp, delete_timestamp, object_count, bytes_used, deleted,"
        " storage_policy_index FROM container"
    ).fetchall()
    assert len({row[0] for row in rows}) == len(rows)
    row_hash = "0" * 32
    for row in rows:
        row_hash = chexor(row_hash, row[0], "-".join(map(str, row[1:5])))
    (stat,) = connection.execute(
        "SELECT container_count, object_count, bytes_used, hash FROM account_stat"
    )
    live = sum(1 - row[5] for row in rows)
    assert stat == (live, sum(row[3] for row in rows), sum(row[4] for row in rows), row_hash)
    for policy, *kept in connection.execute("SELECT * FROM policy_stat"):
        mine = [row for row in rows if row[6] == policy]
        sums = [sum(1 - r[5] for r in mine), sum(r[3] for r in mine), sum(r[4] for r in mine)]
        assert kept == sums


@given(st.permutations([1, 2, 3, 4]), st.sampled_from([(5, 5, 6, 7), (7, 5, 7, 5), (5, 6, 5, 5)]))
def test_reports_in_any_order_end_with_the_totals_read_last(
    order: list[int], counts: tuple[int, ...]
) -> None:
    """Reports that waited in a stopped server's socket are answered in any order."""
    connection = account_in_memory()
    for read_at in order:
        row = record("a", 1, totals=(counts[read_at - 1], 0))
        merge_report(connection, report(row, read_at), Timestamp(10))
    (found,) = connection.execute("SELECT object_count FROM container").fetchone()
    assert found == counts[-1]


@pytest.mark.parametrize(
    ("read_at", "totals", "policy", "later"),
    [
        (9, (2, 20), 0, None),  # the same totals
        (9, (3, 20), 0, Timestamp(9)),
        (9, (2, 30), 0, Timestamp(9)),
        (9, (2, 20), 1, Timestamp(9)),
        (5, (3, 30), 1, None),
        (4, (3, 30), 1, None),
    ],
)
def test_a_report_that_counts_for_nothing_is_told_the_stored_time(
    read_at: int, totals: tuple[int, int], policy: int, later: Timestamp | None
) -> None:
    connection = account_in_memory()
    merge_report(connection, report(record("a", 1, 0, totals, policy), read_at), Timestamp(10))
    late = report(record("a", 1, totals=(2, 20)), 5)
    assert merge_report(connection, late, Timestamp(10)) == later


def test_a_fast_clock_does_not_hold_back_other_reports() -> None:
    connection = account_in_memory()
    for now, read_at, count in (10, 70, 1), (11, 11, 2), (5, 5, 3):
        merge_report(connection, report(record("a", 1, totals=(count, 0)), read_at), Timestamp(now))
        (found,) = connection.execute("SELECT object_count FROM container").fetchone()
        assert found == count


@given(st.lists(RECORDS, min_size=1, max_size=3))
def test_timestamps_come_to_the_same_in_any_order(records: list[Record]) -> None:
    """The totals of the last report count."""
    results = set()
    for order in itertools.permutations(records):
        connection = account_in_memory()
        for each in order:
            report_now(connection, each)
        query = "SELECT name, put_timestamp, delete_timestamp FROM container ORDER BY name"
        results.add(tuple(connection.execute(query).fetchall()))
    assert len(results) == 1


@pytest.fixture
def path(tmp_path: Path) -> str:
    return database_path(str(tmp_path / "d1"), "accounts", "0", "ab" * 16)


def test_swift_reads_and_writes_ours(path: str) -> None:
    database = AccountDatabase(path)
    database.create("AUTH_test", "1795223500.00000", {})
    database.put_containers([report(record("a", 5, totals=(2, 20)))], is_override=False)
    database.put_containers([report(record("b-ü", 5, totals=(3, 30), policy=1))], is_override=False)
    database.close()
    broker = AccountBroker(path)
    info = broker.get_info()
    assert (info["account"], info["container_count"], info["object_count"]) == ("AUTH_test", 2, 5)
    assert broker.get_policy_stats()[1]["bytes_used"] == 30
    assert [row[0] for row in broker.list_containers_iter(9, "", None, None, "-")] == ["a", "b-"]
    broker.put_container("c", "0000000009.00000", "0", 1, 10, 0)
    assert broker.get_info()["container_count"] == 3
    broker.conn.close()
    ours = AccountDatabase(path)
    assert ours.info().bytes_used == 60
    rows: list[Any] = list(ours.list_containers(ListingQuery(10))[1])
    assert [row[0] for row in rows] == ["a", "b-ü", "c"]
    ours.close()


def test_swifts_databases_open(path: str) -> None:
    Path(path).parent.mkdir(parents=True)
    broker = AccountBroker(path, account="AUTH_test")
    broker.initialize("1795223500.00000")
    broker.put_container("a", "0000000009.00000", "0", 1, 10, 0)
    broker.get_info()
    broker.conn.close()
    ours = AccountDatabase(path)
    ours.put_containers([report(record("b", 5, totals=(3, 30), policy=1))], is_override=False)
    info, rows = ours.list_containers(ListingQuery(10))
    assert [row[0] for row in rows] == ["a", "b"]
    assert (info.container_count, info.object_count, info.bytes_used) == (2, 4, 40)
    assert [stat.storage_policy_index for stat in info.policies] == [0, 1]
    ours.close()

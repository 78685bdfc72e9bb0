"""Replicas of an account come to the same state, whatever they missed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from replicating import PARTITION, Replicas
from storage_calls import stamp

from account.database import AccountDatabase
from account.record import make_record
from account.replica_rows import REPEATED_SECONDS, Report, merge_report, merge_rows
from martlet.words.timestamp import Timestamp

A = f"/d1/{PARTITION}/AUTH_test"
DAY = 86400.0


def report(put: float, count: int, delete: float = 0) -> dict[str, str]:
    return {
        "X-Put-Timestamp": stamp(put),
        "X-Delete-Timestamp": stamp(delete) if delete else "0",
        "X-Object-Count": str(count),
        "X-Bytes-Used": str(10 * count),
    }


def listing(accounts: Replicas, number: int) -> list[tuple[str, int]]:
    entries = accounts.call[number]("GET", f"{A}?format=json").json()
    return [(entry["name"], entry["count"]) for entry in entries]


def test_containers_that_a_replica_missed(accounts: Replicas) -> None:
    accounts.everywhere([1, 2, 3], "PUT", A, 1)
    accounts.everywhere([1, 2, 3], "PUT", f"{A}/c", 2, report(2, 5))
    accounts.everywhere([1, 2, 3], "PUT", f"{A}/gone", 2, report(2, 0))
    accounts.everywhere([1, 2], "PUT", f"{A}/c", 2, report(2, 3))  # fewer, but later
    accounts.everywhere([1, 2], "PUT", f"{A}/gone", 2, report(2, 0, delete=4))
    accounts.everywhere([3], "PUT", f"{A}/new", 2, report(3, 1))
    accounts.replicate(3)  # the one that is behind comes first
    accounts.settle()
    for number in (1, 2, 3):
        assert listing(accounts, number) == [("c", 3), ("new", 1)]
        head = accounts.call[number]("HEAD", A)
        assert head.headers["X-Account-Object-Count"] == "4"
        assert head.headers["X-Account-Bytes-Used"] == "40"


@pytest.mark.parametrize("teller", [1, 3])
def test_a_deleted_account_stays_deleted(accounts: Replicas, teller: int) -> None:
    accounts.everywhere([1, 2, 3], "PUT", A, 1)
    accounts.everywhere([1, 2], "DELETE", A, 3)
    accounts.replicate(teller)
    accounts.settle()
    for number in (1, 2, 3):
        head = accounts.call[number]("HEAD", A)
        assert (head.status, head.headers["X-Account-Status"]) == (404, "Deleted")
    assert accounts.everywhere([1, 2, 3], "PUT", A, 9) == [403] * 3


def test_a_wiped_device_gets_the_account_and_a_deleted_one_is_forgotten(
    accounts: Replicas,
) -> None:
    accounts.everywhere([1, 2, 3], "PUT", A, 1, {"X-Account-Meta-Quota": "5"})
    accounts.everywhere([1, 2, 3], "PUT", f"{A}/c", 2, report(2, 5))
    shutil.rmtree(Path(accounts.servers[2].devices) / "d1" / "accounts")
    assert accounts.replicate(3).copied == 1
    assert listing(accounts, 2) == [("c", 5)]
    assert accounts.call[2]("HEAD", A).headers["X-Account-Meta-Quota"] == "5"
    accounts.everywhere([1, 2, 3], "PUT", f"{A}/c", 2, report(2, 0, delete=6))
    accounts.everywhere([1, 2, 3], "DELETE", A, 7)
    accounts.now += 30 * DAY
    accounts.settle()
    for number in (1, 2, 3):
        accounts.replicate(number)
    assert [accounts.database(number) for number in (1, 2, 3)] == [None] * 3


def test_rows_of_deleted_containers_are_forgotten(accounts: Replicas) -> None:
    accounts.everywhere([1, 2, 3], "PUT", A, 1)
    accounts.everywhere([1, 2, 3], "PUT", f"{A}/c", 2, report(2, 0, delete=6))
    accounts.everywhere([1, 2, 3], "PUT", f"{A}/there", 2, report(2, 1))
    accounts.now += 30 * DAY
    accounts.settle()
    for number in (1, 2, 3):
        assert accounts.query(number, "SELECT name FROM container") == [("there",)]
        assert accounts.query(number, "SELECT name FROM container_report") == [("there",)]


def record_of(count: int) -> Report:
    return Report(make_record("c", (Timestamp(5), Timestamp(0)), count, 0, 0), "0")


def test_a_row_that_loses_draws_the_stored_one(tmp_path: Path) -> None:
    """Equal hashes may hide that two replicas have other times for the same totals."""
    database = AccountDatabase(str(tmp_path / "d1/accounts/0/abc/x/x.db"))
    database.create("a", stamp(1), {})
    stored = record_of(5).record

    def merge_now(seconds: float) -> None:
        now = Timestamp(seconds)
        database.write(lambda c: merge_report(c, Report(stored, now.internal), now))

    def rowid() -> int:
        return int(database.read(lambda c: c.execute("SELECT ROWID FROM container").fetchone())[0])

    merge_now(20)
    before = rowid()
    same = Report(stored, Timestamp(30).internal)
    database.write(lambda c: merge_rows(c, [same], ""))
    assert rowid() == before
    older = Report(record_of(3).record, Timestamp(15).internal)
    database.write(lambda c: merge_rows(c, [older], ""))
    assert rowid() > before
    assert database.info().object_count == 5
    # A report that repeats the totals is stored if it comes much later.
    before = rowid()
    merge_now(20 + REPEATED_SECONDS / 2)
    assert rowid() == before
    merge_now(20 + REPEATED_SECONDS * 2)
    newer = Report(record_of(4).record, Timestamp(20 + REPEATED_SECONDS).internal)
    database.write(lambda c: merge_rows(c, [newer], ""))
    assert database.info().object_count == 5
    database.close()

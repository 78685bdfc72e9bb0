"""Reports that are repeated: after later totals of a fast clock, and once in an interval."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_accounts import CONTAINER as C
from fake_accounts import AccountServers, Exchange, devices, proxy_headers
from hypothesis import given
from hypothesis import strategies as st
from storage_calls import Caller

from container.info import ContainerInfo
from container.report_answer import Answer
from container.report_slots import ReportSlots
from container.reporter import Reporter
from container.shard_range import ACTIVE, ShardRange
from martlet.words.timestamp import Timestamp


def by_a_fast_clock() -> str:
    """The time of a clock that is 50 s ahead."""
    return Timestamp(time.time() + 50).internal


@pytest.mark.parametrize("method", ["PUT", "UPDATE"])
def test_totals_that_the_account_has_from_a_fast_clock_are_replaced(
    call: Caller, reporter: Reporter, accounts: AccountServers, method: str
) -> None:
    call("PUT", C, 1)
    if method == "UPDATE":
        call("PUT", "/d2/5/AUTH_test/c2", 1)
    accounts.later[2] = fast = by_a_fast_clock()
    reporter.report_changed()
    if method == "UPDATE":
        times = {row["reported_at"] for _, rows in accounts.rows[-3:] for row in rows}
    else:
        times = {headers["X-Backend-Reported-At"] for *_, headers in accounts.requests[-3:]}
    assert times == {Timestamp.from_ticks(Timestamp(fast).ticks + 1).internal}
    assert [r[1] for r in accounts.take()] == [method] * 6
    reporter.sweep()
    reporter.report_changed()
    assert not accounts.take()


def test_totals_that_are_late_twice_are_sent_again_soon(
    call: Caller, reporter: Reporter, accounts: AccountServers
) -> None:
    call("PUT", C, 1)
    accounts.later[2] = "9999999999.00000"
    before = accounts.start

    def later_each_time(*request: Any, **rest: Any) -> "Exchange":
        exchange = before(*request, **rest)
        accounts.later[2] = Timestamp.from_ticks(Timestamp.now().ticks + 10**7).internal
        return exchange

    accounts.start = later_each_time  # type: ignore[method-assign]
    reporter.report_changed()
    accounts.take()
    accounts.later.clear()
    accounts.start = before  # type: ignore[method-assign]
    reporter.report_changed()
    assert len(accounts.take()) == 3


def test_what_a_request_has_told_too_late_is_told_again(
    call: Caller, reporter: Reporter, accounts: AccountServers
) -> None:
    accounts.later[2] = by_a_fast_clock()
    call("PUT", C, 1, proxy_headers())
    accounts.take()
    accounts.later.clear()
    reporter.report_changed()
    assert len(accounts.take()) == 3


def test_an_unchanged_container_repeats_its_report(
    call: Caller,
    reporter: Reporter,
    accounts: AccountServers,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interval, now = 1000.0, time.time()
    monkeypatch.setattr("container.sweep.time.time", lambda: now)
    reporter._sweeper._slots = ReportSlots(interval, now)
    call("PUT", C, 1)
    call("PUT", "/d2/5/AUTH_test/c2", 1)
    reporter.report_changed()
    accounts.take()
    accounts.statuses = {2: 503, 3: 503}
    for _ in range(10):
        now += interval / 10
        reporter.sweep()
        reporter.report_changed()
    assert accounts.take()
    accounts.statuses.clear()
    reporter._suppressed.clear()
    reporter.report_changed()
    assert sorted(accounts.take_names()) == sorted((p, c) for p in (1, 2, 3) for c in ("c", "c2"))
    reporter.report_changed()
    assert not accounts.take()
    now += interval
    reporter.sweep()
    accounts.statuses = {1: 404, 2: 404, 3: 404}  # there is nothing to report it to
    reporter.report_changed()
    assert accounts.take()
    accounts.statuses.clear()
    reporter._suppressed.clear()
    reporter.report_changed()
    assert not accounts.take()


def test_a_shard_that_gets_ranges_repeats_its_report(call: Caller, reporter: Reporter) -> None:
    """Its parent may have put an estimate in place of statistics that have been reported."""
    told: list[int] = []

    def report_shard(info: ContainerInfo) -> list[Answer]:
        told.append(info.object_count)
        return [Answer(202)] * 3

    reporter._report_shard = report_shard
    shard, now = "/d1/0/.shards_a/c-1", Timestamp.now().normal
    as_shard = {"X-Backend-Record-Type": "shard"}
    created = {
        "X-Backend-Auto-Create": "true",
        "X-Container-Sysmeta-Shard-Quoted-Root": "a/c",
    }
    own = ShardRange(".shards_a/c-1", now, "c", "e", state=ACTIVE, state_timestamp=now)
    assert call("PUT", shard, 2, as_shard | created, [own.as_dict()]).status == 201
    reporter.report_changed()
    assert told == [0]
    reporter.report_changed()
    assert told == [0]
    grown = replace(own, upper="g", timestamp=Timestamp.now().normal)
    assert call("PUT", shard, 3, as_shard, [grown.as_dict()]).status == 202
    reporter.report_changed()
    assert told == [0, 0]
    reporter.report_changed()
    assert told == [0, 0]


def test_a_directory_that_is_none_of_ours_does_not_stop_a_sweep(
    call: Caller, reporter: Reporter, accounts: AccountServers
) -> None:
    call("PUT", C, 1)
    reporter.report_changed()
    accounts.take()
    (found,) = Path(devices(reporter)).glob("*/containers/*/*/*/*.db")
    copy = found.parents[1] / "before the repair" / "before the repair.db"
    copy.parent.mkdir()
    copy.write_bytes(found.read_bytes())
    reporter._sweeper._slots = ReportSlots(1000.0, 0)
    reporter.sweep()
    reporter.report_changed()
    assert len(accounts.take()) == 3


@given(st.lists(st.floats(0.01, 700), min_size=1, max_size=30), st.binary(min_size=16, max_size=16))
def test_each_slot_comes_once_in_an_interval(pauses: list[float], digest: bytes) -> None:
    interval = 500.0
    began = now = 1.7e9
    slots, due = ReportSlots(interval, began), 0
    for pause in pauses:
        now += pause
        missed = pause >= interval  # by a sweep that came late
        is_due = slots.due_until(now)(f"/d1/0/abc/{digest.hex()}")
        assert is_due or not missed
        due += is_due
    assert due <= (now - began) / interval + 1
    if all(pause < interval for pause in pauses):
        assert due >= (now - began) // interval

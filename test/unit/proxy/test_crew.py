"""Threads that share one piece of work."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from proxy import crew
from proxy.crew import for_each, run_crew


@pytest.fixture
def is_stopped(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Is set when a crew stops, which begins no further call then."""
    event = threading.Event()
    # The module's own name: other threads make events of their own.
    monkeypatch.setattr(crew, "threading", SimpleNamespace(Event=lambda: event))
    return event


def test_all_work_is_done_once() -> None:
    left = list(range(100))
    done: list[int] = []
    lock = threading.Lock()

    def work() -> bool:
        with lock:
            if not left:
                return False
            number = left.pop()
        done.append(number)
        return True

    assert list(run_crew(work, 8, 10.0)) == []
    assert sorted(done) == list(range(100))


def test_so_many_at_once_and_no_more() -> None:
    together = threading.Barrier(4)
    begun: list[None] = []

    def work() -> bool:
        begun.append(None)
        together.wait(10)
        return False

    list(run_crew(work, 4, 10.0))
    assert len(begun) == 4


def test_the_caller_looks_on_meanwhile() -> None:
    looked = threading.Event()

    def work() -> bool:
        assert looked.wait(10)
        return False

    looks = 0
    for _ in run_crew(work, 1, 0.001):
        looks += 1
        if looks == 3:
            looked.set()
    assert looks >= 3


def test_an_error_ends_all_and_is_the_callers() -> None:
    calls: list[None] = []

    def work() -> bool:
        calls.append(None)
        if len(calls) > 5:
            raise LookupError("no more")
        return True

    with pytest.raises(LookupError, match="no more"):
        list(run_crew(work, 1, 10.0))
    assert len(calls) == 6


def test_of_two_errors_the_first_in_time_is_the_callers(is_stopped: threading.Event) -> None:
    numbers = iter(range(2))

    def work() -> bool:
        if next(numbers) == 0:
            assert is_stopped.wait(60)
            raise ValueError("second")
        raise LookupError("first")

    with pytest.raises(LookupError, match="first"):
        list(run_crew(work, 2, 10.0))


def test_if_a_thread_cannot_be_started_the_others_stop(
    monkeypatch: pytest.MonkeyPatch, is_stopped: threading.Event
) -> None:
    start, has_started = threading.Thread.start, threading.Event()
    stops: list[bool] = []

    def start_one(thread: threading.Thread) -> None:
        if has_started.is_set():
            raise RuntimeError("can't start new thread")
        has_started.set()
        start(thread)

    def work() -> bool:
        stops.append(is_stopped.wait(60))
        return len(stops) < 20

    monkeypatch.setattr(threading.Thread, "start", start_one)
    with pytest.raises(RuntimeError, match="can't start"):
        list(run_crew(work, 2, 10.0))
    assert stops == [True]


def test_a_caller_that_goes_away_waits_for_what_is_under_way(is_stopped: threading.Event) -> None:
    begun = threading.Event()
    ended: list[bool] = []

    def work() -> bool:
        begun.set()
        stopped = is_stopped.wait(60)
        time.sleep(0.05)  # the caller waits on
        ended.append(stopped)
        return True

    looks = run_crew(work, 1, 0.001)
    next(looks)
    assert begun.wait(60)
    looks.close()
    assert ended == [True]


def test_each_item_is_done_once() -> None:
    done: list[int] = []
    for_each(done.append, range(100), 8)
    assert sorted(done) == list(range(100))
    for_each(done.append, [], 8)
    assert len(done) == 100


def test_the_error_of_an_item_is_raised() -> None:
    def work(number: int) -> None:
        if number == 3:
            raise ValueError(number)

    with pytest.raises(ValueError, match="3"):
        for_each(work, range(100), 4)

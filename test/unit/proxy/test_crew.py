"""Threads that share one piece of work."""

from __future__ import annotations

import threading
import time

import pytest

from proxy.crew import run_crew


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


def test_of_two_errors_the_first_in_time_is_the_callers() -> None:
    has_failed = threading.Event()
    numbers = iter(range(2))

    def work() -> bool:
        if next(numbers) == 0:
            assert has_failed.wait(10)
            time.sleep(0.05)
            raise ValueError("second")
        has_failed.set()
        raise LookupError("first")

    with pytest.raises(LookupError, match="first"):
        list(run_crew(work, 2, 10.0))


def test_if_a_thread_cannot_be_started_the_others_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    start, has_started, release = threading.Thread.start, threading.Event(), threading.Event()
    calls: list[None] = []

    def start_one(thread: threading.Thread) -> None:
        if has_started.is_set():
            release.set()
            raise RuntimeError("can't start new thread")
        has_started.set()
        start(thread)

    def work() -> bool:
        calls.append(None)
        assert release.wait(10)
        time.sleep(0.05)
        return len(calls) < 20

    monkeypatch.setattr(threading.Thread, "start", start_one)
    with pytest.raises(RuntimeError, match="can't start"):
        list(run_crew(work, 2, 10.0))
    assert len(calls) < 5


def test_a_caller_that_goes_away_waits_for_what_is_under_way() -> None:
    begun, release = threading.Event(), threading.Event()
    ended: list[None] = []

    def work() -> bool:
        begun.set()
        release.wait(10)
        ended.append(None)
        return True

    looks = run_crew(work, 1, 0.001)
    next(looks)
    assert begun.wait(10)
    threading.Timer(0.05, release.set).start()
    looks.close()
    assert len(ended) == 1

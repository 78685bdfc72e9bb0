"""Threads that share one piece of work."""

from __future__ import annotations

import threading

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

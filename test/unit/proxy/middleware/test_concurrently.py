"""One thing done to many items, a few at a time."""

from __future__ import annotations

import threading

import pytest

from proxy.middleware.concurrently import concurrently


def test_each_item_once_and_no_more_than_allowed_together() -> None:
    lock = threading.Lock()
    together = most = 0

    def work(item: int) -> int:
        nonlocal together, most
        with lock:
            together += 1
            most = max(most, together)
        with lock:
            together -= 1
        return item * 2

    results = [done for done in concurrently(work, range(50), 3) if done is not None]
    assert sorted(results) == [(item, item * 2) for item in range(50)]
    assert most <= 3


def test_nothing_to_do() -> None:
    assert list(concurrently(str, [], 2)) == []


def test_a_sign_of_life_while_nothing_gets_done() -> None:
    release = threading.Event()
    results = concurrently(lambda item: release.wait(30), [1], 1, 0.01)
    assert next(results) is None
    release.set()
    assert [done for done in results if done is not None] == [(1, True)]


def test_an_error_ends_it() -> None:
    def fail(item: int) -> None:
        raise ValueError(item)

    with pytest.raises(ValueError, match="0"):
        list(concurrently(fail, range(1000), 1))


def test_a_caller_that_stops_leaves_the_rest_undone() -> None:
    begun: list[int] = []
    go_on = threading.Semaphore(1)

    def work(item: int) -> int:
        go_on.acquire()
        begun.append(item)
        return item

    results = concurrently(work, range(1000), 1)
    assert next(results) == (0, 0)
    results.close()  # type: ignore[attr-defined]
    go_on.release(5)
    # The one under way when the caller stopped may still be done.
    assert len(begun) <= 2

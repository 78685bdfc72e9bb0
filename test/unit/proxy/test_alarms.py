"""Timers for many waits."""

from __future__ import annotations

import threading
import time

import pytest

import proxy.replicas.alarms
from proxy.replicas.alarms import Alarms


class Sleeper:
    """Counts how often it is woken."""

    def __init__(self, alarm_at: float) -> None:
        self.alarm_at = alarm_at
        self.woken = threading.Semaphore(0)

    def wake(self) -> None:
        self.woken.release()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy.replicas.alarms, "TICK_SECONDS", 0.001)


def test_one_is_woken_and_not_before_its_time() -> None:
    alarms = Alarms()
    soon, late = Sleeper(time.monotonic() + 0.05), Sleeper(time.monotonic() + 1000)
    alarms.add(late)
    alarms.add(soon)
    assert soon.woken.acquire(timeout=20)
    assert time.monotonic() >= soon.alarm_at
    soon.alarm_at = time.monotonic()  # once more
    assert soon.woken.acquire(timeout=20)
    assert not late.woken.acquire(blocking=False)


def test_one_that_comes_when_the_thread_ends_is_woken() -> None:
    first, last = Sleeper(0.0), Sleeper(0.0)
    late = [last]

    class Sleepers(set[Sleeper]):
        """One comes right after the thread has seen that there is nobody."""

        def __bool__(self) -> bool:
            has_some = len(self) > 0
            if not has_some and late:
                self.add(late.pop())
            return has_some

    alarms = Alarms()
    alarms._sleepers = Sleepers()  # type: ignore[assignment]
    alarms.add(first)
    assert first.woken.acquire(timeout=20)
    alarms.remove(first)
    assert last.woken.acquire(timeout=20)


def test_a_thread_that_does_not_start_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    alarms, sleeper = Alarms(), Sleeper(0.0)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            alarms.add(sleeper)
    alarms.add(sleeper)
    assert sleeper.woken.acquire(timeout=20)


def test_it_goes_on_after_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    mistakes = threading.Semaphore(0)
    monkeypatch.setattr(threading, "excepthook", lambda args: mistakes.release())

    class Mistaken(Sleeper):
        def wake(self) -> None:
            raise ValueError

    alarms, sleeper = Alarms(), Sleeper(0.0)
    mistaken = Mistaken(0.0)
    alarms.add(mistaken)
    assert mistakes.acquire(timeout=20)
    alarms.remove(mistaken)
    alarms.add(sleeper)
    assert sleeper.woken.acquire(timeout=20)

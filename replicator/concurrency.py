# SPDX-License-Identifier: Apache-2.0
"""The one place that knows how this package waits: on native threads, on other writers, in the
back.

Under eventlet's monkey patch a call that blocks in SQLite or in fsync would stop every green thread
of the process, so it goes to a native thread. Without the patch (tests, tools) it is simply called.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, ParamSpec, TypeVar

from martlet.log import get_logger

T = TypeVar("T")
P = ParamSpec("P")
Work = TypeVar("Work")

#: Calls that may block on a disk at the same time in one process.
NATIVE_THREADS = 4


def _is_green() -> bool:
    if "eventlet" not in sys.modules:
        return False
    from eventlet.patcher import is_monkey_patched

    return bool(is_monkey_patched("thread"))


def run_blocking(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that may block on a disk; other green threads go on meanwhile.

    The function must not touch green objects (locks, sockets) of the calling thread.
    """
    if not _is_green():
        return function(*args, **kwargs)
    result: T = _threads_of_process().run(lambda: function(*args, **kwargs))
    return result


class _NativeThreads:
    """Native threads that work for the green threads of one process.

    Cheaper than eventlet's own pool, and one wake-up brings all results that wait.
    """

    def __init__(self) -> None:
        from eventlet import hubs, patcher
        from eventlet.event import Event

        self.pid = os.getpid()
        self._new_event = Event
        self._calls = patcher.original("queue").SimpleQueue()
        self._done: deque[tuple[Any, Any, BaseException | None]] = deque()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        hubs.get_hub().add("read", self._bell, self._deliver, _ignore, _ignore)
        native = patcher.original("threading")
        for number in range(NATIVE_THREADS):
            name = f"blocking-{number}"
            native.Thread(target=self._work, name=name, daemon=True).start()

    def run(self, function: Callable[[], Any]) -> Any:
        """The outcome of ``function``, called in one of the threads."""
        event = self._new_event()
        self._calls.put((event, function))
        result, error = event.wait()
        if error is not None:
            raise error
        return result

    def _work(self) -> None:
        while True:
            event, function = self._calls.get()
            try:
                outcome: tuple[Any, Any, BaseException | None] = event, function(), None
            except BaseException as error:  # it belongs to the caller, whatever it is
                outcome = event, None, error
            self._done.append(outcome)
            os.eventfd_write(self._bell, 1)

    def _deliver(self, _descriptor: int) -> None:
        os.eventfd_read(self._bell)
        while self._done:
            event, result, error = self._done.popleft()
            event.send((result, error))


_threads: _NativeThreads | None = None


def _threads_of_process() -> _NativeThreads:
    global _threads
    if _threads is None or _threads.pid != os.getpid():  # threads do not survive a fork
        _threads = _NativeThreads()
    return _threads


def _ignore(*_arguments: object) -> None:
    """What the hub wants to be told of, and we do not need."""


def for_each(function: Callable[[T], object], items: Iterable[T], at_once: int) -> None:
    """Call ``function`` for every item, up to ``at_once`` of them at a time; returns when all
    ended.

    The function handles its own errors.
    """
    if not _is_green():
        for item in items:
            function(item)
        return
    import eventlet

    pool = eventlet.GreenPool(at_once)
    for item in items:
        pool.spawn_n(function, item)
    pool.waitall()


def repeat_in_background(name: str, task: Callable[[], None], pause_seconds: float) -> None:
    """Run ``task`` for ever with a pause after each run; an error is logged and ends one run only."""
    log = get_logger("martlet.background")

    def run() -> None:
        while True:
            try:
                task()
            except Exception:
                log.exception("background task failed task=%s", name)
            time.sleep(pause_seconds)

    threading.Thread(target=run, name=name, daemon=True).start()


class _Ticket(Generic[Work]):
    """One writer's place in the queue."""

    __slots__ = ("called", "error", "is_done", "result", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        self.called = threading.Lock()
        self.called.acquire()
        self.is_done = False
        self.result: Any = None
        self.error: BaseException | None = None


class GroupCommit(Generic[Work]):
    """Lets concurrent writers share a commit.

    The first writer leads: it commits at once. Those who come meanwhile queue; when the commit has
    ended, the first of them leads the next one and takes along all that wait. So a lone writer
    never waits for company, and N writers need far fewer than N commits.

    ``commit`` gets the works in order of arrival and returns one outcome for each: a result, or an
    exception that is raised to its writer. It runs in a native thread, never twice at once.
    """

    def __init__(self, commit: Callable[[list[Work]], list[Any]]) -> None:
        self._commit = commit
        self._lock = threading.Lock()  # guards the two below
        self._queue: list[_Ticket[Work]] = []
        self._is_led = False

    def submit(self, work: Work) -> Any:
        """Wait until a commit with ``work`` in it has ended; returns or raises its outcome."""
        ticket = _Ticket(work)
        with self._lock:
            self._queue.append(ticket)
            leads = not self._is_led
            self._is_led = True
        if not leads:
            ticket.called.acquire()
        if not ticket.is_done:
            self._lead()
        if ticket.error is not None:
            raise ticket.error
        return ticket.result

    def _lead(self) -> None:
        with self._lock:
            group, self._queue = self._queue, []
        try:
            self._settle(group, run_blocking(self._commit, [ticket.work for ticket in group]))
        except BaseException as error:
            self._settle(group, [error] * len(group))
            if not isinstance(error, Exception):
                raise
        finally:
            with self._lock:
                successor = self._queue[0] if self._queue else None
                self._is_led = successor is not None
            if successor is not None:
                successor.called.release()

    @staticmethod
    def _settle(group: list[_Ticket[Work]], outcomes: list[Any]) -> None:
        for ticket, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                ticket.error = outcome
            else:
                ticket.result = outcome
            ticket.is_done = True
            ticket.called.release()

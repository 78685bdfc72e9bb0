# SPDX-License-Identifier: Apache-2.0
"""The one place that knows how this package waits: for native threads, and in the background.

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
from typing import Any, ParamSpec, TypeVar

from martlet.log import get_logger

T = TypeVar("T")
P = ParamSpec("P")

#: Calls that may block on a disk at the same time in one process.
NATIVE_THREADS = 4


def _is_green() -> bool:
    if "eventlet" not in sys.modules:
        return False
    from eventlet.patcher import is_monkey_patched

    return bool(is_monkey_patched("thread"))


def run_blocking(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that may block on a disk; other green threads go on meanwhile.

    The function must not touch what belongs to green threads: locks, sockets, the log. It may call
    ``run_blocking`` itself, which then is a plain call.
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
        native = patcher.original("threading")
        self._is_here = native.local()  # has the attribute ``yes`` in the threads themselves
        self._done: deque[tuple[Any, Any, BaseException | None]] = deque()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        hubs.get_hub().add("read", self._bell, self._deliver, _ignore, _ignore)
        for number in range(NATIVE_THREADS):
            name = f"blocking-{number}"
            native.Thread(target=self._work, name=name, daemon=True).start()

    def run(self, function: Callable[[], Any]) -> Any:
        """The outcome of ``function``, called in one of the threads."""
        if hasattr(self._is_here, "yes"):
            return function()
        event = self._new_event()
        self._calls.put((event, function))
        result, error = event.wait()
        if error is not None:
            raise error
        return result

    def _work(self) -> None:
        self._is_here.yes = True
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
    """Run ``task`` for ever with a pause after each run; an error is logged and ends that run."""
    log = get_logger("martlet.background")

    def run() -> None:
        while True:
            try:
                task()
            except Exception:
                log.exception("background task failed task=%s", name)
            time.sleep(pause_seconds)

    threading.Thread(target=run, name=name, daemon=True).start()

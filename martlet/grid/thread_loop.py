# SPDX-License-Identifier: Apache-2.0
"""The loop of a process without eventlet: one thread that waits for all sockets and timers."""

from __future__ import annotations

import heapq
import itertools
import os
import selectors
import socket
import threading
import time
from collections import deque
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from martlet.grid.loop import Action, Timer, Watch
from martlet.log import get_logger

log = get_logger("martlet.grid")


class ThreadLoop:
    """A daemon thread, which starts with the object."""

    def __init__(self) -> None:
        self.lock: AbstractContextManager[Any] = threading.RLock()
        self._selector = selectors.DefaultSelector()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._soon: deque[Action] = deque()
        self._timers: list[tuple[float, int, _ThreadTimer]] = []
        self._numbers = itertools.count()
        self._thread = threading.Thread(target=self._run, name="grid", daemon=True)
        self._thread.start()

    def soon(self, action: Action) -> None:
        self._soon.append(action)
        self._ring()

    def later(self, seconds: float, action: Action) -> Timer:
        timer = _ThreadTimer(action)
        with self.lock:
            due = time.monotonic() + seconds
            heapq.heappush(self._timers, (due, next(self._numbers), timer))
            is_first = self._timers[0][2] is timer
        if is_first:
            self._ring()
        return timer

    def watch(self, sock: socket.socket, on_read: Action, on_write: Action) -> Watch:
        return _ThreadWatch(self, self._selector, sock, on_read, on_write)

    def waiter(self) -> _ThreadWaiter:
        return _ThreadWaiter()

    def spawn(self, action: Action) -> None:
        threading.Thread(target=action, daemon=True).start()

    def _ring(self) -> None:
        if threading.current_thread() is not self._thread:
            os.eventfd_write(self._bell, 1)

    def _run(self) -> None:
        while True:
            ready = self._selector.select(self._seconds_to_wait())
            with self.lock:
                for key, mask in ready:
                    if key.data is None:
                        os.eventfd_read(self._bell)
                    else:
                        self._call(partial(key.data.call, mask))
                for _ in range(len(self._soon)):
                    self._call(self._soon.popleft())
                now = time.monotonic()
                while self._timers and self._timers[0][0] <= now:
                    self._call(heapq.heappop(self._timers)[2].run)

    def _seconds_to_wait(self) -> float | None:
        with self.lock:
            if self._soon:
                return 0.0
            if not self._timers:
                return None
            return max(0.0, self._timers[0][0] - time.monotonic())

    def _call(self, action: Action) -> None:
        try:
            action()
        except Exception:
            log.exception("event=grid_call_failed")


class _ThreadTimer:
    def __init__(self, action: Action) -> None:
        self._action: Action | None = action

    def cancel(self) -> None:
        self._action = None

    def run(self) -> None:
        if self._action is not None:
            self._action()


class _ThreadWatch:
    def __init__(
        self,
        loop: ThreadLoop,
        selector: selectors.BaseSelector,
        sock: socket.socket,
        on_read: Action,
        on_write: Action,
    ) -> None:
        self._loop = loop
        self._selector = selector
        self._sock = sock
        self._calls = ((selectors.EVENT_READ, on_read), (selectors.EVENT_WRITE, on_write))
        self._mask = 0

    def read(self, is_wanted: bool) -> None:
        self._listen(selectors.EVENT_READ, is_wanted)

    def write(self, is_wanted: bool) -> None:
        self._listen(selectors.EVENT_WRITE, is_wanted)

    def end(self) -> None:
        self.read(False)
        self.write(False)

    def call(self, mask: int) -> None:
        for event, call in self._calls:
            if mask & self._mask & event:
                call()

    def _listen(self, event: int, is_wanted: bool) -> None:
        before = self._mask
        self._mask = before | event if is_wanted else before & ~event
        if self._mask == before:
            return
        if not before:
            self._selector.register(self._sock, self._mask, self)
        elif self._mask:
            self._selector.modify(self._sock, self._mask, self)
        else:
            self._selector.unregister(self._sock)
        self._loop.soon(_nothing)  # a select under way may not see the change


class _ThreadWaiter:
    def __init__(self) -> None:
        self._event = threading.Event()

    def wait(self, seconds: float | None) -> None:
        self._event.wait(seconds)
        self._event.clear()

    def wake(self) -> None:
        self._event.set()


def _nothing() -> None:
    """Let the thread look at its sockets anew."""

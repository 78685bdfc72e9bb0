# SPDX-License-Identifier: Apache-2.0
"""The loop of a process under eventlet: listeners and timers of its hub.

A waiting green thread is switched to from the listener that got its answer: this spares a timer and
a turn of the hub. An exception of that thread must not end the listener, so it is caught here.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import eventlet
import eventlet.hubs
import eventlet.patcher

from martlet.grid.loop import Action, Timer, Watch

_getcurrent: Callable[[], Any] = eventlet.getcurrent


def is_patched() -> bool:
    """Whether the sockets of this process are green."""
    return bool(eventlet.patcher.is_monkey_patched("socket"))


class HubLoop:
    """The hub of the thread that made this object; used in that thread only."""

    def __init__(self) -> None:
        self._hub: Any = eventlet.hubs.get_hub()
        self.lock: AbstractContextManager[Any] = nullcontext()

    def soon(self, action: Action) -> None:
        self._hub.schedule_call_global(0, action)

    def later(self, seconds: float, action: Action) -> Timer:
        timer: Timer = self._hub.schedule_call_global(seconds, action)
        return timer

    def watch(self, sock: socket.socket, on_read: Action, on_write: Action) -> Watch:
        return _HubWatch(self._hub, sock, on_read, on_write)

    def waiter(self) -> HubWaiter:
        return HubWaiter(self._hub)

    def spawn(self, action: Action) -> None:
        eventlet.spawn_n(action)


class _HubWatch:
    def __init__(self, hub: Any, sock: socket.socket, on_read: Action, on_write: Action) -> None:
        self._hub = hub
        self._fileno = sock.fileno()
        self._calls = {hub.READ: on_read, hub.WRITE: on_write}
        self._listeners: dict[Any, Any] = {}

    def read(self, is_wanted: bool) -> None:
        self._listen(self._hub.READ, is_wanted)

    def write(self, is_wanted: bool) -> None:
        self._listen(self._hub.WRITE, is_wanted)

    def end(self) -> None:
        self.read(False)
        self.write(False)

    def _listen(self, kind: Any, is_wanted: bool) -> None:
        if is_wanted == (kind in self._listeners):
            return
        if is_wanted:
            call = self._calls[kind]
            self._listeners[kind] = self._hub.add(
                kind, self._fileno, lambda _fileno: call(), lambda _error: call(), lambda: None
            )
        else:
            self._hub.remove(self._listeners.pop(kind))


class HubWaiter:
    """A green thread that waits. If the hub wakes it up, it runs at once."""

    __slots__ = ("_hub", "_is_woken", "_thread")

    def __init__(self, hub: Any) -> None:
        self._hub = hub
        self._thread: Any = None
        self._is_woken = False

    def wait(self, seconds: float | None) -> None:
        """Wait until ``wake`` is called, or for so long. Each ``wake`` ends one wait."""
        if self._is_woken:
            self._is_woken = False
            return
        self._thread = _getcurrent()
        timer = None if seconds is None else self._hub.schedule_call_global(seconds, self._resume)
        try:
            self._hub.switch()
        finally:
            self._thread = None
            self._is_woken = False
            if timer is not None:
                timer.cancel()

    def wake(self) -> None:
        """Let the thread go on."""
        if self._thread is None:
            self._is_woken = True
        elif _getcurrent() is self._hub.greenlet:
            self._resume()
        else:
            # A thread that switched to another one would not run again.
            self._hub.schedule_call_global(0, self._resume)

    def _resume(self) -> None:
        thread = self._thread
        if thread is None:
            return  # it has gone on for another reason
        self._thread = None
        try:
            thread.switch()
        except self._hub.SYSTEM_EXCEPTIONS:
            raise
        except BaseException:
            self._hub.squelch_generic_exception(sys.exc_info())

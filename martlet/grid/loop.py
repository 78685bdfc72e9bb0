# SPDX-License-Identifier: Apache-2.0
"""The seam between connections and the concurrency of the process: turns, timers, waits.

Under eventlet's monkey patch `hub_loop` serves; elsewhere, in command-line tools and tests,
`thread_loop` does, with one thread for all connections. Calls of a loop never run at the same time.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

Action = Callable[[], None]


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> Any:
        """Make it never run."""


class Watch(Protocol):
    """Calls when a socket can be read or written."""

    def read(self, is_wanted: bool) -> None:
        """Whether to call when bytes can be read."""

    def write(self, is_wanted: bool) -> None:
        """Whether to call when bytes can be written."""

    def end(self) -> None:
        """No more calls; the socket may be closed then."""


class Waiter(Protocol):
    """A (green) thread that waits."""

    def wait(self, seconds: float | None) -> None:
        """Wait until ``wake`` is called, or for so long. Each ``wake`` ends one wait."""

    def wake(self) -> None:
        """Let the thread go on; inside of a loop's call it may run at once."""


class Loop(Protocol):
    """The concurrency of a process. Its calls run in turns, and a turn's sends are joined."""

    #: To be held while a session is used outside of the loop's calls.
    lock: AbstractContextManager[Any]

    def soon(self, action: Action) -> None:
        """Run the action in the next turn."""

    def later(self, seconds: float, action: Action) -> Timer:
        """Run the action after so many seconds."""

    def watch(self, sock: socket.socket, on_read: Action, on_write: Action) -> Watch:
        """Watch a non-blocking socket; no call is wanted at first."""

    def waiter(self) -> Waiter:
        """A waiter for the thread that asks."""

    def spawn(self, action: Action) -> None:
        """Run the action in a (green) thread."""


#: The loop of this process, once it is needed; a child process gets one of its own.
_loops: list[Loop] = []
os.register_at_fork(after_in_child=_loops.clear)


def raw_socket(sock: socket.socket) -> socket.socket:
    """The socket inside of a green one, or the socket itself, not blocking."""
    raw: socket.socket = getattr(sock, "fd", sock)
    raw.setblocking(False)
    return raw


def process_loop() -> Loop:
    """The loop of this process: of its main hub under eventlet, else a thread."""
    if not _loops:
        _loops.append(_new_loop())
    return _loops[0]


def _new_loop() -> Loop:
    if "eventlet" in sys.modules:
        from martlet.grid.hub_loop import HubLoop, is_patched

        if is_patched():
            return HubLoop()
    from martlet.grid.thread_loop import ThreadLoop

    return ThreadLoop()

# SPDX-License-Identifier: Apache-2.0
"""A stream as a thread sees it: read, write, end."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from martlet.grid.errors import Code, RequestError
from martlet.grid.loop import Loop, Waiter
from martlet.grid.streams import StreamOverError
from martlet.http.backend_client import BackendError, ConnectionLost, ReadTimeout

if TYPE_CHECKING:
    from martlet.grid.connection import GridConnection


class GridStream:
    """One stream. One thread may read while another one writes.

    :param is_own: whether this side opened it.
    """

    def __init__(
        self, connection: GridConnection, loop: Loop, number: int, *, is_own: bool
    ) -> None:
        self.is_own = is_own
        self._connection = connection
        self._loop = loop
        self._number = number
        self._received: deque[bytes] = deque()
        self._is_ended_by_peer = False
        self._error: BackendError | None = None
        self._reader: Waiter | None = None
        self._writer: Waiter | None = None

    def read(self, timeout: float | None = None) -> bytes:
        """The next data; empty at their end. They have at most 64 KiB.

        :param timeout: seconds to wait.
        :raises ReadTimeout: nothing came in time; the stream goes on.
        :raises BackendError: the stream has failed.
        """
        end_at = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._loop.lock:
                if self._received:
                    data = self._received.popleft()
                    self._connection.session.streams.consume(self._number, len(data))
                    self._connection.flush_soon()
                    return data
                if self._error is not None:
                    raise self._error
                if self._is_ended_by_peer:
                    return b""
                self._reader = self._reader or self._loop.waiter()
            self._wait(self._reader, end_at, timeout)

    def write(self, data: bytes, timeout: float | None = None) -> None:
        """Send data; waits until the peer has room for them.

        :param timeout: seconds to wait for room.
        :raises ReadTimeout: there was no room in time; a part may have been sent.
        :raises BackendError: the stream has failed, or the responder has ended it.
        """
        end_at = None if timeout is None else time.monotonic() + timeout
        rest = memoryview(data)
        while rest:
            with self._loop.lock:
                if self._error is not None:
                    raise self._error
                try:
                    sent = self._connection.session.streams.send_data(self._number, rest)
                except StreamOverError:
                    reason = "the stream has ended"
                    raise RequestError(self._connection.peer, Code.CANCELLED, reason) from None
                self._connection.flush_soon()
                rest = rest[sent:]
                if not rest:
                    return
                self._writer = self._writer or self._loop.waiter()
            self._wait(self._writer, end_at, timeout)

    def end(self) -> None:
        """Say that no more data follow. From the responder it ends the stream as a whole."""
        with self._loop.lock:
            self._connection.session.streams.end(self._number)
            if not self.is_own:
                self._connection.forget_stream(self._number)
            self._connection.flush_soon()

    def abort(self, code: Code = Code.CANCELLED, reason: str = "cancelled") -> None:
        """End the stream at once, unless it has ended; data that were not read are lost."""
        with self._loop.lock:
            self._received.clear()
            self._connection.session.streams.abort(self._number, code, reason)
            self._connection.forget_stream(self._number)
            self._error = self._error or RequestError(self._connection.peer, code, reason)
            self._connection.flush_soon()

    def _wait(self, waiter: Waiter, end_at: float | None, timeout: float | None) -> None:
        seconds = None if end_at is None else end_at - time.monotonic()
        if seconds is not None and seconds <= 0:
            raise ReadTimeout(self._connection.peer, f"the stream stood still for {timeout} s")
        waiter.wait(seconds)

    # --- calls of the connection ------------------------------------------------------------------

    def on_data(self, payload: bytes) -> list[Waiter]:
        """Data came; returns the waiters to wake, as the calls below."""
        self._received.append(payload)
        return [self._reader] if self._reader else []

    def on_writable(self) -> list[Waiter]:
        """There is room for more data."""
        return [self._writer] if self._writer else []

    def on_end(self) -> list[Waiter]:
        """The peer sends no more."""
        self._is_ended_by_peer = True
        return [waiter for waiter in (self._reader, self._writer) if waiter]

    def on_failed(self, code: int, reason: str, is_lost: bool) -> list[Waiter]:
        """The stream has ended at once."""
        peer = self._connection.peer
        if is_lost:
            self._error = ConnectionLost(peer, reason)
        elif code == Code.DEADLINE:
            self._error = ReadTimeout(peer, reason)
        else:
            self._error = RequestError(peer, code, reason)
        return [waiter for waiter in (self._reader, self._writer) if waiter]

# SPDX-License-Identifier: Apache-2.0
"""A connection of the grid: a socket, its WebSocket and its session.

All sends of one turn of the loop leave in one call of the system. Bytes that came are read and
acted on in a call of the loop; a waiting thread runs only when its last awaited answer is there.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from martlet.grid.errors import Code, LimitError
from martlet.grid.events import (
    Answered,
    Cancelled,
    Failed,
    PeerLeaves,
    Requested,
    StreamData,
    StreamEnded,
    StreamFailed,
    StreamOpened,
    StreamWritable,
)
from martlet.grid.frames import FrameError
from martlet.grid.loop import Loop, Timer, Waiter, raw_socket
from martlet.grid.session import Session
from martlet.grid.stream import GridStream
from martlet.grid.websocket import Channel
from martlet.http.backend_response import Address
from martlet.log import get_logger

_READ_BYTES = 256 * 1024
#: Deadlines that end within this time of each other end in one sweep, seconds.
_SWEEP_SECONDS = 0.02
#: With more answers to PINGs of RFC 6455 that wait, the peer is not read from.
_PONGS_MAX = 1000
#: How long the other side has to end an idle connection after GOAWAY, before this side does.
_LEAVE_SECONDS = 1.0

log = get_logger("martlet.grid")


class Pending(Protocol):
    """A request that waits for its end."""

    def finish(self, payload: bytes | None, code: int | None, reason: str) -> Waiter | None:
        """The request has ended; returns the waiter to be woken, if it waits for no more.

        Without a payload, ``code`` is that of the ERROR, None at the deadline, or ``LOST``.
        """


#: The code of a request whose connection ended.
LOST = -1


class Responder(Protocol):
    """The part of a server that takes requests of the peer. Its calls must not block."""

    def begin(self, connection: GridConnection, event: Requested) -> None:
        """Start the work of a request; ``connection.answer`` or ``fail`` ends it."""

    def begin_stream(
        self, connection: GridConnection, event: StreamOpened, stream: GridStream
    ) -> None:
        """Start the work of a stream; ``stream.finish`` or ``abort`` ends it."""

    def cancel(self, connection: GridConnection, number: int) -> None:
        """The peer no longer waits for this request."""


class GridConnection:
    """One connection after the handshake; ``start`` sets it going.

    :param peer: the address of the other side.
    :param on_end: called once, in a call of the loop; its text says why the connection ended, and
        is empty if the end was in order.
    """

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        channel: Channel,
        session: Session,
        peer: Address,
        responder: Responder | None,
        on_end: Callable[[GridConnection, str], None],
    ) -> None:
        self.peer = peer
        self.session = session
        #: Whether the connection has ended.
        self.is_over = False
        #: Whether the peer has broken a rule of the format.
        self.is_violated = False
        self._loop = loop
        self._owned_sock = sock
        self._sock = raw_socket(sock)
        self._channel = channel
        self._responder = responder
        self._on_end = on_end
        self._streams: dict[int, GridStream] = {}
        self._unsent = memoryview(b"")
        self._is_flush_due = False
        self._is_blocked = False  # the socket takes no more bytes now
        self._leave_timer: Timer | None = None
        self._is_leave_over = False  # the other side has had its time to end the connection
        self._watch = loop.watch(self._sock, self._on_readable, self._on_writable)
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._actions: dict[type, Callable[[Any, list[Waiter]], None]] = {
            Answered: self._on_answered,
            Failed: self._on_failed,
            Requested: self._on_requested,
            Cancelled: self._on_cancelled,
            StreamOpened: self._on_opened,
            StreamData: self._on_data,
            StreamWritable: self._on_stream_writable,
            StreamEnded: self._on_stream_ended,
            StreamFailed: self._on_stream_failed,
            PeerLeaves: self._on_peer_leaves,
        }

    @property
    def takes_requests(self) -> bool:
        """Whether the peer still accepts requests."""
        return not self.session.is_peer_leaving

    def start(self, messages: Iterable[bytes | bytearray] = ()) -> None:
        """Begin to read; ``messages`` came together with the end of the handshake."""
        with self._loop.lock:
            self._schedule_tick()
            self._watch.read(True)
            if messages:
                self._receive(messages)
            self._loop.soon(self._on_readable)  # bytes that TLS has read, which no wait would see
            self._flush_soon()

    # --- calls from any (green) thread ------------------------------------------------------------

    def request(
        self, name: str, payload: bytes, pending: Pending, deadline_at: float, is_resent: bool
    ) -> int:
        """Send a request; returns its number.

        :raises LimitError: the peer does not accept it, or the connection has ended.
        :raises ValueError: the name is too long.
        """
        with self._loop.lock:
            number = self.session.request(
                name, payload, pending, time.monotonic(), deadline_at, is_resent
            )
            if deadline_at < self._timer_at:
                self._schedule_tick()
            if not self._is_flush_due:
                self._flush_soon()
        return number

    def cancel(self, number: int) -> None:
        """Give a request up; its ``finish`` is not called."""
        with self._loop.lock:
            self.session.cancel(number)
            self._flush_soon()

    def open_stream(
        self, name: str, payload: bytes, deadline_at: float, is_resent: bool
    ) -> GridStream:
        """Open a stream.

        :raises LimitError: the peer does not accept it, or the connection has ended.
        :raises ValueError: the name is too long.
        """
        with self._loop.lock:
            number = self.session.open(name, payload, time.monotonic(), deadline_at, is_resent)
            self._streams[number] = stream = GridStream(self, self._loop, number, is_own=True)
            if deadline_at < self._timer_at:
                self._schedule_tick()
            self._flush_soon()
        return stream

    def answer(self, number: int, payload: bytes) -> None:
        """End a request of the peer."""
        with self._loop.lock:
            self.session.answer(number, payload)
            if not self._is_flush_due:
                self._flush_soon()

    def fail(self, number: int, code: Code, reason: str) -> None:
        """End a request of the peer with an error."""
        with self._loop.lock:
            self.session.fail(number, code, reason)
            self._flush_soon()

    def leave(self, reason: str) -> None:
        """Accept no more requests, and end the connection once nothing is in flight.

        The other side ends it, so that its requests under way get an answer. If it does not within
        a second, this side does.
        """
        with self._loop.lock:
            if not self.is_over:
                self.session.leave(reason)
                self._flush_soon()

    def close(self) -> None:
        """End the connection at once; what is in flight fails."""
        self._loop.soon(lambda: self._end(""))

    def forget_stream(self, number: int) -> None:
        """A stream that this side has ended."""
        self._streams.pop(number, None)

    def flush_soon(self) -> None:
        """Send in the next turn what a stream has queued."""
        with self._loop.lock:
            self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.soon(self._flush)

    # --- calls of the loop ------------------------------------------------------------------------

    def _flush(self) -> None:
        self._is_flush_due = False
        if self.is_over or self._is_blocked:
            return
        session, channel = self.session, self._channel
        while True:
            if not self._unsent:
                message = session.take_message()
                data = channel.take_bytes() if message is None else channel.wrap(message)
                if not data:
                    break
                self._unsent = memoryview(data)
            try:
                sent = self._sock.send(self._unsent)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError as error:
                self._end(f"connection lost while sending: {error.strerror or error}")
                return
            self._unsent = self._unsent[sent:]
            if self._unsent:
                self._is_blocked = True
                self._watch.write(True)
                break
        if self._must_stop_reading:
            self._watch.read(False)
        self._dispatch()  # of streams with new room, requests that may begin
        if session.is_leaving or session.is_peer_leaving:
            self._end_if_idle()

    def _end_if_idle(self) -> None:
        if not self._is_idle:
            return
        if self.session.is_peer_leaving or self._is_leave_over:
            self._end("")
        elif self._leave_timer is None:
            self._leave_timer = self._loop.later(_LEAVE_SECONDS, self._on_leave_over)

    def _on_leave_over(self) -> None:
        self._is_leave_over = True
        self._end_if_idle()

    @property
    def _is_idle(self) -> bool:
        return self.session.is_idle and not self._unsent and not self._streams

    def _on_writable(self) -> None:
        self._is_blocked = False
        self._watch.write(False)
        if self._must_stop_reading:
            self.session.note_progress(time.monotonic())
        self._flush()
        if not self.is_over and not self._must_stop_reading:
            self._watch.read(True)

    @property
    def _must_stop_reading(self) -> bool:
        return self.session.must_stop_reading or self._channel.pongs > _PONGS_MAX

    def _on_readable(self) -> None:
        if self.is_over or self._must_stop_reading:
            return
        try:
            data = self._sock.recv(_READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end(f"connection lost: {error.strerror or error}")
            return
        if not data:
            self._on_end_by_peer()
            return
        try:
            messages = self._channel.feed(data)
        except FrameError as error:
            self._violate(str(error))
            return
        self._receive(messages)

    def _receive(self, messages: Iterable[bytes | bytearray]) -> None:
        now = time.monotonic()
        try:
            for message in messages:
                self.session.receive(message, now)
        except FrameError as error:
            self._dispatch()  # what came before is good
            self._violate(str(error))
            return
        self._dispatch()
        if self._channel.is_closed_by_peer:
            self._on_end_by_peer()
            return
        if self._is_blocked and self._must_stop_reading:
            self._watch.read(False)  # until the peer takes what waits
        self._flush_soon()

    def _on_tick(self) -> None:
        self._timer = None
        self._on_readable()  # after a long pause of this process, bytes may wait that prove life
        if self.is_over:
            return
        try:
            self.session.tick(time.monotonic())
        except FrameError as error:
            self._end(str(error))
            return
        self._dispatch()
        self._schedule_tick()
        self._flush_soon()

    def _schedule_tick(self) -> None:
        if self.is_over:
            return
        now = time.monotonic()
        seconds = max(_SWEEP_SECONDS, self.session.wake_at - now)
        if self._timer is not None:
            if self._timer_at <= now + seconds:
                return  # one deadline after the other must not put it off
            self._timer.cancel()
        self._timer_at = now + seconds
        self._timer = self._loop.later(seconds, self._on_tick)

    # --- events -----------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        events = self.session.take_events()
        if not events:
            return
        ready: list[Waiter] = []
        actions = self._actions
        for event in events:
            actions[type(event)](event, ready)
        # Only now: a thread that runs may use this connection.
        for waiter in ready:
            waiter.wake()

    def _on_answered(self, event: Answered, ready: list[Waiter]) -> None:
        waiter = event.token.finish(event.payload, None, "")
        if waiter is not None:
            ready.append(waiter)

    def _on_failed(self, event: Failed, ready: list[Waiter]) -> None:
        waiter = event.token.finish(None, event.code, event.reason)
        if waiter is not None:
            ready.append(waiter)

    def _on_requested(self, event: Requested, ready: list[Waiter]) -> None:
        if self._responder is None:
            self.session.fail(event.number, Code.UNKNOWN_NAME, f"no handler of {event.name}")
        else:
            self._responder.begin(self, event)

    def _on_cancelled(self, event: Cancelled, ready: list[Waiter]) -> None:
        if self._responder is not None:
            self._responder.cancel(self, event.number)

    def _on_opened(self, event: StreamOpened, ready: list[Waiter]) -> None:
        if self._responder is None:
            reason = f"no handler of {event.name}"
            self.session.streams.abort(event.number, Code.UNKNOWN_NAME, reason)
            return
        stream = GridStream(self, self._loop, event.number, is_own=False)
        self._streams[event.number] = stream
        self._responder.begin_stream(self, event, stream)

    def _on_data(self, event: StreamData, ready: list[Waiter]) -> None:
        stream = self._streams.get(event.number)
        if stream is not None:
            ready += stream.on_data(event.payload)

    def _on_stream_writable(self, event: StreamWritable, ready: list[Waiter]) -> None:
        stream = self._streams.get(event.number)
        if stream is not None:
            ready += stream.on_writable()

    def _on_stream_ended(self, event: StreamEnded, ready: list[Waiter]) -> None:
        stream = self._streams.get(event.number)
        if stream is not None:
            ready += stream.on_end()
            if event.is_over:
                self.forget_stream(event.number)

    def _on_stream_failed(self, event: StreamFailed, ready: list[Waiter]) -> None:
        stream = self._streams.get(event.number)
        if stream is not None:
            ready += stream.on_failed(event.code, event.reason, is_lost=self.is_over)
            if stream.is_own:
                self.forget_stream(event.number)

    def _on_peer_leaves(self, event: PeerLeaves, ready: list[Waiter]) -> None:
        pass  # the session refuses new requests; the flush that follows ends an idle connection

    # --- the end ----------------------------------------------------------------------------------

    def _violate(self, reason: str) -> None:
        self.is_violated = True
        if not self._unsent:  # else it would be a part of a message
            try:
                self._sock.send(self._channel.close(reason))
            except OSError:
                pass  # the peer learns it from the end of the connection
        self._end(reason)

    def _on_end_by_peer(self) -> None:
        session = self.session
        is_in_order = (session.is_leaving or session.is_peer_leaving) and self._is_idle
        self._end("" if is_in_order else "the other side has closed the connection")

    def _end(self, reason: str) -> None:
        if self.is_over:
            return
        self.is_over = True
        self._watch.end()
        for timer in (self._timer, self._leave_timer):
            if timer is not None:
                timer.cancel()
        if not reason and not self._unsent:
            try:
                self._sock.send(self._channel.close())
            except OSError:
                pass  # it has ended already
        self._sock.close()
        self._owned_sock.close()
        ready: list[Waiter] = []
        for pending in self.session.abandon():
            waiter = pending.finish(None, LOST, reason or "the connection was closed")
            if waiter is not None:
                ready.append(waiter)
        self._dispatch()
        self._on_end(self, reason)
        for waiter in ready:
            waiter.wake()


__all__ = ["LOST", "GridConnection", "LimitError", "Pending", "Responder"]

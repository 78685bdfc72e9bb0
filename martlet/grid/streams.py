# SPDX-License-Identifier: Apache-2.0
"""The streams of a session: windows, ends, failures. No I/O.

A stream of the peer stays until this side calls ``end`` or ``abort``, even if the peer has
cancelled it. So the work for the peer is bounded by the limit of streams.
"""

from __future__ import annotations

import math

from martlet.grid.errors import Code
from martlet.grid.events import (
    Event,
    StreamData,
    StreamEnded,
    StreamFailed,
    StreamOpened,
    StreamWritable,
)
from martlet.grid.frames import (
    CANCEL,
    CREDIT,
    DATA,
    DATA_BYTES_MAX,
    END,
    ERROR,
    WINDOW_MAX,
    FrameError,
    encode,
    short_reason,
)
from martlet.grid.options import Options
from martlet.grid.outbox import STREAM_BYTES_MAX, Outbox


class StreamOverError(Exception):
    """The stream has ended; it takes no more data."""


class _Stream:
    __slots__ = (
        "consumed",
        "deadline_at",
        "has_received_end",
        "has_sent_end",
        "is_over",
        "is_own",
        "receive_window",
        "send_window",
    )

    def __init__(self, is_own: bool, send: int, receive: int, deadline_at: float) -> None:
        self.is_own = is_own
        self.send_window = send
        self.receive_window = receive
        self.deadline_at = deadline_at
        self.consumed = 0  # bytes for which no CREDIT has been sent
        self.has_sent_end = False
        self.has_received_end = False
        self.is_over = False  # but this side has not called end or abort


class Streams:
    """The streams of both sides of a session, by number."""

    def __init__(self, own: Options, peer: Options, outbox: Outbox, events: list[Event]) -> None:
        self._own = own
        self._peer = peer
        self._outbox = outbox
        self._events = events
        self._streams: dict[int, _Stream] = {}
        self._waiting: set[int] = set()
        #: Streams that this side opened.
        self.own_count = 0

    def __contains__(self, number: int) -> bool:
        return number in self._streams

    @property
    def count(self) -> int:
        """All streams."""
        return len(self._streams)

    @property
    def peer_count(self) -> int:
        """Streams that the peer opened."""
        return len(self._streams) - self.own_count

    # --- calls of this side -----------------------------------------------------------------------

    def send_data(self, number: int, data: bytes | memoryview) -> int:
        """Queue as much of the data as there is room for; returns the number of bytes.

        If that is not all, an event tells when to go on.

        :raises StreamOverError: the stream has ended.
        """
        stream = self._streams.get(number)
        if stream is None or stream.is_over or stream.has_sent_end:
            raise StreamOverError
        sent = 0
        while sent < len(data):
            room = min(stream.send_window, DATA_BYTES_MAX)
            if room <= 0 or self._outbox.queued_bytes >= STREAM_BYTES_MAX:
                self._waiting.add(number)
                break
            piece = data[sent : sent + room]
            self._outbox.add(encode(DATA, number, piece))
            stream.send_window -= len(piece)
            sent += len(piece)
        return sent

    def consume(self, number: int, size: int) -> None:
        """Note that received data have been used; the peer may send as much again."""
        stream = self._streams.get(number)
        if stream is None or stream.is_over or stream.has_received_end:
            return
        stream.consumed += size
        # One CREDIT for many DATA, but early enough that the peer need not wait.
        is_small = stream.receive_window < DATA_BYTES_MAX
        if is_small or stream.consumed * 2 >= self._own.window:
            stream.receive_window += stream.consumed
            self._outbox.add(encode(CREDIT, number, stream.consumed))
            stream.consumed = 0

    def end(self, number: int) -> None:
        """Send no more data. From the responder this ends the stream as a whole."""
        stream = self._streams.get(number)
        if stream is None or stream.has_sent_end:
            return
        if not stream.is_over:
            stream.has_sent_end = True
            self._outbox.add(encode(END, number))
        if not stream.is_own:
            self._remove(number)

    def abort(self, number: int, code: Code, reason: str) -> None:
        """End the stream at once, in both directions. No event follows."""
        stream = self._streams.get(number)
        if stream is None:
            return
        if not stream.is_over:
            if stream.is_own and code is Code.CANCELLED:
                self._outbox.add(encode(CANCEL, number))
            else:
                self._outbox.add(encode(ERROR, number, code, short_reason(reason)))
        self._remove(number)

    # --- calls of the session ---------------------------------------------------------------------

    def add(self, number: int, *, is_own: bool, window: int, deadline_at: float) -> None:
        """A new stream; ``window`` is what the peer accepts."""
        self._streams[number] = _Stream(is_own, window, self._own.window, deadline_at)
        self.own_count += is_own

    def accept(
        self,
        number: int,
        name: str,
        payload: bytes,
        window: int,
        deadline_at: float,
        is_resent: bool,
    ) -> None:
        """A stream that the peer opened."""
        self.add(number, is_own=False, window=window, deadline_at=deadline_at)
        self._events.append(StreamOpened(number, name, payload, deadline_at, is_resent))

    def on_data(self, number: int, payload: bytes) -> None:
        """
        :raises FrameError: the data exceed the window, or come after END.
        """
        stream = self._streams.get(number)
        if stream is None or stream.is_over:
            return
        if stream.has_received_end:
            raise FrameError("data came after the end of a stream")
        stream.receive_window -= len(payload)
        if stream.receive_window < 0:
            raise FrameError("the data of a stream exceed its window")
        if payload:
            self._events.append(StreamData(number, payload))

    def on_credit(self, number: int, size: int) -> None:
        """More room for data of this side.

        :raises FrameError: the window grows beyond what the format allows.
        """
        stream = self._streams.get(number)
        if stream is not None and not stream.is_over:
            stream.send_window += size
            if stream.send_window > WINDOW_MAX:
                raise FrameError("the window of a stream is too large")
            self.offer_room()

    def on_end(self, number: int) -> None:
        """
        :raises FrameError: it came twice.
        """
        stream = self._streams.get(number)
        if stream is None or stream.is_over:
            return
        if stream.has_received_end:
            raise FrameError("a stream ended twice")
        stream.has_received_end = True
        self._events.append(StreamEnded(number, stream.is_own))
        if stream.is_own:
            self._remove(number)

    def fail(self, number: int, code: int, reason: str) -> None:
        """The peer ended the stream, or its deadline passed."""
        stream = self._streams.get(number)
        if stream is None or stream.is_over:
            return
        stream.is_over = True
        self._waiting.discard(number)
        self._events.append(StreamFailed(number, code, reason))
        if stream.is_own:
            self._remove(number)

    def offer_room(self) -> None:
        """Tell the streams that waited for room and have it now."""
        if not self._waiting or self._outbox.queued_bytes >= STREAM_BYTES_MAX:
            return
        for number in sorted(self._waiting):
            if self._streams[number].send_window > 0:
                self._waiting.remove(number)
                self._events.append(StreamWritable(number))

    def expire(self, now: float) -> float:
        """End streams past their deadline; returns the earliest deadline of the others."""
        earliest = math.inf
        for number, stream in list(self._streams.items()):
            if stream.is_over:
                continue
            if stream.deadline_at <= now:
                self.fail(number, Code.DEADLINE, "the deadline has passed")
            else:
                earliest = min(earliest, stream.deadline_at)
        return earliest

    def abandon(self) -> None:
        """End all, as the connection ends."""
        for number in list(self._streams):
            self.fail(number, Code.CANCELLED, "the connection has ended")

    def _remove(self, number: int) -> None:
        stream = self._streams.pop(number)
        self._waiting.discard(number)
        self.own_count -= stream.is_own

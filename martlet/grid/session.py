# SPDX-License-Identifier: Apache-2.0
"""The state of a connection after the handshake: requests, limits, deadlines, liveness. No I/O.

Messages that came go into ``receive``; events come out of ``take_events``. Calls such as
``request`` and ``answer`` queue frames; ``take_message`` joins them to messages. ``tick`` acts on
the time. Times are those of one clock, in seconds.

A `FrameError` means that the connection must end: then ``abandon`` tells what was in flight.

The class is for one thread at a time. Both sides of a connection use it.
"""

from __future__ import annotations

import math
import zlib
from collections import deque
from collections.abc import Callable
from typing import Any

from martlet.grid.errors import Code, LimitError
from martlet.grid.events import Answered, Cancelled, Event, Failed, PeerLeaves, Requested
from martlet.grid.frames import (
    ANSWER,
    CANCEL,
    CHECKSUM_BYTES,
    CREDIT,
    DATA,
    END,
    ERROR,
    GOAWAY,
    MESSAGE_BYTES_MAX,
    NAME_BYTES_MAX,
    OPEN,
    PING,
    PONG,
    REQUEST,
    RESENT,
    Frame,
    FrameError,
    decode_message,
    encode,
    short_reason,
)
from martlet.grid.options import Options
from martlet.grid.outbox import ANSWER_BYTES_MAX, REFUSAL_BYTES_MAX, Outbox
from martlet.grid.streams import Streams

PING_SECONDS = 5.0
DEAD_SECONDS = 15.0

Buffer = bytes | bytearray | memoryview


class Session:
    """One side of a connection.

    :param own: the options that this side has sent.
    :param peer: the options of the other side.
    :param now: the present time.
    """

    def __init__(self, is_connector: bool, own: Options, peer: Options, now: float) -> None:
        self.own = own
        self.peer = peer
        #: Whether the peer accepts no more requests.
        self.is_peer_leaving = False
        #: Whether this side accepts no more requests.
        self.is_leaving = False
        self._has_checksum = own.checksum or peer.checksum
        self._outbox = Outbox(self._has_checksum)
        self._events: list[Event] = []
        self._received_at = now
        self._pinged_at = -math.inf
        self._pings = 0
        # Requests of this side: token, deadline, bytes of the payload.
        self._next_number = 1 if is_connector else 2
        self._sent: dict[int, tuple[Any, float, int]] = {}
        self._sent_bytes = 0
        # Requests of the peer: bytes of the payload, deadline.
        self._peer_parity = 0 if is_connector else 1
        self._peer_number = 0
        self._accepted: dict[int, tuple[int, float]] = {}
        self._accepted_bytes = 0
        self._cancelled: set[int] = set()
        self._held: deque[Requested] = deque()
        # No deadline in flight is earlier.
        self._deadline_at = math.inf
        #: The streams, for ``send_data``, ``consume``, ``end`` and ``abort``.
        self.streams = Streams(own, peer, self._outbox, self._events)
        self._receivers: dict[int, Callable[[Frame, float], None]] = {
            REQUEST: self._on_request,
            ANSWER: self._on_answer,
            ERROR: self._on_error,
            CANCEL: self._on_cancel,
            OPEN: self._on_open,
            DATA: self._on_data,
            CREDIT: self._on_credit,
            END: self._on_end,
            PING: self._on_ping,
            PONG: self._on_pong,
            GOAWAY: self._on_goaway,
        }

    # --- what both sides can see ------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in flight in either direction, and nothing waits to be sent."""
        return not (self._sent or self._accepted or self.streams.count or self._outbox.queued_bytes)

    @property
    def in_flight(self) -> int:
        """Requests of this side that have not ended."""
        return len(self._sent)

    @property
    def must_stop_reading(self) -> bool:
        """Whether the peer exceeds its limits, and takes not even the refusals."""
        return self._outbox.refusal_bytes > REFUSAL_BYTES_MAX

    @property
    def wake_at(self) -> float:
        """When ``tick`` has something to do."""
        return min(max(self._received_at, self._pinged_at) + PING_SECONDS, self._deadline_at)

    def take_events(self) -> list[Event]:
        """The events since the last call, in their order."""
        events = self._events[:]
        self._events.clear()
        return events

    def take_message(self) -> bytes | None:
        """The next message to send; None if there is none.

        The caller writes it to the connection before it takes another.
        """
        message = self._outbox.take_message()
        if self._held:
            self._begin_held()
        self.streams.offer_room()
        return message

    # --- requests of this side --------------------------------------------------------------------

    def request(
        self,
        name: str,
        payload: bytes,
        token: Any,
        now: float,
        deadline_at: float = math.inf,
        is_resent: bool = False,
    ) -> int:
        """Queue a request and return its number; its end is an event with the token.

        :param deadline_at: when this side gives up.
        :raises LimitError: the peer does not accept it; nothing is queued.
        :raises ValueError: the name is too long.
        """
        size = len(payload)
        peer = self.peer
        self._check_new(name, size)
        if len(self._sent) >= peer.max_requests:
            raise LimitError(Code.BUSY, f"{peer.max_requests} requests are in flight")
        if self._sent_bytes + size > peer.max_bytes:
            raise LimitError(Code.BUSY, f"requests in flight have {peer.max_bytes} bytes")
        # Requests that were given up wait to be sent, too, if the peer does not read.
        if self._outbox.queued_bytes > peer.max_bytes + MESSAGE_BYTES_MAX:
            raise LimitError(Code.BUSY, "the server takes no bytes")
        number = self._next_number
        self._next_number = number + 2
        self._sent[number] = (token, deadline_at, size)
        self._sent_bytes += size
        if deadline_at < self._deadline_at:
            self._deadline_at = deadline_at
        flags = RESENT if is_resent else 0
        left = _milliseconds(deadline_at - now)
        self._outbox.add(encode(REQUEST, number, name, left, flags, payload))
        return number

    def cancel(self, number: int) -> None:
        """Give a request up. No event follows; the peer is asked to end its work."""
        sent = self._sent.pop(number, None)
        if sent is not None:
            self._sent_bytes -= sent[2]
            self._outbox.add(encode(CANCEL, number))

    def open(
        self,
        name: str,
        payload: bytes,
        now: float,
        deadline_at: float = math.inf,
        is_resent: bool = False,
    ) -> int:
        """Queue the opening of a stream, and return its number.

        :raises LimitError: the peer does not accept it; nothing is queued.
        :raises ValueError: the name is too long.
        """
        self._check_new(name, len(payload))
        if self.streams.own_count >= self.peer.max_streams:
            raise LimitError(Code.BUSY, f"{self.peer.max_streams} streams are open")
        number = self._next_number
        self._next_number = number + 2
        self._deadline_at = min(self._deadline_at, deadline_at)
        self.streams.add(number, is_own=True, window=self.peer.window, deadline_at=deadline_at)
        flags = RESENT if is_resent else 0
        left = _milliseconds(deadline_at - now)
        self._outbox.add(encode(OPEN, number, name, left, flags, self.own.window, payload))
        return number

    def _check_new(self, name: str, size: int) -> None:
        if len(name) > NAME_BYTES_MAX // 4 and len(name.encode()) > NAME_BYTES_MAX:
            raise ValueError(f"the name of a request has more than {NAME_BYTES_MAX} bytes")
        if self.is_peer_leaving:
            raise LimitError(Code.GOING_AWAY, "the server accepts no more requests")
        if size > self.peer.max_payload:
            reason = f"{size} bytes are more than the server accepts, {self.peer.max_payload}"
            raise LimitError(Code.TOO_LARGE, reason)

    # --- requests of the peer ---------------------------------------------------------------------

    def answer(self, number: int, payload: bytes) -> None:
        """End a request of the peer with an answer, or with an error if the peer takes no such."""
        if len(payload) > self.peer.max_payload:
            limit = self.peer.max_payload
            reason = f"the answer has {len(payload)} bytes; {limit} are accepted"
            self.fail(number, Code.TOO_LARGE, reason)
            return
        size = self._end_accepted(number)
        if size is not None:
            self._outbox.add_answer(encode(ANSWER, number, payload), size)

    def fail(self, number: int, code: Code, reason: str) -> None:
        """End a request of the peer with an error."""
        size = self._end_accepted(number)
        if size is not None:
            self._outbox.add_answer(encode(ERROR, number, code, short_reason(reason)), size)

    def leave(self, reason: str) -> None:
        """Accept no more requests; those in flight go on."""
        if not self.is_leaving:
            self.is_leaving = True
            self._outbox.add(encode(GOAWAY, short_reason(reason)))

    def _end_accepted(self, number: int) -> int | None:
        """The bytes of the request's payload, or None if the peer does not wait for its end."""
        size, _ = self._accepted.pop(number)
        self._accepted_bytes -= size
        if number in self._cancelled:
            self._cancelled.remove(number)
            return None
        return size

    def _begin_held(self) -> None:
        held = self._held
        while held and self._outbox.answer_bytes <= ANSWER_BYTES_MAX:
            event = held.popleft()
            if event.number in self._cancelled:
                self._end_accepted(event.number)
            else:
                self._events.append(event)

    # --- time -------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """End what is past its deadline, and look after the peer's liveness.

        :raises FrameError: nothing has come for too long; the connection must end.
        """
        if now - max(self._received_at, self._pinged_at) >= PING_SECONDS:
            # A process that stood still itself asks once more.
            is_pinged = self._pinged_at > self._received_at
            if is_pinged and now - self._received_at >= DEAD_SECONDS:
                raise FrameError(f"nothing came for {DEAD_SECONDS:g} s")
            self._pings += 1
            self._pinged_at = now
            self._outbox.add(encode(PING, self._pings))
        if now >= self._deadline_at:
            self._expire(now)

    def note_progress(self, now: float) -> None:
        """The peer took some bytes while this side did not read: it is alive."""
        self._received_at = now

    def abandon(self) -> list[Any]:
        """End everything, as the connection ends; returns the tokens of this side's requests.

        Events tell the end of the peer's requests and of all streams.
        """
        tokens = [token for token, _, _ in self._sent.values()]
        self._sent.clear()
        self._sent_bytes = 0
        while self._held:
            self._end_accepted(self._held.popleft().number)
        for number in self._accepted:
            if number not in self._cancelled:
                self._cancelled.add(number)
                self._events.append(Cancelled(number))
        self.streams.abandon()
        self.is_leaving = self.is_peer_leaving = True
        return tokens

    def _expire(self, now: float) -> None:
        earliest = math.inf
        for number, (token, deadline_at, size) in list(self._sent.items()):
            if deadline_at <= now:
                del self._sent[number]
                self._sent_bytes -= size
                self._events.append(Failed(token, None, "no answer before the deadline"))
            else:
                earliest = min(earliest, deadline_at)
        for number, (_, deadline_at) in self._accepted.items():
            if number in self._cancelled:
                continue
            if deadline_at <= now:
                self._cancelled.add(number)
                self._events.append(Cancelled(number))
            else:
                earliest = min(earliest, deadline_at)
        self._deadline_at = min(earliest, self.streams.expire(now))

    # --- messages of the peer ---------------------------------------------------------------------

    def receive(self, message: Buffer, now: float) -> None:
        """Act on a message; events tell what came.

        :raises FrameError: the peer sent what the format does not allow.
        """
        self._received_at = now
        if len(message) > MESSAGE_BYTES_MAX:
            raise FrameError(f"a message has more than {MESSAGE_BYTES_MAX} bytes")
        if self._has_checksum:
            view = memoryview(message)
            if len(view) < CHECKSUM_BYTES:
                raise FrameError("a message has no checksum")
            message = view[:-CHECKSUM_BYTES]
            if zlib.crc32(message) != int.from_bytes(view[-CHECKSUM_BYTES:], "big"):
                raise FrameError("the checksum of a message is wrong")
        receivers = self._receivers
        for frame in decode_message(message):
            receiver = receivers.get(frame[0])
            if receiver is None:
                raise FrameError("a frame of the handshake came after it")
            receiver(frame, now)

    def _check_number(self, number: int) -> None:
        if number & 1 != self._peer_parity:
            raise FrameError("the id of a request belongs to the other side")
        if number <= self._peer_number:
            raise FrameError("the id of a request is not greater than the ones before")
        self._peer_number = number

    def _is_own(self, number: int) -> bool:
        """Whether this side chose the id.

        :raises FrameError: no request ever had it.
        """
        is_own = number & 1 != self._peer_parity
        if not number or (number >= self._next_number if is_own else number > self._peer_number):
            raise FrameError("a frame names an id that was never used")
        return is_own

    def _on_request(self, frame: Frame, now: float) -> None:
        _, number, name, deadline, flags, payload = frame
        self._check_number(number)
        size = len(payload)
        own, outbox = self.own, self._outbox
        if self.is_leaving:
            self._refuse(number, Code.GOING_AWAY, "the server accepts no more requests")
        elif size > own.max_payload:
            self._refuse(number, Code.TOO_LARGE, f"a payload has at most {own.max_payload} bytes")
        elif (
            len(self._accepted) + outbox.unwritten >= own.max_requests
            or self._accepted_bytes + outbox.unwritten_bytes + size > own.max_bytes
        ):
            self._refuse(number, Code.BUSY, "too many requests are in flight")
        else:
            deadline_at = now + deadline / 1000 if deadline else math.inf
            if deadline_at < self._deadline_at:
                self._deadline_at = deadline_at
            self._accepted[number] = (size, deadline_at)
            self._accepted_bytes += size
            event = Requested(number, name, payload, deadline_at, bool(flags & RESENT))
            if self._held or outbox.answer_bytes > ANSWER_BYTES_MAX:
                self._held.append(event)
            else:
                self._events.append(event)

    def _on_open(self, frame: Frame, now: float) -> None:
        _, number, name, deadline, flags, window, payload = frame
        self._check_number(number)
        own = self.own
        if self.is_leaving:
            self._refuse(number, Code.GOING_AWAY, "the server accepts no more streams")
        elif len(payload) > own.max_payload:
            self._refuse(number, Code.TOO_LARGE, f"a payload has at most {own.max_payload} bytes")
        elif self.streams.peer_count >= own.max_streams:
            self._refuse(number, Code.BUSY, "too many streams are open")
        else:
            deadline_at = now + deadline / 1000 if deadline else math.inf
            self._deadline_at = min(self._deadline_at, deadline_at)
            self.streams.accept(number, name, payload, window, deadline_at, bool(flags & RESENT))

    def _refuse(self, number: int, code: Code, reason: str) -> None:
        self._outbox.add_refusal(encode(ERROR, number, code, reason))

    def _on_answer(self, frame: Frame, now: float) -> None:
        _, number, payload = frame
        sent = self._sent.pop(number, None)
        if sent is None:
            if not self._is_own(number) or number in self.streams:
                raise FrameError("an answer came for what is no request")
            return  # it was cancelled
        self._sent_bytes -= sent[2]
        self._events.append(Answered(sent[0], payload))

    def _on_error(self, frame: Frame, now: float) -> None:
        _, number, code, reason = frame
        sent = self._sent.pop(number, None)
        if sent is not None:
            self._sent_bytes -= sent[2]
            self._events.append(Failed(sent[0], code, reason))
        elif not self._is_own(number) and number in self._accepted:
            raise FrameError("an error came for a request of its sender")
        else:
            self.streams.fail(number, code, reason)

    def _on_cancel(self, frame: Frame, now: float) -> None:
        number = frame[1]
        if self._is_own(number):
            raise FrameError("CANCEL came from the side that answers")
        if number in self._accepted and number not in self._cancelled:
            self._cancelled.add(number)
            self._events.append(Cancelled(number))
        else:
            self.streams.fail(number, Code.CANCELLED, "the other side cancelled the stream")

    def _on_data(self, frame: Frame, now: float) -> None:
        self._check_is_stream(frame[1])
        self.streams.on_data(frame[1], frame[2])

    def _on_credit(self, frame: Frame, now: float) -> None:
        self._check_is_stream(frame[1])
        self.streams.on_credit(frame[1], frame[2])

    def _on_end(self, frame: Frame, now: float) -> None:
        self._check_is_stream(frame[1])
        self.streams.on_end(frame[1])

    def _check_is_stream(self, number: int) -> None:
        self._is_own(number)
        if number in self._sent or number in self._accepted:
            raise FrameError("a frame of a stream names a request")

    def _on_ping(self, frame: Frame, now: float) -> None:
        self._outbox.add_refusal(encode(PONG, frame[1]))

    def _on_pong(self, frame: Frame, now: float) -> None:
        pass  # that it came is all that counts

    def _on_goaway(self, frame: Frame, now: float) -> None:
        if not self.is_peer_leaving:
            self.is_peer_leaving = True
            self._events.append(PeerLeaves(frame[1]))


def _milliseconds(seconds: float) -> int:
    """The time left, for the wire: 0 is no limit, so what has passed is 1."""
    return 0 if seconds == math.inf else max(1, int(seconds * 1000))

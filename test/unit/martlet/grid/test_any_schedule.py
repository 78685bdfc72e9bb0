"""Two sessions under any schedule: requests end once, with their own answer, within the limits."""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

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
from martlet.grid.options import Options
from martlet.grid.session import Session
from martlet.grid.streams import StreamOverError

OPTIONS = Options(
    max_payload=400, max_requests=3, max_bytes=900, max_streams=2, window=100, checksum=True
)
SIZES = st.sampled_from([0, 1, 10, 60, 250, 400, 401])


def answer_to(payload: bytes) -> bytes:
    return hashlib.sha256(payload).digest()


@dataclass
class Side:
    """A session, and what its user knows."""

    session: Session
    inbox: deque[bytes] = field(default_factory=deque)
    #: Requests by token: the payload; those that have ended, and how.
    sent: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    ended: dict[int, Any] = field(default_factory=dict)
    given_up: set[int] = field(default_factory=set)
    work: dict[int, Requested] = field(default_factory=dict)
    #: Streams by number: bytes written and read here, not yet consumed, who ended.
    written: dict[int, bytes] = field(default_factory=dict)
    read: dict[int, bytes] = field(default_factory=dict)
    unconsumed: dict[int, int] = field(default_factory=dict)
    open_streams: set[int] = field(default_factory=set)

    def take_events(self) -> None:
        for event in self.session.take_events():
            self.on(event)

    def on(self, event: object) -> None:
        match event:
            case Answered() | Failed():
                assert event.token not in self.ended
                assert event.token not in self.given_up
                self.ended[event.token] = event
                if isinstance(event, Answered):
                    assert event.payload == answer_to(self.sent[event.token][1])
            case Requested():
                assert event.number not in self.work
                self.work[event.number] = event
            case Cancelled():
                assert event.number in self.work or self.session.is_leaving
            case StreamOpened(number=number):
                self.begin(number)
            case StreamData():
                self.read[event.number] += event.payload
                self.unconsumed[event.number] += len(event.payload)
                assert self.unconsumed[event.number] <= OPTIONS.window
            case StreamEnded(number=number, is_over=is_over):
                if is_over:
                    self.open_streams.discard(number)
            case StreamFailed(number=number):
                if number & 1 == self.parity:
                    self.open_streams.discard(number)
            case StreamWritable():
                assert event.number in self.open_streams
            case _:
                assert isinstance(event, PeerLeaves)

    @property
    def parity(self) -> int:
        return self.session._next_number & 1

    def begin(self, number: int) -> None:
        self.open_streams.add(number)
        self.written[number] = self.read[number] = b""
        self.unconsumed[number] = 0


class AnySchedule(RuleBasedStateMachine):
    """Both users do what they like; messages arrive late, or the connection is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.tokens = 0
        self.steps = 0
        self.is_lost = False
        self.has_given_up = False
        self.sides = [
            Side(Session(is_connector, OPTIONS, OPTIONS, self.now))
            for is_connector in (True, False)
        ]

    def side(self, index: int) -> Side:
        return self.sides[index]

    def send_all(self, side: Side) -> None:
        other = self.sides[1 - self.sides.index(side)]
        while message := side.session.take_message():
            other.inbox.append(message)
        side.take_events()

    @rule(index=st.integers(0, 1), size=SIZES, seconds=st.sampled_from([0.5, 3.0, 1e9]))
    def request(self, index: int, size: int, seconds: float) -> None:
        side = self.side(index)
        self.tokens += 1
        payload = (b"%d:" % self.tokens).ljust(size, b"x")
        deadline_at = self.now + seconds
        try:
            number = side.session.request("n", payload, self.tokens, self.now, deadline_at)
        except LimitError:
            in_flight = side.session.in_flight
            is_full = in_flight == OPTIONS.max_requests or in_flight * 400 + len(payload) > 900
            assert is_full or len(payload) > OPTIONS.max_payload or side.session.is_peer_leaving
            return
        side.sent[self.tokens] = (number, payload)

    @precondition(lambda self: not self.is_lost)
    @rule(index=st.integers(0, 1), data=st.data())
    def give_up(self, index: int, data: st.DataObject) -> None:
        side = self.side(index)
        pending = sorted(side.sent.keys() - side.ended.keys() - side.given_up)
        if pending:
            token = data.draw(st.sampled_from(pending))
            side.session.cancel(side.sent[token][0])
            side.given_up.add(token)
            self.has_given_up = True

    @rule(index=st.integers(0, 1), is_good=st.booleans(), data=st.data())
    def end_work(self, index: int, is_good: bool, data: st.DataObject) -> None:
        side = self.side(index)
        if side.work:
            event = side.work.pop(data.draw(st.sampled_from(sorted(side.work))))
            if is_good:
                side.session.answer(event.number, answer_to(event.payload))
            else:
                side.session.fail(event.number, Code.FAILED, "no")

    @precondition(lambda self: not self.is_lost)
    @rule(index=st.integers(0, 1))
    def send(self, index: int) -> None:
        self.send_all(self.side(index))

    @precondition(lambda self: not self.is_lost)
    @rule(index=st.integers(0, 1))
    def deliver(self, index: int) -> None:
        side = self.side(index)
        if side.inbox:
            side.session.receive(side.inbox.popleft(), self.now)
            side.take_events()

    @precondition(lambda self: not self.is_lost)
    @rule(index=st.integers(0, 1))
    def carry(self, index: int) -> None:
        """Everything that one side has queued arrives."""
        self.send_all(self.side(index))
        side = self.side(1 - index)
        while side.inbox:
            side.session.receive(side.inbox.popleft(), self.now)
            side.take_events()

    @precondition(lambda self: not self.is_lost)
    @rule(seconds=st.sampled_from([0.1, 1.0, 4.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        for side in self.sides:
            side.session.note_progress(self.now)  # silence is another test's
            side.session.tick(self.now)
            side.take_events()

    @precondition(lambda self: not self.is_lost)
    @rule(index=st.integers(0, 1))
    def open_stream(self, index: int) -> None:
        side = self.side(index)
        try:
            side.begin(side.session.open("s", b"", self.now))
        except LimitError:
            assert side.session.streams.own_count == 2 or side.session.is_peer_leaving

    @precondition(lambda self: not self.is_lost)
    @rule(index=st.integers(0, 1), size=SIZES, data=st.data())
    def write(self, index: int, size: int, data: st.DataObject) -> None:
        side = self.side(index)
        if side.open_streams:
            number = data.draw(st.sampled_from(sorted(side.open_streams)))
            start = len(side.written[number])
            piece = bytes((start + i) % 251 for i in range(size))
            try:
                sent = side.session.streams.send_data(number, piece)
            except StreamOverError:
                return
            side.written[number] += piece[:sent]

    @precondition(lambda self: not self.is_lost)
    @rule(index=st.integers(0, 1), data=st.data())
    def consume(self, index: int, data: st.DataObject) -> None:
        side = self.side(index)
        waiting = sorted(number for number, size in side.unconsumed.items() if size)
        if waiting:
            number = data.draw(st.sampled_from(waiting))
            side.session.streams.consume(number, side.unconsumed[number])
            side.unconsumed[number] = 0

    @precondition(lambda self: not self.is_lost)
    @rule(index=st.integers(0, 1), is_good=st.booleans(), data=st.data())
    def end_stream(self, index: int, is_good: bool, data: st.DataObject) -> None:
        side = self.side(index)
        if side.open_streams:
            number = data.draw(st.sampled_from(sorted(side.open_streams)))
            if is_good:
                side.session.streams.end(number)
            else:
                side.session.streams.abort(number, Code.CANCELLED, "")
            if not is_good or number & 1 != side.parity:
                side.open_streams.discard(number)

    @precondition(lambda self: not self.is_lost and self.steps > 40)
    @rule(index=st.integers(0, 1))
    def leave(self, index: int) -> None:
        self.side(index).session.leave("stops")

    @precondition(lambda self: not self.is_lost and self.steps > 60)
    @rule()
    def lose_the_connection(self) -> None:
        self.is_lost = True
        for side in self.sides:
            for token in side.session.abandon():
                assert token not in side.ended
                side.ended[token] = "lost"
            side.take_events()

    @invariant()
    def limits_hold(self) -> None:
        self.steps += 1
        for side in self.sides:
            session = side.session
            assert len(session._accepted) <= OPTIONS.max_requests
            assert session._accepted_bytes <= OPTIONS.max_bytes
            assert sum(size for size, _ in session._accepted.values()) == session._accepted_bytes
            assert session.streams.peer_count <= OPTIONS.max_streams
            assert session._cancelled <= session._accepted.keys()
            assert session._outbox.queued_bytes < 10_000 + 1_000 * self.tokens

    @invariant()
    def only_who_gave_up_is_told_busy(self) -> None:
        if self.has_given_up or self.now:
            return
        for side in self.sides:
            codes = [end.code for end in side.ended.values() if isinstance(end, Failed)]
            assert Code.BUSY not in codes

    @invariant()
    def streams_carry_their_own_bytes(self) -> None:
        for side, other in (self.sides, reversed(self.sides)):
            for number, got in side.read.items():
                assert other.written.get(number, b"").startswith(got)

    def teardown(self) -> None:
        if not self.is_lost:
            self.finish_everything()
        for side in self.sides:
            ends = side.ended.keys()
            assert ends | side.given_up == side.sent.keys()
            assert not ends & side.given_up
            assert side.session.in_flight == 0
            assert side.session._sent_bytes == 0

    def finish_everything(self) -> None:
        """Answer all and deliver all; then nothing may be left in flight."""
        for _ in range(4):
            for side in self.sides:
                for event in [*side.work.values()]:
                    side.session.answer(event.number, answer_to(event.payload))
                side.work.clear()
                for number in sorted(side.open_streams):
                    side.session.streams.abort(number, Code.CANCELLED, "")
                side.open_streams.clear()
                self.send_all(side)
            for side in self.sides:
                while side.inbox:
                    side.session.receive(side.inbox.popleft(), self.now)
                    side.take_events()
        for side in self.sides:
            assert side.session.is_idle
            assert side.session._accepted_bytes == 0
            assert side.session._outbox.unwritten == 0


TestAnySchedule = AnySchedule.TestCase
TestAnySchedule.settings = settings(max_examples=100, stateful_step_count=80, deadline=None)

"""Streams of a session: windows, credit, ends, failures. No sockets, no clock."""

from __future__ import annotations

import math

import pytest

from martlet.grid import frames
from martlet.grid.errors import Code, LimitError
from martlet.grid.events import (
    Event,
    StreamData,
    StreamEnded,
    StreamFailed,
    StreamOpened,
    StreamWritable,
)
from martlet.grid.frames import WINDOW_MAX, FrameError, decode_message, encode
from martlet.grid.options import Options
from martlet.grid.outbox import STREAM_BYTES_MAX
from martlet.grid.session import Session
from martlet.grid.streams import StreamOverError


class Pair:
    """A connector with one open stream, and an acceptor."""

    def __init__(self, connector: Options | None = None, acceptor: Options | None = None) -> None:
        ours, theirs = connector or Options(), acceptor or Options()
        self.connector = Session(True, ours, theirs, 0.0)
        self.acceptor = Session(False, theirs, ours, 0.0)
        self.number = self.connector.open("s", b"first", 0.0, is_resent=True)
        opened = StreamOpened(self.number, "s", b"first", math.inf, True)
        assert self.to_acceptor() == [opened]

    def to_acceptor(self) -> list[Event]:
        return deliver(self.connector, self.acceptor)

    def to_connector(self) -> list[Event]:
        return deliver(self.acceptor, self.connector)


def deliver(sender: Session, receiver: Session) -> list[Event]:
    while message := sender.take_message():
        receiver.receive(message, 0.0)
    return receiver.take_events()


def test_data_in_both_directions_and_the_end() -> None:
    pair = Pair()
    number = pair.number
    assert pair.connector.streams.send_data(number, b"question") == 8
    pair.connector.streams.end(number)
    assert pair.to_acceptor() == [StreamData(number, b"question"), StreamEnded(number, False)]
    assert pair.acceptor.streams.send_data(number, b"answer") == 6
    pair.acceptor.streams.end(number)
    assert pair.to_connector() == [StreamData(number, b"answer"), StreamEnded(number, True)]
    for session in (pair.connector, pair.acceptor):
        assert session.is_idle
        with pytest.raises(StreamOverError):
            session.streams.send_data(number, b"more")


def test_the_window_bounds_what_is_sent() -> None:
    pair = Pair(acceptor=Options(window=100_000))
    number = pair.number
    assert pair.connector.streams.send_data(number, bytes(150_000)) == 100_000
    events = pair.to_acceptor()
    sizes = [len(event.payload) for event in events if isinstance(event, StreamData)]
    assert sizes == [frames.DATA_BYTES_MAX, 100_000 - frames.DATA_BYTES_MAX]
    assert pair.to_connector() == []
    pair.acceptor.streams.consume(number, sizes[0])
    assert pair.to_connector() == [StreamWritable(number)]
    assert pair.connector.streams.send_data(number, bytes(150_000)) == sizes[0]


def test_credit_comes_for_many_data_at_once_but_before_the_window_is_small() -> None:
    pair = Pair(acceptor=Options(window=1 << 20))
    number = pair.number
    for _ in range(20):
        pair.connector.streams.send_data(number, bytes(30_000))
        pair.to_acceptor()
        pair.acceptor.streams.consume(number, 30_000)
    credits = []
    while message := pair.acceptor.take_message():
        credits += [frame[2] for frame in decode_message(message)]
    assert credits == [18 * 30_000]
    pair = Pair(acceptor=Options(window=100_000))
    pair.connector.streams.send_data(number, bytes(40_000))
    pair.to_acceptor()
    pair.acceptor.streams.consume(number, 40_000)
    pair.to_connector()
    assert pair.connector.streams.send_data(number, bytes(100_000)) == 100_000


def test_credit_beyond_the_largest_window_ends_the_connection() -> None:
    pair = Pair(acceptor=Options(window=7))
    pair.connector.receive(encode(frames.CREDIT, pair.number, WINDOW_MAX - 7), 0.0)
    with pytest.raises(FrameError, match="window"):
        pair.connector.receive(encode(frames.CREDIT, pair.number, 1), 0.0)


def test_streams_add_no_data_to_a_long_queue() -> None:
    pair = Pair(acceptor=Options(window=1 << 30))
    sent = pair.connector.streams.send_data(pair.number, bytes(4 << 20))
    assert STREAM_BYTES_MAX <= sent <= STREAM_BYTES_MAX + frames.DATA_BYTES_MAX
    assert pair.connector.take_events() == []
    assert pair.connector.take_message()
    assert pair.connector.take_events() == [StreamWritable(pair.number)]


def test_the_end_of_the_responder_ends_the_stream() -> None:
    pair = Pair()
    number = pair.number
    pair.acceptor.streams.end(number)
    pair.connector.streams.send_data(number, b"crossing")
    assert pair.to_acceptor() == []
    assert pair.to_connector() == [StreamEnded(number, True)]
    with pytest.raises(StreamOverError):
        pair.connector.streams.send_data(number, b"more")
    pair.connector.streams.end(number)
    assert pair.to_acceptor() == []


def test_both_sides_can_end_a_stream_at_once() -> None:
    pair = Pair()
    number = pair.number
    pair.acceptor.streams.abort(number, Code.FAILED, "no more")
    assert pair.to_connector() == [StreamFailed(number, Code.FAILED, "no more")]
    pair = Pair()
    pair.connector.streams.abort(number, Code.CANCELLED, "")
    [failed] = pair.to_acceptor()
    assert isinstance(failed, StreamFailed)
    assert failed.code == Code.CANCELLED
    with pytest.raises(StreamOverError):
        pair.acceptor.streams.send_data(number, b"x")
    pair = Pair()
    pair.connector.streams.abort(number, Code.BAD_PAYLOAD, "odd data")
    assert pair.to_acceptor() == [StreamFailed(number, Code.BAD_PAYLOAD, "odd data")]


def test_a_cancelled_stream_counts_until_its_work_ends() -> None:
    pair = Pair(acceptor=Options(max_streams=1))
    pair.connector.streams.abort(pair.number, Code.CANCELLED, "")
    pair.to_acceptor()
    second = pair.connector.open("s", b"", 0.0)
    with pytest.raises(LimitError):
        pair.connector.open("s", b"", 0.0)
    assert pair.to_acceptor() == []
    [refused] = pair.to_connector()
    assert isinstance(refused, StreamFailed)
    assert (refused.number, refused.code) == (second, Code.BUSY)
    pair.acceptor.streams.end(pair.number)
    pair.connector.open("s", b"", 0.0)
    assert [type(event) for event in pair.to_acceptor()] == [StreamOpened]


def test_a_deadline_ends_the_stream_on_both_sides() -> None:
    pair = Pair()
    second = pair.connector.open("s", b"", 0.0, deadline_at=3.0)
    pair.to_acceptor()
    assert pair.connector.wake_at == 3.0
    for session in (pair.connector, pair.acceptor):
        session.tick(2.9)
        assert session.take_events() == []
        session.tick(3.0)
        reason = "the deadline has passed"
        assert session.take_events() == [StreamFailed(second, Code.DEADLINE, reason)]
    pair.acceptor.streams.abort(second, Code.DEADLINE, "")
    assert pair.to_connector() == []


def test_empty_data_are_ignored() -> None:
    pair = Pair(acceptor=Options(window=0))
    assert deliver_raw(pair.acceptor, encode(frames.DATA, pair.number, b"")) == []


def deliver_raw(session: Session, raw: bytes) -> list[Event]:
    session.receive(raw, 0.0)
    return session.take_events()

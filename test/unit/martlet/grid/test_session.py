"""The session: limits, deadlines, liveness, and what a peer must not do. No sockets, no clock."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from martlet.grid import frames
from martlet.grid.errors import Code, LimitError
from martlet.grid.events import Answered, Cancelled, Event, Failed, PeerLeaves, Requested
from martlet.grid.frames import Frame, FrameError, decode_message, encode
from martlet.grid.options import Options
from martlet.grid.outbox import ANSWER_BYTES_MAX, REFUSAL_BYTES_MAX
from martlet.grid.session import Session


class Pair:
    """A connector and an acceptor; ``pass_on`` delivers what both have queued."""

    def __init__(self, connector: Options | None = None, acceptor: Options | None = None) -> None:
        ours, theirs = connector or Options(), acceptor or Options()
        self.now = 0.0
        self.connector = Session(True, ours, theirs, self.now)
        self.acceptor = Session(False, theirs, ours, self.now)

    def pass_on(self) -> tuple[list[Event], list[Event]]:
        """The events of the connector, and of the acceptor."""
        is_done = False
        while not is_done:
            is_done = True
            for one, other in (
                (self.connector, self.acceptor),
                (self.acceptor, self.connector),
            ):
                while message := one.take_message():
                    other.receive(message, self.now)
                    is_done = False
        return self.connector.take_events(), self.acceptor.take_events()


def received(session: Session, *frames_of_peer: bytes) -> list[Event]:
    session.receive(b"".join(frames_of_peer), 0.0)
    return session.take_events()


def queued(session: Session) -> list[Frame]:
    taken: list[Frame] = []
    while message := session.take_message():
        taken += decode_message(message)
    return taken


def acceptor(**options: Any) -> Session:
    return Session(False, Options(**options), Options(), 0.0)


def request(number: int, payload: bytes = b"", deadline: int = 0) -> bytes:
    return encode(frames.REQUEST, number, "n", deadline, 0, payload)


def test_requests_in_both_directions_and_answers_in_any_order() -> None:
    pair = Pair()
    numbers = [pair.connector.request("a", b"%d" % i, i, 0.0, is_resent=i == 1) for i in range(3)]
    assert numbers == [1, 3, 5]
    assert pair.acceptor.request("b", b"x", "token", 0.0) == 2
    ours, theirs = pair.pass_on()
    assert ours == [Requested(2, "b", b"x", math.inf, False)]
    assert theirs == [Requested(2 * i + 1, "a", b"%d" % i, math.inf, i == 1) for i in range(3)]
    pair.acceptor.answer(5, b"five")
    pair.acceptor.fail(1, Code.BAD_PAYLOAD, "bad")
    pair.connector.answer(2, b"two")
    pair.acceptor.answer(3, b"three")
    ours, theirs = pair.pass_on()
    assert ours == [Answered(2, b"five"), Failed(0, Code.BAD_PAYLOAD, "bad"), Answered(1, b"three")]
    assert theirs == [Answered("token", b"two")]
    assert pair.connector.is_idle
    assert pair.acceptor.is_idle


def test_a_requester_keeps_the_limits_of_its_peer() -> None:
    pair = Pair(acceptor=Options(max_payload=10, max_requests=2, max_bytes=15))
    session = pair.connector

    def code_of(payload: bytes) -> Code:
        with pytest.raises(LimitError) as caught:
            session.request("n", payload, None, 0.0)
        return caught.value.code

    assert code_of(bytes(11)) is Code.TOO_LARGE
    first = session.request("n", bytes(10), None, 0.0)
    assert code_of(bytes(6)) is Code.BUSY
    session.request("n", bytes(5), None, 0.0)
    assert code_of(b"") is Code.BUSY
    session.cancel(first)
    session.request("n", bytes(10), None, 0.0)
    with pytest.raises(ValueError, match="64 bytes"):
        session.request("ä" * 33, b"", None, 0.0)


def test_requests_that_were_given_up_wait_for_a_stalled_peer_within_its_limits() -> None:
    session = Session(True, Options(), Options(max_bytes=1 << 20), 0.0)
    payload = bytes(1 << 20)
    for turn in range(5):
        session.request("n", payload, turn, turn / 10, turn / 10 + 0.05)
        session.tick(turn / 10 + 0.09)
        assert session.in_flight == 0
    with pytest.raises(LimitError) as caught:
        session.request("n", payload, "refused", 0.5)
    assert caught.value.code is Code.BUSY
    assert len(queued(session)) == 5
    session.request("n", payload, "after", 0.5)


def test_a_responder_refuses_beyond_its_limits_without_ending_the_connection() -> None:
    session = acceptor(max_payload=10, max_requests=2, max_bytes=15, max_streams=1)
    opening = encode(frames.OPEN, 9, "s", 0, 0, 5, b"")
    events = received(
        session,
        request(1, bytes(11)),
        request(3, bytes(10)),
        request(5, bytes(6)),
        request(7),
        opening,
        request(11),
        encode(frames.OPEN, 13, "s", 0, 0, 5, b""),
        encode(frames.OPEN, 15, "s", 0, 0, 5, bytes(11)),
    )
    assert [event.number for event in events] == [3, 7, 9]  # type: ignore[union-attr]
    assert [frame[1:3] for frame in queued(session)] == [
        [1, Code.TOO_LARGE],
        [5, Code.BUSY],
        [11, Code.BUSY],
        [13, Code.BUSY],
        [15, Code.TOO_LARGE],
    ]


def test_a_request_is_in_flight_until_its_answer_is_taken() -> None:
    session = acceptor(max_requests=1)
    received(session, request(1))
    session.answer(1, b"")
    assert received(session, request(3)) == []
    assert [frame[0] for frame in queued(session)] == [frames.ANSWER, frames.ERROR]
    assert len(received(session, request(5))) == 1


def test_a_cancelled_request_is_in_flight_until_its_work_ends() -> None:
    session = acceptor(max_requests=1)
    events = received(session, request(1), encode(frames.CANCEL, 1), encode(frames.CANCEL, 1))
    assert events[1:] == [Cancelled(1)]
    assert received(session, request(3)) == []
    session.answer(1, b"late")
    assert [frame[:3] for frame in queued(session)] == [[frames.ERROR, 3, Code.BUSY]]
    assert len(received(session, request(5))) == 1


def test_requests_wait_while_their_peer_takes_no_answers() -> None:
    session = acceptor(max_payload=frames.PAYLOAD_BYTES_MAX)
    session.peer = Options(max_payload=frames.PAYLOAD_BYTES_MAX)
    received(session, request(1), request(3))
    session.answer(1, bytes(frames.PAYLOAD_BYTES_MAX))
    session.answer(3, bytes(ANSWER_BYTES_MAX - frames.PAYLOAD_BYTES_MAX))
    events = received(session, request(5), request(7), request(9), encode(frames.CANCEL, 7))
    assert events == [Cancelled(7)]
    assert not session.must_stop_reading
    assert session.take_message()
    began = session.take_events()
    assert [event.number for event in began] == [5, 9]  # type: ignore[union-attr]
    session.answer(5, b"")
    session.answer(9, b"")
    queued(session)
    assert session.is_idle


def test_a_peer_that_takes_not_even_refusals_is_not_read_from() -> None:
    session = acceptor(max_requests=0)
    number = 1
    while not session.must_stop_reading:
        received(session, request(number), encode(frames.PING, number))
        number += 2
    refused = queued_bytes(session)
    assert REFUSAL_BYTES_MAX < refused < REFUSAL_BYTES_MAX + 1000
    assert not session.must_stop_reading


def queued_bytes(session: Session) -> int:
    total = 0
    while message := session.take_message():
        total += len(message)
    return total


def test_an_answer_that_is_too_large_becomes_an_error() -> None:
    pair = Pair(connector=Options(max_payload=10))
    pair.connector.request("n", b"", "token", 0.0)
    pair.pass_on()
    pair.acceptor.answer(1, bytes(11))
    [failed], _ = pair.pass_on()
    assert isinstance(failed, Failed)
    assert (failed.token, failed.code) == ("token", Code.TOO_LARGE)


def test_deadlines_end_requests_on_both_sides() -> None:
    pair = Pair()
    pair.connector.request("n", b"", "first", 0.0, deadline_at=2.0)
    pair.connector.request("n", b"", "second", 0.0, deadline_at=1.0)
    pair.connector.request("n", b"", "third", 0.0)
    assert pair.connector.wake_at == 1.0
    _, theirs = pair.pass_on()
    assert [event.deadline_at for event in theirs] == [2.0, 1.0, math.inf]  # type: ignore[union-attr]
    for session in (pair.connector, pair.acceptor):
        session.tick(1.5)
        assert session.wake_at == 2.0
    assert pair.connector.take_events() == [Failed("second", None, "no answer before the deadline")]
    assert pair.acceptor.take_events() == [Cancelled(3)]
    pair.acceptor.answer(3, b"late")
    pair.acceptor.answer(1, b"in time")
    assert pair.pass_on() == ([Answered("first", b"in time")], [])
    assert pair.connector.in_flight == 1


def test_a_deadline_on_the_wire_is_the_time_left() -> None:
    session = Session(True, Options(), Options(), 100.0)
    for deadline_at in (101.5, 100.0, 90.0, math.inf):
        session.request("n", b"", None, 100.0, deadline_at)
    assert [frame[3] for frame in queued(session)] == [1500, 1, 1, 0]


def test_silence_brings_pings_and_then_the_end() -> None:
    session = Session(True, Options(), Options(), 0.0)
    for now in (1.0, 4.9):
        session.tick(now)
    assert queued(session) == []
    assert session.wake_at == 5.0
    session.tick(5.0)
    assert session.wake_at == 10.0
    session.tick(6.0)
    assert queued(session) == [[frames.PING, 1]]
    session.receive(encode(frames.PONG, 1), 7.0)
    session.tick(11.9)
    assert queued(session) == []
    session.tick(12.0)
    session.tick(17.0)
    assert queued(session) == [[frames.PING, 2], [frames.PING, 3]]
    assert session.wake_at == 22.0
    with pytest.raises(FrameError, match="nothing came for 15 s"):
        session.tick(22.0)


def test_a_process_that_stood_still_asks_before_it_gives_up() -> None:
    session = Session(True, Options(), Options(), 0.0)
    session.tick(100.0)
    assert queued(session) == [[frames.PING, 1]]
    session.tick(104.9)
    session.note_progress(104.9)
    session.tick(109.9)
    session.tick(114.9)
    with pytest.raises(FrameError):
        session.tick(119.9)


def test_a_ping_is_answered() -> None:
    session = acceptor()
    assert received(session, encode(frames.PING, 7)) == []
    assert queued(session) == [[frames.PONG, 7]]


def test_goaway_lets_what_is_in_flight_go_on() -> None:
    pair = Pair()
    pair.connector.request("n", b"", "before", 0.0)
    pair.pass_on()
    pair.connector.request("n", b"", "crossing", 0.0)
    pair.acceptor.leave("stops")
    pair.acceptor.leave("stops")
    ours, theirs = pair.pass_on()
    assert theirs == []
    assert sorted(ours, key=repr) == [
        Failed("crossing", Code.GOING_AWAY, "the server accepts no more requests"),
        PeerLeaves("stops"),
    ]
    with pytest.raises(LimitError) as caught:
        pair.connector.request("n", b"", "after", 0.0)
    assert caught.value.code is Code.GOING_AWAY
    pair.acceptor.answer(1, b"good")
    assert pair.pass_on()[0] == [Answered("before", b"good")]


def test_checksums_are_written_and_checked() -> None:
    pair = Pair(connector=Options(checksum=True))
    pair.connector.request("n", b"payload", "token", 0.0)
    message = pair.connector.take_message()
    assert message
    for damaged in (message[:-1] + bytes([message[-1] ^ 1]), message[:9] + b"x" + message[10:]):
        session = Session(False, Options(), Options(checksum=True), 0.0)
        with pytest.raises(FrameError, match="checksum of a message is wrong"):
            session.receive(damaged, 0.0)
    with pytest.raises(FrameError, match="no checksum"):
        session.receive(b"abc", 0.0)
    pair.acceptor.receive(message, 0.0)
    assert len(pair.acceptor.take_events()) == 1


def test_frames_are_joined_and_long_ones_stay_alone() -> None:
    session = Session(True, Options(), Options(), 0.0)
    for size in (10, 20, 300_000, 30):
        session.request("n", bytes(size), None, 0.0)
    sizes = []
    while message := session.take_message():
        sizes.append([len(frame[5]) for frame in decode_message(message)])
    assert sizes == [[10, 20], [300_000], [30]]


def abuse(*frames_of_peer: bytes) -> Callable[[Session], None]:
    return lambda session: session.receive(b"".join(frames_of_peer), 0.0)


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        (abuse(request(2)), "belongs to the other side"),
        (abuse(request(3), request(3)), "not greater"),
        (abuse(request(3), request(1)), "not greater"),
        (abuse(request(1), encode(frames.OPEN, 1, "s", 0, 0, 1, b"")), "not greater"),
        (abuse(encode(frames.ANSWER, 2, b"")), "never used"),
        (abuse(encode(frames.ANSWER, 0, b"")), "never used"),
        (abuse(encode(frames.ERROR, 4, 1, "")), "never used"),
        (abuse(encode(frames.CANCEL, 1)), "never used"),
        (abuse(request(1), encode(frames.ANSWER, 1, b"")), "what is no request"),
        (abuse(request(1), encode(frames.ERROR, 1, 1, "")), "of its sender"),
        (abuse(request(1), encode(frames.DATA, 1, b"")), "names a request"),
        (abuse(encode(frames.WELCOME, b"")), "handshake"),
        (
            abuse(encode(frames.OPEN, 1, "s", 0, 0, 1, b""), encode(frames.DATA, 1, b"ab" * 6)),
            "window",
        ),
        (
            abuse(
                encode(frames.OPEN, 1, "s", 0, 0, 1, b""),
                encode(frames.END, 1),
                encode(frames.DATA, 1, b""),
            ),
            "after the end",
        ),
        (
            abuse(encode(frames.OPEN, 1, "s", 0, 0, 1, b""), encode(frames.END, 1) * 2),
            "ended twice",
        ),
        (abuse(bytes(frames.MESSAGE_BYTES_MAX + 1)), "a message has more than"),
    ],
)
def test_what_the_format_forbids_ends_the_connection(
    action: Callable[[Session], None], sentence: str
) -> None:
    with pytest.raises(FrameError, match=sentence):
        action(acceptor(window=10))


def test_an_error_cannot_come_from_the_side_that_answers_as_cancel() -> None:
    session = Session(True, Options(), Options(), 0.0)
    session.request("n", b"", None, 0.0)
    with pytest.raises(FrameError, match="CANCEL came from the side that answers"):
        received(session, encode(frames.CANCEL, 1))
    with pytest.raises(FrameError, match="names a request"):
        received(session, encode(frames.END, 1))
    number = session.open("s", b"", 0.0)
    with pytest.raises(FrameError, match="what is no request"):
        received(session, encode(frames.ANSWER, number, b""))


def test_what_comes_for_ended_requests_is_ignored() -> None:
    pair = Pair()
    number = pair.connector.request("n", b"", None, 0.0)
    pair.connector.cancel(number)
    pair.connector.cancel(number)
    answers = encode(frames.ANSWER, number, b""), encode(frames.ERROR, number, 5, "")
    assert received(pair.connector, *answers) == []
    session = acceptor()
    received(session, request(1))
    session.answer(1, b"")
    late = [encode(kind, 1) for kind in (frames.CANCEL, frames.END)]
    late += [encode(frames.DATA, 1, b"x"), encode(frames.CREDIT, 1, 5)]
    assert received(session, *late) == []


def test_the_end_of_the_connection_ends_everything() -> None:
    pair = Pair()
    for number in range(3):
        pair.connector.request("n", b"", number, 0.0)
    pair.connector.open("s", b"", 0.0)
    pair.pass_on()
    assert pair.connector.abandon() == [0, 1, 2]
    assert pair.acceptor.abandon() == []
    ours, theirs = pair.connector.take_events(), pair.acceptor.take_events()
    assert [type(event).__name__ for event in ours] == ["StreamFailed"]
    assert [type(event).__name__ for event in theirs] == ["Cancelled"] * 3 + ["StreamFailed"]
    with pytest.raises(LimitError):
        pair.connector.request("n", b"", None, 0.0)
    pair.acceptor.answer(1, b"too late")
    assert pair.connector.in_flight == 0

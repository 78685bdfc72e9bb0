"""Messages to the bytes of a WebSocket and back, in any pieces. No sockets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from martlet.grid.frames import FrameError
from martlet.grid.websocket import (
    Channel,
    Opening,
    UpgradeRefusedError,
    accept_upgrade,
    acceptor_channel,
)

ADDRESS = ("10.0.0.7", 6200)


def opened(opening: Opening, *, extra: bytes = b"") -> tuple[Channel, list[bytes | bytearray]]:
    """The channel of a connector whose upgrade is accepted."""
    lines = opening.start().decode().split("\r\n")
    assert lines[0] == "GET /grid HTTP/1.1"
    pairs = [line.partition(": ")[::2] for line in lines[1:] if line]
    answer, sentence = accept_upgrade((name, value) for name, value in pairs)
    assert sentence == ""
    head = "".join(f"{name}: {value}\r\n" for name, value in answer)
    raw = f"HTTP/1.1 101 Switching Protocols\r\n{head}\r\n".encode() + extra
    assert opening.feed(raw[:20]) is None
    result = opening.feed(raw[20:])
    assert result is not None
    return result


@given(st.lists(st.binary(max_size=70_000), max_size=5), st.lists(st.integers(1, 100_000)))
def test_messages_arrive_whole_in_any_pieces(messages: list[bytes], sizes: list[int]) -> None:
    connector, early = opened(Opening(ADDRESS))
    assert early == []
    acceptor = acceptor_channel(is_welcome=True)
    for sender, receiver in ((connector, acceptor), (acceptor, connector)):
        raw = b"".join(sender.wrap(message) for message in messages)
        got: list[bytes | bytearray] = []
        for size in sizes:
            got += receiver.feed(raw[:size])
            raw = raw[size:]
        got += receiver.feed(raw)
        assert got == messages


@given(st.binary(max_size=300))
def test_any_bytes_are_messages_or_one_error(raw: bytes) -> None:
    for channel in (acceptor_channel(is_welcome=False), opened(Opening(ADDRESS))[0]):
        try:
            channel.feed(raw)
        except FrameError:
            pass  # every other error fails the test
        channel.close("the end")


@given(st.binary(max_size=300))
def test_any_answer_to_the_upgrade_is_refused(raw: bytes) -> None:
    opening = Opening(("::1", 80))
    assert b"Host: [::1]\r\n" in opening.start()
    with pytest.raises((UpgradeRefusedError, FrameError, ConnectionError)):
        feed_to_the_end(opening, raw)


@pytest.mark.parametrize("raw", [b"", b"HTTP/1.1 4"])
def test_a_server_that_says_nothing_may_have_a_grid(raw: bytes) -> None:
    """It may have been killed meanwhile."""
    opening = Opening(ADDRESS)
    opening.start()
    with pytest.raises(ConnectionError):
        feed_to_the_end(opening, raw)


@pytest.mark.parametrize(("status", "is_for_now"), [(404, False), (400, False), (503, True)])
def test_another_status_says_that_there_is_no_grid(status: int, is_for_now: bool) -> None:
    opening = Opening(ADDRESS)
    opening.start()
    with pytest.raises(UpgradeRefusedError) as caught:
        feed_to_the_end(opening, b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % status)
    assert caught.value.is_for_now is is_for_now


def feed_to_the_end(opening: Opening, raw: bytes) -> None:
    if raw:
        opening.feed(raw)
    opening.feed(b"")


def test_messages_may_come_with_the_answer_to_the_upgrade() -> None:
    early = acceptor_channel(is_welcome=True).wrap(b"challenge")
    assert opened(Opening(ADDRESS), extra=early)[1] == [b"challenge"]


def test_a_refused_upgrade_shows_the_answer() -> None:
    opening = Opening(ADDRESS)
    opening.start()
    raw = b"HTTP/1.1 404 Not Found\r\nContent-Length: 7\r\n\r\nno grid"
    with pytest.raises(UpgradeRefusedError, match="404: no grid"):
        feed_to_the_end(opening, raw)


def test_messages_before_welcome_are_small() -> None:
    connector, _ = opened(Opening(ADDRESS))
    acceptor = acceptor_channel(is_welcome=False)
    assert acceptor.feed(connector.wrap(bytes(4096))) == [bytes(4096)]
    with pytest.raises(FrameError, match="4097"):
        acceptor.feed(connector.wrap(bytes(4097)))


def test_the_protocol_answers_pings_and_sees_the_close() -> None:
    connector, _ = opened(Opening(ADDRESS))
    acceptor = acceptor_channel(is_welcome=True)
    connector._protocol.send_ping(b"x")
    assert acceptor.feed(connector.take_bytes()) == []
    assert connector.feed(acceptor.take_bytes()) == []
    assert not acceptor.is_closed_by_peer
    acceptor.feed(connector.close())
    assert acceptor.is_closed_by_peer

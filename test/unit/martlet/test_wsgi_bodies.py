"""Bodies of requests are framed as RFC 9112 has it, and are bounded."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running_cluster import await_true
from wsgi_calls import CHUNKED, HEAD, LIMITS, exchange, refuse, serving, status_of, stream_of

from martlet.http.environ import Environ, StartResponse
from martlet.wsgi.body import Body, ChunkedBody
from martlet.wsgi.stream import ClientStream


@pytest.mark.parametrize(
    "body",
    [
        b"5\r\nhelloX\r\n0\r\n\r\n",
        b"5\r\nhello",
        b"5\r\nhel",
        b"5",
        b"x\r\nhello\r\n0\r\n\r\n",
        b"-5\r\nhello\r\n0\r\n\r\n",
        b"5 5\r\nhello\r\n0\r\n\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b"\r\n",
        b"1" * 10_000 + b"\r\n",
    ],
)
def test_a_malformed_chunk_ends_the_connection(port: int, body: bytes) -> None:
    head = b"PUT /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = exchange(port, head + body + b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n")
    assert status_of(answer) == 400
    assert answer.count(b"HTTP/1.1") == 1


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=300)), st.sampled_from([None, 1, 7, 64, 1000]))
def test_chunked_bodies_are_read_whole(chunks: list[bytes], size: int | None) -> None:
    raw = b"".join(b"%x\r\n%b\r\n" % (len(c), c) for c in chunks) + b"0\r\nT: 1\r\n\r\nnext"
    stream = stream_of(raw)
    reader = ChunkedBody(stream, LIMITS)
    pieces = []
    while piece := reader.read(size):
        assert size is None or len(piece) <= size
        pieces.append(piece)
    assert b"".join(pieces) == b"".join(chunks)
    assert Body(stream, 4).read() == b"next"
    stream.sock.close()


def send_until_refused(client: socket.socket, piece: bytes) -> int:
    """How many bytes of an endless stream the server lets come."""
    sent = 0
    with contextlib.suppress(ConnectionError):
        while sent < 64 << 20:
            sent += client.send(piece)
    return sent


@pytest.mark.parametrize("line", [b"A: " + b"x" * 8000, b"A: b"])
def test_trailers_are_bounded(port: int, line: bytes) -> None:
    """In number and in bytes; the rest of an endless stream is not read."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(CHUNKED + b"3\r\nabc\r\n0\r\n")
        sent = send_until_refused(client, (line + b"\r\n") * 100)
    assert sent < 16 << 20  # what fits into the buffers of two sockets, and what is drained


@pytest.mark.parametrize(
    "body", [b"Content-Length: 1000000000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n"]
)
def test_an_unwanted_body_is_not_read(body: bytes) -> None:
    with serving(refuse) as (port, server):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(HEAD + body)
            assert status_of(client.recv(1000)) == 401
            assert send_until_refused(client, b"5\r\nhello\r\n" * 10_000) < 16 << 20
        await_true(lambda: not server._connections, "the end of the connection")


def test_a_client_that_drips_after_its_answer_is_left() -> None:
    with (
        serving(refuse) as (port, server),
        socket.create_connection(("127.0.0.1", port), timeout=10) as client,
    ):
        client.sendall(HEAD + b"Content-Length: 1000000\r\n\r\n")
        assert status_of(client.recv(1000)) == 401
        deadline = time.monotonic() + 30
        with contextlib.suppress(ConnectionError):
            while server._connections:
                client.send(b"a")
                time.sleep(0.1)  # a byte each: no wait for a byte takes too long
                assert time.monotonic() < deadline


def test_a_short_unwanted_body_is_skipped() -> None:
    with serving(refuse) as (port, _):
        answer = exchange(port, 3 * (HEAD + b"Content-Length: 5\r\n\r\nhello"))
        assert answer.count(b"HTTP/1.1 401") == 3


def test_a_client_is_asked_for_the_body_once(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(HEAD + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"abc")
        assert status_of(client.recv(1000)) == 200


def test_nothing_is_asked_within_an_answer() -> None:
    def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [("Content-Length", "6")])
        yield b"abc"
        yield environ["wsgi.input"].read()

    with serving(app) as (port, _):
        raw = HEAD + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n"
        assert exchange(port, raw + b"def").endswith(b"\r\n\r\nabcdef")


class CountingSocket:
    """Counts the calls that go to the kernel."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self.settimeout = sock.settimeout
        self.count = 0

    def recv(self, size: int) -> bytes:
        self.count += 1
        return self._sock.recv(size)


@pytest.mark.parametrize("is_chunked", [False, True])
def test_lines_of_a_body_are_read_in_large_pieces(is_chunked: bool) -> None:
    lines = [b"%d\n" % number for number in range(20_000)]
    text = b"".join(lines) + b"the rest"
    mine, theirs = socket.socketpair()
    raw = b"%x\r\n%b\r\n0\r\n\r\n" % (len(text), text) if is_chunked else text
    theirs.sendall(raw + b"GET")
    counting = CountingSocket(mine)
    stream = ClientStream(counting, LIMITS)  # type: ignore[arg-type]
    body = ChunkedBody(stream, LIMITS) if is_chunked else Body(stream, len(text))
    assert body.readline(2) == b"0\n"
    assert body.readline(1) == b"1"
    assert body.readline(5) == b"\n"
    assert list(body) == [*lines[2:], b"the rest"]
    assert body.is_finished
    assert counting.count < 10
    assert stream.read(3) == b"GET"


def test_a_client_of_http_1_0_is_not_asked(port: int) -> None:
    raw = b"PUT / HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc"
    assert status_of(exchange(port, raw)) == 200


def test_a_refused_client_need_not_send_the_body() -> None:
    with serving(refuse) as (port, _):
        raw = HEAD + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n"
        answer = exchange(port, raw + b"GET /next HTTP/1.1\r\nHost: h\r\n\r\n")
        assert answer.count(b"HTTP/1.1") == 1
        assert b"Connection: close" in answer


@pytest.mark.parametrize("expectation", [b"x", b"", b"100-continue, x"])
def test_another_expectation_is_ignored(port: int, expectation: bytes) -> None:
    raw = HEAD + b"Content-Length: 3\r\nExpect: %b\r\n\r\nabc" % expectation
    assert exchange(port, raw).startswith(b"HTTP/1.1 200 OK")

"""All requests of a connection, in any pieces, mean the same to another strict parser, llhttp."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import httptools
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from wsgi_calls import CHUNKED, EDITS, HEAD, LIMITS

from martlet.http.environ import Environ, StartResponse
from martlet.http.response import Response
from martlet.wsgi.connection import Connection, House, base_environ

GET = b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n"
#: The byte of a body at which an application stops; more than all: it reads the whole.
ALL = 1 << 20


@dataclass
class Message:
    """One request as a parser reads it."""

    method: str
    path: str
    query: str
    body: bytes = b""
    is_complete: bool = False


class Llhttp:
    """The requests of a connection as llhttp reads them."""

    def __init__(self, raw: bytes) -> None:
        self.messages: list[Message] = []
        self._target = b""
        self._is_open = False  # whether the headers of the present message are complete
        self._parser = httptools.HttpRequestParser(self)
        try:
            self._parser.feed_data(raw)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            pass  # what came before counts

    def on_message_begin(self) -> None:
        self._target, self._is_open = b"", False

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_headers_complete(self) -> None:
        method = self._parser.get_method().decode("ascii")
        path, _, query = self._target.decode("latin-1").partition("?")
        self.messages.append(Message(method, path, query))
        self._is_open = True

    def on_body(self, body: bytes) -> None:
        self.messages[-1].body += body

    def on_message_complete(self) -> None:
        if self._is_open:
            self.messages[-1].is_complete = True


class DrippingSocket:
    """A socket whose client sends these pieces, and then closes its sending side."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = [piece for piece in pieces if piece]
        self.sent = b""

    def recv(self, size: int) -> bytes:
        if not self._pieces:
            return b""
        piece = self._pieces.pop(0)
        if len(piece) > size:
            self._pieces.insert(0, piece[size:])
        return piece[:size]

    def sendall(self, data: bytes | memoryview) -> None:
        self.sent += data

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", 80

    def settimeout(self, seconds: float | None) -> None:
        """Nothing makes it wait."""

    def setsockopt(self, level: int, name: int, value: int) -> None:
        """It has no options."""

    def shutdown(self, how: int) -> None:
        """The client has closed its side already."""

    def close(self) -> None:
        """It holds nothing."""


@dataclass
class Server:
    """The part of a server that a connection uses, and an application that notes requests."""

    reads: list[int]  # how many bytes of the body of each request
    seen: list[Message] = field(default_factory=list)
    limits = LIMITS
    door = None
    logger = logging.getLogger("test")
    base_environ = base_environ("http")
    is_stopping = False

    def app(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        target = environ["RAW_PATH_INFO"], environ["QUERY_STRING"]
        message = Message(environ["REQUEST_METHOD"], *target)
        self.seen.append(message)
        size = self.reads[len(self.seen) % len(self.reads)]
        try:
            message.body = environ["wsgi.input"].read(size)
            # A body that the client breaks off is short; the application compares its length.
            message.is_complete = environ["wsgi.input"].is_finished
        except (OSError, ValueError):
            return Response(400, {}, "bad body")(environ, start_response)
        return Response(200, {}, "fine")(environ, start_response)

    def idling(self, connection: Connection) -> AbstractContextManager[None]:
        return nullcontext()

    def serving(self) -> AbstractContextManager[Any]:
        return nullcontext()


def serve(raw: bytes, cuts: list[int], reads: list[int]) -> tuple[Server, DrippingSocket]:
    """Serve a connection whose bytes come in pieces."""
    places = sorted({cut % (len(raw) + 1) for cut in cuts} | {0, len(raw)})
    sock = DrippingSocket(raw[a:b] for a, b in pairwise(places))
    server = Server(reads)
    Connection(cast(House, server), cast(Any, sock), ("127.0.0.1", 1)).run()
    return server, sock


VALID = st.sampled_from(
    [
        HEAD + b"Content-Length: 3\r\n\r\nabc",
        HEAD + b"Content-Length: 29\r\n\r\nGET /no HTTP/1.1\r\nHost: h\r\n\r\n",
        CHUNKED + b"3\r\nabc\r\n0\r\n\r\n",
        CHUNKED + b"1d\r\nGET /no HTTP/1.1\r\nHost: h\r\n\r\n\r\n0\r\n\r\n",
        CHUNKED + b"3;x=1\r\nabc\r\n2\r\nde\r\n0\r\nA: b\r\n\r\n",
        GET % 1,
        GET % 2 + b"\r\n",
        b"GET /a?b HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    ]
)
STREAMS = st.lists(VALID, min_size=1, max_size=4)
CUTS = st.lists(st.integers(0, 400), max_size=6)
READS = st.lists(st.sampled_from([0, 1, 2, 5, ALL]), min_size=1, max_size=4)


@settings(max_examples=400, deadline=None)
@given(STREAMS, CUTS)
def test_a_half_closed_client_gets_all_answers(requests: list[bytes], cuts: list[int]) -> None:
    """Requests that came together, or in pieces, are served in their order."""
    raw = b"".join(requests)
    server, sock = serve(raw, cuts, [ALL])
    assert server.seen == Llhttp(raw).messages
    assert all(message.is_complete for message in server.seen)
    assert sock.sent.count(b"HTTP/1.1 200 OK\r\n") == len(server.seen) == len(requests)


@settings(max_examples=1500, deadline=None)
@given(
    STREAMS.map(b"".join),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), st.sampled_from(EDITS)), max_size=3),
    CUTS,
    READS,
)
@example(CHUNKED + b"3\r\nabc\r\n0\r\n\r\n" + GET % 1, [(57, 2, b"\n")], [60, 61], [ALL])
@example(HEAD + b"Content-Length: 3\r\n\r\nabc" + GET % 1, [(42, 0, b"0")], [], [1])
def test_no_request_is_smuggled(
    raw: bytes, edits: list[tuple[int, int, bytes]], cuts: list[int], reads: list[int]
) -> None:
    """Whatever an application leaves of a body, the next request begins where llhttp sees it."""
    for at, removed, piece in edits:
        at %= len(raw)
        raw = raw[:at] + piece + raw[at + removed :]
    server, _ = serve(raw, cuts, reads)
    theirs = Llhttp(raw.lstrip(b"\r\n")).messages
    event(f"{len(server.seen)} requests")
    for number, ours in enumerate(server.seen):
        if ours.method not in ("GET", "PUT"):
            return  # llhttp knows a list of methods
        assert number < len(theirs), f"{raw!r}: {ours} is none of {theirs}"
        other = theirs[number]
        assert (ours.method, ours.path, ours.query) == (other.method, other.path, other.query), raw
        assert other.body.startswith(ours.body), raw
        is_last = number == len(server.seen) - 1
        assert other.is_complete or (is_last and not ours.is_complete), raw
        if ours.is_complete:
            assert ours.body == other.body, raw

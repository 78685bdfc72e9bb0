"""The parser takes HTTP/1.1 as RFC 9112 has it and refuses everything else with a 4xx."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import httptools
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from running_cluster import await_true

from martlet.http import Environ, Response, StartResponse, WSGIApp
from martlet.wsgi.body import Body, ChunkedBody
from martlet.wsgi.head import BadRequestError, parse_head
from martlet.wsgi.limits import Limits
from martlet.wsgi.listener import HttpServer
from martlet.wsgi.stream import ClientStream

LIMITS = Limits(client_timeout=10.0, idle_timeout=10.0)


def show_request(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Answer with what arrived."""
    try:
        body = environ["wsgi.input"].read()
    except (ValueError, OSError):  # a body that breaks off is the application's to refuse
        return Response(400)(environ, start_response)
    lines = [f"{k}={v}" for k, v in sorted(environ.items()) if k.isupper() or k.startswith("HTTP_")]
    lines.append("body=" + body.decode("latin-1"))
    return Response(200, body="\n".join(lines).encode("latin-1"))(environ, start_response)


def in_thread(function: Callable[[], None]) -> None:
    threading.Thread(target=function, daemon=True).start()


@contextlib.contextmanager
def serving(
    app: WSGIApp = show_request,
    limits: Limits = LIMITS,
    requests: int = 100,
    connections: int = 500,
) -> Iterator[tuple[int, HttpServer]]:
    """A server in threads; its port, and the server."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
    logger = logging.getLogger("test.wsgi")
    server = HttpServer(listener, app, limits, logger, in_thread, requests, connections)
    runner = threading.Thread(target=server.run)
    runner.start()
    yield listener.getsockname()[1], server
    server.stop()
    runner.join(10)
    listener.close()
    assert not runner.is_alive()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving() as (port, _):
        yield port


def exchange(port: int, raw: bytes) -> bytes:
    """Send bytes, say no more, and read all that comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        with contextlib.suppress(OSError):
            client.sendall(raw)
            client.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while piece := client.recv(65536):
                answer += piece
        return answer


def status_of(answer: bytes) -> int:
    return int(answer[9:12])


def test_the_environ(port: int) -> None:
    raw = (
        b"PUT /v1/a/c/%C3%BC%20x?format=json HTTP/1.1\r\nHost: h\r\nX-Object-Meta-A:  \xc3\xbc \r\n"
        b"x-two: 1\r\nX-Two: 2\r\nX_Two: evil\r\nContent-Length: 3\r\n\r\nabc"
    )
    answer = exchange(port, raw)
    assert status_of(answer) == 200
    lines = answer.partition(b"\r\n\r\n")[2].split(b"\n")
    for line in (
        b"REQUEST_METHOD=PUT",
        b"PATH_INFO=/v1/a/c/\xc3\xbc x",
        b"RAW_PATH_INFO=/v1/a/c/%C3%BC%20x",
        b"QUERY_STRING=format=json",
        b"HTTP_X_OBJECT_META_A=\xc3\xbc",
        b"HTTP_X_TWO=1,2",
        b"CONTENT_LENGTH=3",
        b"body=abc",
    ):
        assert line in lines
    assert b"evil" not in answer
    assert b"CONTENT_TYPE" not in answer, "none was sent, none is invented"


def test_chunked_bodies_and_kept_connections(port: int) -> None:
    chunked = (
        b"PUT /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"3\r\nabc\r\n2;ext=1\r\nde\r\n0\r\n\r\n"
    )
    answer = exchange(port, chunked + b"GET /b HTTP/1.1\r\nHost: h\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert b"body=abcde" in answer
    assert b"PATH_INFO=/b" in answer


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


def stream_of(raw: bytes) -> ClientStream:
    """A client that sends these bytes, and then goes."""
    mine, theirs = socket.socketpair()
    in_thread(lambda: (theirs.sendall(raw), theirs.close())[1])
    return ClientStream(mine, LIMITS)


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


def test_a_path_may_be_percent_encoded_in_part(port: int) -> None:
    answer = exchange(port, b"GET /\xc3\xbc%20%C3%BC HTTP/1.1\r\nHost: h\r\n\r\n")
    assert b"PATH_INFO=/\xc3\xbc \xc3\xbc\n" in answer


@pytest.mark.parametrize("wish", [b"close", b"TE, Close", b"close,", b"x\r\nConnection: close"])
def test_a_connection_is_closed_as_wished(port: int, wish: bytes) -> None:
    raw = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: " + wish + b"\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(raw)
        while client.recv(65536):  # times out where the server keeps it
            pass


def test_any_word_is_a_method(port: int) -> None:
    answer = exchange(port, b"GETorHEAD_base / HTTP/1.1\r\nHost: h\r\n\r\n")
    assert b"REQUEST_METHOD=GETorHEAD_base\n" in answer


def test_names_beyond_ascii_stay_the_bytes_they_are(port: int) -> None:
    for name in ("x-ü", "x-ß", "x-\U0001f44d", "x-ÿ"):
        raw = name.encode("utf-8")
        answer = exchange(
            port, b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n" + raw + b": 1\r\n\r\n"
        )
        assert b"\nHTTP_X_" + raw[2:] + b"=1\n" in answer


def test_a_host_may_have_a_name_in_utf_8(port: int) -> None:
    answer = exchange(port, b"GET / HTTP/1.1\r\nHost: \xc3\xbc.example:80\r\n\r\n")
    assert b"HTTP_HOST=\xc3\xbc.example:80\n" in answer


def test_a_client_that_asks_to_keep_the_connection_gets_an_answer(port: int) -> None:
    assert b"\r\nConnection: " not in exchange(port, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    new = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Keep-Alive\r\n\r\n"
    assert b"\r\nConnection: keep-alive\r\n" in exchange(port, new)
    old = b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    assert b"\r\nConnection: keep-alive\r\n" in exchange(port, old)
    assert b"\r\nConnection: close\r\n" in exchange(port, b"GET / HTTP/1.0\r\n\r\n")


def test_the_absolute_form_names_the_path(port: int) -> None:
    answer = exchange(port, b"GET http://h:1/v1/a?x HTTP/1.1\r\nHost: h\r\n\r\n")
    assert b"PATH_INFO=/v1/a\n" in answer


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 400),
        (b"GET  / HTTP/1.1\r\n\r\n", 400),
        (b"GET /a b HTTP/1.1\r\n\r\n", 400),
        (b"GET:/ / HTTP/1.1\r\n\r\n", 400),
        (b"GET /\x00 HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX-A : 1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX-A: 1\r\n folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX-A: a\x00b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX-A: a\rb\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX-A: a\x01b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX-A: a\x1fb\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX-A: \x7f\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX-A: 1", 400),
        (b"PUT / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"PUT / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
        (b"PUT / HTTP/1.1\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n", 400),
        (b"PUT / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"PUT / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        (b"GET / HTTP/1.1\r\nX-A: " + b"x" * 9000 + b"\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"X-A: 1\r\n" * 10_000 + b"\r\n", 400),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n", 414),
    ],
)
def test_refused(port: int, raw: bytes, status: int) -> None:
    answer = exchange(port, raw.replace(b"HTTP/1.1\r\n", b"HTTP/1.1\r\nHost: h\r\n", 1))
    assert status_of(answer) == status
    assert answer.partition(b"\r\n\r\n")[2], "a sentence says why"
    assert status_of(exchange(port, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")) == 200


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.booleans())
@example(b"Expect:100-continue", True)
def test_no_bytes_stop_the_server(port: int, junk: bytes, in_headers: bool) -> None:
    raw = b"GET / HTTP/1.1\r\nHost: h\r\n" + junk if in_headers else junk
    answer = exchange(port, raw + b"\r\n\r\n")
    assert not answer or status_of(answer) in (100, 200, 400, 414, 501)
    assert status_of(exchange(port, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")) == 200


HEAD = b"PUT /a HTTP/1.1\r\nHost: h\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\nA: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n",
        b"GET / HTTP/1.0\r\nHost: h\r\nHost: g\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        b"GET / HTTP/1.1\nHost: h\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nA: b\n\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\n\n",
        b"GET a HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET http:///a HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET http://u@h/a HTTP/1.1\r\nHost: h\r\n\r\n",
        b"PUT / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        HEAD + b"Content-Length: +3\r\n\r\nabc",
        CHUNKED + b"3\nabc\r\n0\r\n\r\n",
        CHUNKED + b"3\r\nabc\n0\r\n\r\n",
        CHUNKED + b"3\r\nabc\r\n0\n\r\n",
        CHUNKED + b"3\r\nabc\r\n0\r\n\n",
        CHUNKED + b"3\r\nabc\r\n0\r\nA: b\n\r\n",
        CHUNKED + b"3\r\nabc\r\n0\r\nno colon\r\n\r\n",
        CHUNKED + b"3;" + b"x" * 2000 + b"\r\nabc\r\n0\r\n\r\n",
    ],
)
def test_framing_that_two_parsers_may_read_in_two_ways(port: int, raw: bytes) -> None:
    answer = exchange(port, raw + b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n")
    assert status_of(answer) in (400, 501)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"smuggled" not in answer


def test_the_host_of_an_absolute_form_counts(port: int) -> None:
    answer = exchange(port, b"GET http://g:1?x HTTP/1.1\r\nHost: h\r\n\r\n")
    assert b"HTTP_HOST=g:1\n" in answer
    assert b"QUERY_STRING=x\n" in answer


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


def refuse(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Without a look at the body."""
    return Response(401)(environ, start_response)


@pytest.mark.parametrize(
    "body", [b"Content-Length: 1000000000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n"]
)
def test_a_body_that_nobody_wants_is_not_read(body: bytes) -> None:
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


def test_a_short_body_that_nobody_wants_is_skipped() -> None:
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


def test_the_wait_for_a_request_does_not_limit_the_answer() -> None:
    times: list[float | None] = []

    def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        (connection,) = server._connections
        times.append(connection.sock.gettimeout())
        return Response(200)(environ, start_response)

    with (
        serving(app, Limits(client_timeout=8.0, idle_timeout=0.5)) as (port, server),
        socket.create_connection(("127.0.0.1", port), timeout=10) as client,
    ):
        for _ in range(2):
            client.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            assert status_of(client.recv(1000)) == 200
    assert times == [8.0, 8.0]


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


def test_dripping_heads_end_in_time() -> None:
    with serving(limits=Limits(client_timeout=1.0, idle_timeout=1.0)) as (port, server):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.setblocking(False)
            for _ in range(100):
                with contextlib.suppress(BlockingIOError):
                    client.send(b"G")
                    if client.recv(100) == b"":
                        break
                time.sleep(0.1)  # a byte each: no wait for a byte takes too long
            else:
                raise AssertionError("the connection is still open after 10 s")
        await_true(lambda: not server._connections, "the end of the connection")


def test_idle_connections_take_no_places() -> None:
    with serving(requests=1, connections=50) as (port, _), contextlib.ExitStack() as stack:
        for number in range(100):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            client.sendall(b"GET / HTTP/1.1\r\nHo"[: number % 10])
        assert status_of(exchange(port, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")) == 200


def test_the_oldest_idle_connection_goes_first() -> None:
    with serving(connections=3) as (port, server), contextlib.ExitStack() as stack:
        clients = []
        for number in range(3):
            clients.append(stack.enter_context(socket.create_connection(("127.0.0.1", port))))
            await_true(lambda n=number: len(server._idle) == n + 1, "an idle connection")
        clients[0].sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert status_of(clients[0].recv(1000)) == 200
        await_true(lambda: len(server._idle) == 3, "the first one idle again")
        assert status_of(exchange(port, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")) == 200
        clients[1].settimeout(10)
        assert clients[1].recv(10) == b""
        for client in (clients[0], clients[2]):
            client.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            assert status_of(client.recv(1000)) == 200


def test_a_request_beyond_the_places_waits() -> None:
    started, go = threading.Event(), threading.Event()

    def wait(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/slow":
            started.set()
            assert go.wait(10)
        return Response(200, body=b"ok")(environ, start_response)

    with serving(wait, requests=1) as (port, _):
        slow = socket.create_connection(("127.0.0.1", port), timeout=10)
        slow.sendall(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
        assert started.wait(10)
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            client.settimeout(0.2)
            with pytest.raises(TimeoutError):
                client.recv(1)
            go.set()
            client.settimeout(10)
            assert status_of(client.recv(1000)) == 200
        slow.close()


Body_ = Iterable[bytes]


@pytest.mark.parametrize(
    ("body", "headers", "sent"),
    [
        ([b"abc"], [], b"Content-Length: 3\r\n"),
        ([b"a", b"bc"], [], b"Content-Length: 3\r\n"),
        ([], [], b"Content-Length: 0\r\n"),
        (iter([b"a", b"", b"bc"]), [], b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"),
        (iter([]), [], b"Content-Length: 0\r\n"),
        (iter([b"a", b"bc"]), [("Content-Length", "3")], b"\r\n\r\nabc"),
    ],
)
def test_answers(body: Body_, headers: list[tuple[str, str]], sent: bytes) -> None:
    def app(_environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", headers)
        return body

    with serving(app) as (port, _):
        assert sent in exchange(port, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")


def too_short() -> Iterator[bytes]:
    yield b"a"


def too_long() -> Iterator[bytes]:
    yield b"abcdef"
    yield b"g"


def failing() -> Iterator[bytes]:
    yield b"a"
    raise RuntimeError("in the middle")


@pytest.mark.parametrize("body", [too_short, too_long, failing])
def test_an_answer_that_breaks_off_ends_the_connection(
    body: Callable[[], Iterator[bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    def app(_environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [("Content-Length", "6")])
        return body()

    with serving(app) as (port, _):
        answer = exchange(port, 2 * b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert answer.count(b"HTTP/1.1") == 1
        assert b"g" not in answer.partition(b"\r\n\r\n")[2]
    assert "event=unhandled_error" in caplog.text


@pytest.mark.parametrize("header", [("X-A", "a\r\nX-B: c"), ("X-A", "a\nb"), ("X\r\nA", "b")])
def test_no_line_break_gets_into_an_answer(header: tuple[str, str]) -> None:
    def app(_environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [header])
        return [b"x"]

    with serving(app) as (port, _):
        assert status_of(exchange(port, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")) == 500


def test_stop_ends_idle_connections_and_lets_requests_end() -> None:
    started, go = threading.Event(), threading.Event()

    def wait(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        started.set()
        assert go.wait(10)
        return Response(200, body=b"ok")(environ, start_response)

    with serving(wait) as (port, server):
        idle = socket.create_connection(("127.0.0.1", port), timeout=10)
        busy = socket.create_connection(("127.0.0.1", port), timeout=10)
        busy.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert started.wait(10)
        await_true(lambda: len(server._idle) == 1, "an idle connection")
        server.stop()
        assert idle.recv(10) == b""
        go.set()
        answer = busy.recv(1000)
        assert status_of(answer) == 200
        assert b"Connection: close" in answer
        idle.close()
        busy.close()


class Seen:
    """The first request as another strict parser, llhttp, reads it."""

    def __init__(self, raw: bytes) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.target = b""
        self.is_complete = False
        self.parser = httptools.HttpRequestParser(self)
        self.method = b""
        self.error = ""
        try:
            self.parser.feed_data(raw)
        except httptools.HttpParserUpgrade:
            pass
        except httptools.HttpParserError as error:
            self.error = str(error)  # of the next request, where this one is complete

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.method:  # trailers come later
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self.method = self.method or self.parser.get_method()

    def on_body(self, body: bytes) -> None:
        if not self.is_complete:
            self.body += body

    def on_message_complete(self) -> None:
        self.is_complete = True


PIECES = st.sampled_from(
    [
        b"\r\n",
        b"\n",
        b"\r",
        b" ",
        b"\t",
        b":",
        b"0",
        b"3",
        b"\x00",
        b"chunked",
        b"close",
        b"Host: h",
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding: identity",
        b"Content-Length: 3",
        b"Content-Length: 03",
        b"\r\nA: b",
        b";x=1",
        b"HTTP/1.0",
        b"/",
    ]
)
REQUESTS = st.sampled_from(
    [
        HEAD + b"Content-Length: 3\r\n\r\nabc",
        CHUNKED + b"3\r\nabc\r\n0\r\n\r\n",
        CHUNKED + b"3;x=1\r\nabc\r\n2\r\nde\r\n0\r\nA: b\r\n\r\n",
        b"GET http://h/a?b HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n",
        b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    ]
)


@settings(max_examples=1500, deadline=None)
@example(  # a trailer named as a header
    CHUNKED + b"3;x=1\r\nabc\r\n2\r\nde\r\n0\r\nA: b\r\n\r\n",
    [(108, 0, b"\r\nA: b"), (85, 0, b":")],
)
@given(REQUESTS, st.lists(st.tuples(st.integers(0, 200), st.integers(0, 3), PIECES), max_size=3))
def test_what_is_taken_another_strict_parser_takes_alike(
    raw: bytes, edits: list[tuple[int, int, bytes]]
) -> None:
    for at, removed, piece in edits:
        at %= len(raw)
        raw = raw[:at] + piece + raw[at + removed :]
    stream = stream_of(raw)
    try:
        data = stream.read_head(5)
        if data is None:
            return
        head = parse_head(data, LIMITS)
        body = ChunkedBody(stream, LIMITS) if head.length is None else Body(stream, head.length)
        content = body.read()
    except (BadRequestError, ValueError, OSError):
        return  # refused; it may be stricter than the other
    finally:
        stream.sock.close()
    if not body.is_finished or head.method not in ("GET", "PUT"):
        return  # llhttp knows a list of methods
    seen = Seen(raw.lstrip(b"\r\n"))
    assert seen.is_complete, f"{raw!r} is taken, but not by llhttp: {seen.error}"
    assert seen.method.decode() == head.method
    assert seen.body == content
    names = {name.lower(): value.strip(b" \t") for name, value in seen.headers}
    for name, value in head.headers.items():
        if name != "host":
            assert names[name.encode("latin-1")] in value.encode("latin-1")

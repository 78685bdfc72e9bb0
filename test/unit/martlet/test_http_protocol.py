"""The parser takes HTTP/1.1 as RFC 9112 has it and refuses everything else with a 4xx."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterable
from io import BytesIO

import eventlet
import eventlet.wsgi
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from martlet.http import Environ, Response, StartResponse
from martlet.http_protocol import ChunkedInput, HttpProtocol


def show_request(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Answer with what arrived."""
    try:
        body = environ["wsgi.input"].read()
    except (ValueError, OSError):  # a body that breaks off is the application's to refuse
        return Response(400)(environ, start_response)
    lines = [f"{k}={v}" for k, v in sorted(environ.items()) if k.isupper() or k.startswith("HTTP_")]
    lines.append("body=" + body.decode("latin-1"))
    return Response(200, body="\n".join(lines).encode("latin-1"))(environ, start_response)


@pytest.fixture(scope="module")
def port() -> int:
    """A server in a thread of its own."""
    ready: list[int] = []
    started = threading.Event()

    def run() -> None:
        listener = eventlet.listen(("127.0.0.1", 0))
        ready.append(listener.getsockname()[1])
        started.set()
        eventlet.wsgi.server(
            listener,
            show_request,
            log_output=False,
            protocol=HttpProtocol,
            debug=False,
            url_length_limit=8194,
        )

    threading.Thread(target=run, daemon=True).start()
    assert started.wait(10)
    return ready[0]


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


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=300)), st.sampled_from([None, 1, 7, 64, 1000]))
def test_chunked_bodies_are_read_whole(chunks: list[bytes], size: int | None) -> None:
    raw = b"".join(b"%x\r\n%b\r\n" % (len(c), c) for c in chunks) + b"0\r\nT: 1\r\n\r\nnext"
    stream = BytesIO(raw)
    reader = ChunkedInput(stream, None, None, chunked_input=True)
    pieces = []
    while piece := reader.read(size):
        assert size is None or len(piece) <= size
        pieces.append(piece)
    assert b"".join(pieces) == b"".join(chunks)
    assert stream.read() == b"next"


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
        answer = exchange(port, b"GET / HTTP/1.1\r\nConnection: close\r\n" + raw + b": 1\r\n\r\n")
        assert b"\nHTTP_X_" + raw[2:] + b"=1\n" in answer


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
    answer = exchange(port, raw)
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

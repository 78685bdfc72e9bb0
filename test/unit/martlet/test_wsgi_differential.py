"""A request that is taken means the same to another strict parser, llhttp."""

from __future__ import annotations

import httptools
from hypothesis import example, given, settings
from hypothesis import strategies as st
from wsgi_calls import CHUNKED, EDITS, HEAD, LIMITS, stream_of

from martlet.wsgi.body import Body, ChunkedBody
from martlet.wsgi.head import BadRequestError, parse_head


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


PIECES = st.sampled_from(EDITS)
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

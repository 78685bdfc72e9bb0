"""How a request becomes a WSGI environment: a strict, lean HTTP/1.1 parser for eventlet's server.

The standard library parses headers as e-mail, which takes longer than all the rest of a small
request, joins what should be refused, and invents a Content-Type where the client sent none. This
one takes the grammar of RFC 9112 and answers anything else with a 4xx before an application runs:
request smuggling lives on lenient parsers.
"""

from __future__ import annotations

import re
import socket
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_to_bytes

from eventlet import wsgi

from martlet.header_names import lower_name, upper_name

#: Longest header line and longest request line, bytes; set from the constraints at start.
max_line_length = 8192
max_request_line = 8192
#: Most headers in one request; set from the constraints at start.
max_header_count = 195

_DRAIN_BYTES_MAX = 1 << 20
_DRAIN_SECONDS = 2.0

# A token, or bytes beyond ASCII: metadata may have names in UTF-8.
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z\x80-\xff]+")
# Stored in metadata, such a character would make a header that no client of a server can read.
_FORBIDDEN_IN_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_CHUNK_HEADER = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\x00\r\n]*)?\r?\n")
_LINE_ENDS = (b"\r\n", b"\n")
_REQUEST_LINE = re.compile(rb"([A-Za-z_-]{1,32}) ([^ \x00-\x1f]+) HTTP/(1)\.([01])\r?\n")


class ParsedHeaders:
    """The headers of one request: (name, value) pairs, and by lower-case name, repeats joined."""

    __slots__ = ("_by_name", "pairs")

    def __init__(self) -> None:
        self.pairs: list[tuple[str, str]] = []
        self._by_name: dict[str, str] = {}

    def add(self, name: str, value: str) -> None:
        """Take in one header line."""
        self.pairs.append((name, value))
        lowered = lower_name(name)
        known = self._by_name.get(lowered)
        self._by_name[lowered] = value if known is None else f"{known},{value}"

    def get(self, name: str, default: str | None = None) -> str | None:
        """The value by its name in any case."""
        return self._by_name.get(lower_name(name), default)

    def items(self) -> list[tuple[str, str]]:
        """(lower-case name, joined value) pairs."""
        return list(self._by_name.items())


class BadRequestError(Exception):
    """The request breaks the grammar; carries the status and the sentence for the client."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class ChunkedInput(wsgi.Input):  # type: ignore[misc]
    """A chunked body. eventlet's own takes whatever follows a chunk's data for its end.

    Reading raises ChunkReadError, a ValueError, for a malformed body and OSError for one that ends
    too early; from then on every read does, so that the connection cannot be used again.
    """

    _failure: Exception | None = None

    def _chunked_read(
        self, rfile: Any, length: int | None = None, use_readline: bool = False
    ) -> bytes:
        if self.should_send_hundred_continue:
            self.send_hundred_continue_response()
            self.is_hundred_continue_response_sent = True
        if self._failure is not None:
            raise self._failure
        try:
            return self._read_chunks(rfile, length, use_readline)
        except (OSError, ValueError) as error:
            self._failure = error
            raise

    def _read_chunks(self, rfile: Any, length: int | None, use_readline: bool) -> bytes:
        wanted = None if length is None or length < 0 else length
        pieces = []
        while wanted != 0:
            if self.chunk_length < 0 or 0 < self.chunk_length == self.position:
                self._next_chunk(rfile)
            if self.chunk_length == 0:
                break
            left = self.chunk_length - self.position
            size = left if wanted is None else min(left, wanted)
            piece = rfile.readline(size) if use_readline else rfile.read(size)
            if not piece:
                raise OSError("the body ended within a chunk")
            pieces.append(piece)
            self.position += len(piece)
            if self.position == self.chunk_length and rfile.readline(3) not in _LINE_ENDS:
                raise wsgi.ChunkReadError("a chunk is longer than it says")
            if wanted is not None:
                wanted -= len(piece)
            if use_readline and piece.endswith(b"\n"):
                break
        return b"".join(pieces)

    def _next_chunk(self, rfile: Any) -> None:
        line: bytes = rfile.readline(max_line_length)
        if not line.endswith(b"\n"):
            raise OSError("the body ended within a chunk header")
        match = _CHUNK_HEADER.fullmatch(line)
        if match is None:
            raise wsgi.ChunkReadError("a chunk header is malformed")
        self.chunk_length, self.position = int(match[1], 16), 0
        if self.chunk_length == 0:
            self._discard_trailers(rfile)


class HttpProtocol(wsgi.HttpProtocol):  # type: ignore[misc]
    """One client connection."""

    def _read_request_line(self) -> bytes:
        # One byte too many is enough for parse_request() to say so, and too few for eventlet,
        # which would answer without a word.
        line: bytes = super()._read_request_line()
        return line[: max_request_line + 1]

    def parse_request(self) -> bool:
        """Read and check the request line and the headers; False once an error was answered."""
        self.close_connection = True
        # eventlet wraps the stream to count header bytes, line by line; the limits here do as much.
        reader = self.rfile.fp
        try:
            self._parse_request_line(self.raw_requestline)
            self.headers = _read_headers(reader)
            _check_framing(self.headers)
        except BadRequestError as error:
            self._refuse(error)
            return False
        wishes = (self.headers.get("connection") or "").lower().split(",")
        connection = {wish.strip() for wish in wishes}
        if self.request_version == "HTTP/1.1":
            self.close_connection = "close" in connection
        else:
            self.close_connection = "keep-alive" not in connection or "close" in connection
        return True

    def _parse_request_line(self, line: bytes) -> None:
        if len(line) > max_request_line:
            self.requestline = self.command = ""
            sentence = f"Request line longer than {max_request_line} bytes"
            raise BadRequestError(HTTPStatus.REQUEST_URI_TOO_LONG, sentence)
        match = _REQUEST_LINE.fullmatch(line)
        if match is None:
            self.requestline = self.command = ""
            raise BadRequestError(HTTPStatus.BAD_REQUEST, "Malformed request line")
        method, target, major, minor = match.groups()
        self.requestline = line.decode("latin-1").rstrip("\r\n")
        self.command = method.decode("ascii")
        self.path = target.decode("latin-1")
        self.request_version = f"HTTP/{major.decode()}.{minor.decode()}"

    def _refuse(self, error: BadRequestError) -> None:
        body = str(error).encode("latin-1", "replace") + b"\n"
        head = (
            f"HTTP/1.1 {error.status.value} {error.status.phrase}\r\n"
            f"Content-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.wfile.write(head.encode("latin-1") + body)
        self.wfile.flush()
        self._drain()

    def _drain(self) -> None:
        """Take in what the client is still sending: a reset would wipe out the answer unread."""
        self.connection.settimeout(_DRAIN_SECONDS)
        left = _DRAIN_BYTES_MAX
        try:
            self.connection.shutdown(socket.SHUT_WR)
            while left > 0 and (piece := self.connection.recv(65536)):
                left -= len(piece)
        except OSError:
            pass  # it is gone, or too slow: closed all the same

    def get_environ(self) -> dict[str, Any]:
        """The WSGI environment of the request that was parsed."""
        env: dict[str, Any] = self.server.get_environ()
        target = self.path
        if target[0] != "/":  # absolute form, as sent to a forward proxy
            target = "/" + target.partition("://")[2].partition("/")[2]
        path, _, query = target.partition("?")
        env["REQUEST_METHOD"] = self.command
        env["SCRIPT_NAME"] = ""
        env["RAW_PATH_INFO"] = path
        env["PATH_INFO"] = _unquoted(path) if "%" in path else path
        env["QUERY_STRING"] = query
        env["SERVER_PROTOCOL"] = self.request_version
        env["SERVER_NAME"], env["SERVER_PORT"] = self._own_address()
        env["REMOTE_ADDR"] = self.client_address[0]
        env["REMOTE_PORT"] = str(self.client_address[1])
        length: str | None = None
        for name, value in self.headers.items():
            if name == "content-type":
                env["CONTENT_TYPE"] = value
            elif name == "content-length":
                env["CONTENT_LENGTH"] = length = value
            elif "_" not in name:  # X_A and X-A must not meet in one variable
                env["HTTP_" + upper_name(name).replace("-", "_")] = value
        chunked = "HTTP_TRANSFER_ENCODING" in env
        expects = env.get("HTTP_EXPECT", "").lower() == "100-continue"
        reader = ChunkedInput if chunked else wsgi.Input
        env["wsgi.input"] = env["eventlet.input"] = reader(
            self.rfile,
            None if chunked else length or "0",
            self.connection,
            wfile=self.wfile if expects else None,
            wfile_line=b"HTTP/1.1 100 Continue\r\n" if expects else None,
            chunked_input=chunked,
        )
        env["headers_raw"] = self.headers.pairs
        env["eventlet.posthooks"] = []
        return env

    def _own_address(self) -> tuple[str, str]:
        name = self.request.getsockname()
        return name[0], str(name[1])


def _unquoted(path: str) -> str:
    # Of bytes: of a text it would take what lies beyond ASCII for characters, and encode them.
    return unquote_to_bytes(path.encode("latin-1")).decode("latin-1")


def _read_headers(reader: Any) -> ParsedHeaders:
    """:raises BadRequestError: a line is too long or malformed, or there are too many."""
    headers = ParsedHeaders()
    while True:
        line: bytes = reader.readline(max_line_length + 1)
        if line in (b"\r\n", b"\n"):
            return headers
        if len(line) > max_line_length:
            sentence = f"Header line longer than {max_line_length} bytes"
            raise BadRequestError(HTTPStatus.BAD_REQUEST, sentence)
        if not line.endswith(b"\n"):
            raise BadRequestError(HTTPStatus.BAD_REQUEST, "Request ended within its headers")
        name, colon, value = line.partition(b":")
        value = value.strip(b" \t\r\n")
        if not colon or not _NAME.fullmatch(name) or _FORBIDDEN_IN_VALUE.search(value):
            raise BadRequestError(HTTPStatus.BAD_REQUEST, "Malformed header line")
        if len(headers.pairs) >= max_header_count:
            raise BadRequestError(HTTPStatus.BAD_REQUEST, f"More than {max_header_count} headers")
        headers.add(name.decode("latin-1"), value.decode("latin-1"))


def _check_framing(headers: ParsedHeaders) -> None:
    """:raises BadRequestError: the length of the body is told wrongly, twice or in two ways."""
    length = headers.get("content-length")
    encoding = headers.get("transfer-encoding")
    if length is not None:
        if not (length.isascii() and length.isdigit() and len(length) < 20):
            raise BadRequestError(HTTPStatus.BAD_REQUEST, "Malformed Content-Length")
        if encoding is not None:
            raise BadRequestError(
                HTTPStatus.BAD_REQUEST,
                "Content-Length and Transfer-Encoding are not allowed together",
            )
    if encoding is not None and encoding.lower() != "chunked":
        raise BadRequestError(
            HTTPStatus.NOT_IMPLEMENTED, "The only Transfer-Encoding served is chunked"
        )

# SPDX-License-Identifier: Apache-2.0
"""The body of a request, as ``wsgi.input``. The bytes after it stay unread."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from martlet.wsgi.head import BadRequestError, parse_fields
from martlet.wsgi.limits import Limits
from martlet.wsgi.stream import ClientStream

#: The longest line before a chunk; its extensions are ignored.
_CHUNK_HEADER_BYTES_MAX = 1024
_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_QUOTED = rb'"(?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*"'
_EXTENSION = rb";" + _TOKEN + rb"(?:=(?:" + _TOKEN + rb"|" + _QUOTED + rb"))?"
_CHUNK_HEADER = re.compile(rb"([0-9A-Fa-f]{1,15})(?:" + _EXTENSION + rb")*\r\n")
#: Fields that set the end of a request and its host; RFC 9110, 6.5.1 forbids such trailers.
_FRAMING = frozenset(("content-length", "host", "transfer-encoding"))
#: The size of one read while more is wanted.
_PIECE_BYTES = 64 * 1024


class ChunkError(ValueError):
    """A chunked body is malformed."""


class Body:
    """A body of a known length.

    :param ask: sends 100 Continue to a client that waits for it; called before the first read.
    """

    def __init__(
        self, stream: ClientStream, length: int, ask: Callable[[], None] | None = None
    ) -> None:
        self._stream = stream
        self._left = length
        self._ask = ask

    @property
    def is_finished(self) -> bool:
        """Whether all of it was read."""
        return self._left == 0

    @property
    def is_asked_for(self) -> bool:
        """Whether the client has been asked for the body; False while it waits for that."""
        return self._ask is None

    @property
    def left(self) -> int | None:
        """The number of unread bytes; None if unknown."""
        return self._left

    def read(self, size: int | None = -1) -> bytes:
        """Read the next ``size`` bytes, or all; fewer at the end of the body.

        :raises OSError: the connection is lost, or (TimeoutError) nothing came for too long.
        """
        wanted = -1 if size is None or size < 0 else size
        pieces = []
        while wanted:
            piece = self._piece(_PIECE_BYTES if wanted < 0 else wanted)
            if not piece:
                break
            pieces.append(piece)
            if wanted > 0:
                wanted -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def readline(self, size: int | None = -1) -> bytes:
        """Read the next line with its end, or its next ``size`` bytes.

        :raises OSError: as ``read``.
        """
        wanted = -1 if size is None or size < 0 else size
        line = bytearray()
        while wanted < 0 or len(line) < wanted:
            piece = self._piece(_PIECE_BYTES if wanted < 0 else wanted - len(line), is_line=True)
            line += piece
            if not piece or piece.endswith(b"\n"):
                break
        return bytes(line)

    def __iter__(self) -> Iterator[bytes]:
        while line := self.readline():
            yield line

    def _piece(self, size: int, *, is_line: bool = False) -> bytes:
        """Read 1 to ``size`` bytes, with ``is_line`` of one line; none at the end of the body."""
        if not self._left:
            return b""
        self._ask_once()
        piece = self._stream.read(min(size, self._left), is_line=is_line)
        self._left -= len(piece)
        return piece

    def _ask_once(self) -> None:
        if self._ask is not None:
            ask, self._ask = self._ask, None
            ask()


class ChunkedBody(Body):
    """A chunked body (RFC 9112, 7.1).

    Reading raises ChunkError if the body is malformed, and OSError if it ends too early. After that
    every read raises the same error, so that the connection cannot be used again.
    """

    def __init__(
        self, stream: ClientStream, limits: Limits, ask: Callable[[], None] | None = None
    ) -> None:
        super().__init__(stream, 0, ask)
        self._limits = limits
        self._is_finished = False
        self._failure: Exception | None = None

    @property
    def is_finished(self) -> bool:
        """Whether all of it was read."""
        return self._is_finished

    @property
    def left(self) -> None:
        """None: the number of unread bytes is unknown."""
        return None

    def _piece(self, size: int, *, is_line: bool = False) -> bytes:
        if self._is_finished:
            return b""
        if self._failure is not None:
            raise self._failure
        self._ask_once()
        try:
            return self._chunk_piece(size, is_line)
        except (OSError, ValueError) as error:
            self._failure = error
            raise

    def _chunk_piece(self, size: int, is_line: bool) -> bytes:
        if self._left == 0:
            self._left = self._next_chunk()
            if self._left == 0:
                self._read_trailers()
                self._is_finished = True
                return b""
        piece = self._stream.read(min(size, self._left), is_line=is_line)
        if not piece:
            raise OSError("the body ended within a chunk")
        self._left -= len(piece)
        if self._left == 0:
            end = self._stream.read_line(2)
            if end != b"\r\n":
                raise ChunkError("a chunk is longer than its header says")
        return piece

    def _next_chunk(self) -> int:
        line = self._stream.read_line(_CHUNK_HEADER_BYTES_MAX)
        match = _CHUNK_HEADER.fullmatch(line)
        if match is None:
            if not line.endswith(b"\n") and len(line) < _CHUNK_HEADER_BYTES_MAX:
                raise OSError("the body ended within a chunk header")
            raise ChunkError("a chunk header is malformed")
        return int(match[1], 16)

    def _read_trailers(self) -> None:
        """Read and discard the trailers; they obey the same rules as headers."""
        lines: list[bytes] = []
        left = self._limits.head_bytes
        while (line := self._stream.read_line(self._limits.header_line + 2)) != b"\r\n":
            left -= len(line)
            lines.append(line[:-2])
            if not line.endswith(b"\r\n") or left < 0 or len(lines) > self._limits.header_count:
                raise ChunkError("the trailers are malformed or too long")
        try:
            names = parse_fields(lines, self._limits)
        except BadRequestError as error:
            raise ChunkError(str(error)) from None
        if not _FRAMING.isdisjoint(names):
            raise ChunkError("a trailer may not set framing or host")

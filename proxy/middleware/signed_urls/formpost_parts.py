# SPDX-License-Identifier: Apache-2.0
"""A stream of the parts of a browser's form (``multipart/form-data``, RFC 7578).

Only the current chunk is in memory: a file is read from the client's connection while it is being
stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from multipart import MultipartError, MultipartSegment, PushMultipartParser

_CHUNK_BYTES = 65536
_VALUE_BYTES_MAX = 4096

#: The parser's events: a MultipartSegment, then pieces of its bytes, then None.
Event = Any


class FormError(ValueError):
    """The form is unreadable or violates its own limits; the message may be sent to the client."""


class Part:
    """A field or a file of a form: a stream that is valid until the next part is requested."""

    def __init__(self, segment: MultipartSegment, events: Iterator[Event]) -> None:
        self.name: str = (segment.name or "").lower()
        self.filename: str = segment.filename or ""
        self.is_file = segment.filename is not None
        self.headers = {name.lower(): value for name, value in segment.headerlist}
        self.bytes_max: int | None = None
        self.error: FormError | None = None
        self._events = events
        self._rest = b""
        self._is_at_end = False
        self._received = 0

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, at most ``size``; empty at the end of the part.

        :raises FormError: the form breaks off, or the part is larger than ``bytes_max``.
        """
        while not self._is_at_end and (size < 0 or len(self._rest) < size):
            self._rest += self._next_piece()
        if size < 0:
            size = len(self._rest)
        chunk, self._rest = self._rest[:size], self._rest[size:]
        return chunk

    def value(self) -> str:
        """Return a field's text, up to the longest allowed length."""
        return self.read(_VALUE_BYTES_MAX).decode("utf-8", "surrogateescape")

    def skip(self) -> None:
        """Read past the part."""
        self._rest, self.bytes_max = b"", None
        while not self._is_at_end:
            self._next_piece()

    def _next_piece(self) -> bytes:
        try:
            event = next(self._events, None)
        except FormError as error:
            self.error = error
            raise
        if event is None:
            self._is_at_end = True
            return b""
        self._received += len(event)
        if self.bytes_max is not None and self._received > self.bytes_max:
            self.error = FormError("max_file_size exceeded")
            raise self.error
        return bytes(event)


def parts_of(stream: BinaryIO, boundary: str) -> Iterator[Part]:
    """Yield the parts in order; requesting the next one skips the rest of a part.

    :raises FormError: it is not multipart/form-data with this boundary, or it breaks off.
    """
    events = _events(stream, boundary)
    while True:
        event = next(events, None)
        if event is None:
            return
        part = Part(event, events)
        yield part
        part.skip()


def _events(stream: BinaryIO, boundary: str) -> Iterator[Event]:
    try:
        with PushMultipartParser(boundary, strict=True) as parser:
            while not parser.closed:
                yield from parser.parse(stream.read(_CHUNK_BYTES))
    except MultipartError as error:
        raise FormError(f"the form cannot be read: {error}") from None

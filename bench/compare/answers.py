# SPDX-License-Identifier: Apache-2.0
"""The framing of an HTTP answer, for a client that keeps only what it must."""

from __future__ import annotations

from dataclasses import dataclass, field

_KEPT_BYTES_MAX = 4096
_HEAD_BYTES_MAX = 65_536


class BadAnswer(Exception):
    """The bytes are no answer, or one whose end is not known."""


@dataclass
class Answer:
    """One answer, fed piece by piece. The body is counted; only its first bytes are kept."""

    has_body: bool = True
    status: int = 0
    body_bytes: int = 0
    kept: bytearray = field(default_factory=bytearray)
    is_whole: bool = False
    is_last: bool = False
    _pending: bytearray = field(default_factory=bytearray)
    _left: int = 0
    _is_chunked: bool = False

    def feed(self, data: bytes) -> None:
        """Take received bytes.

        :raises BadAnswer: they cannot be understood.
        """
        if self.is_whole:
            raise BadAnswer("bytes after the end of an answer")
        if not self.status:
            self._pending += data
            end = self._pending.find(b"\r\n\r\n")
            if end < 0:
                if len(self._pending) > _HEAD_BYTES_MAX:
                    raise BadAnswer("headers without an end")
                return
            data = bytes(self._pending[end + 4 :])
            self._read_head(bytes(self._pending[:end]))
            self._pending.clear()
        if self._is_chunked:
            self._take_chunks(data)
        else:
            self._take(data)
            self.is_whole = not self._left

    def _read_head(self, head: bytes) -> None:
        lines = head.lower().split(b"\r\n")
        words = lines[0].split(b" ", 2)
        if not words[0].startswith(b"http/1.") or not words[1:] or not words[1].isdigit():
            raise BadAnswer(f"no answer: {lines[0][:80]!r}")
        self.status = int(words[1])
        headers = dict(
            (name.strip(), value.strip())
            for name, _, value in (line.partition(b":") for line in lines[1:])
        )
        self.is_last = headers.get(b"connection") == b"close"
        if not self.has_body or self.status in (204, 304):
            return
        if headers.get(b"transfer-encoding") == b"chunked":
            self._is_chunked = True
        elif headers.get(b"content-length", b"").isdigit():
            self._left = int(headers[b"content-length"])
        else:
            raise BadAnswer("a body without a length")

    def _take(self, data: bytes) -> None:
        if len(data) > self._left:
            raise BadAnswer("bytes after the end of an answer")
        self._left -= len(data)
        self.body_bytes += len(data)
        if len(self.kept) < _KEPT_BYTES_MAX:
            self.kept += data[: _KEPT_BYTES_MAX - len(self.kept)]

    def _take_chunks(self, data: bytes) -> None:
        """Read chunks: a length in hexadecimal digits, the bytes, a line end; the last is empty."""
        self._pending += data
        while not self.is_whole:
            end = self._pending.find(b"\r\n")
            if end < 0:
                return
            try:
                length = int(self._pending[:end].split(b";")[0], 16)
            except ValueError as error:
                raise BadAnswer(f"no chunk: {bytes(self._pending[:20])!r}") from error
            if len(self._pending) < end + length + 4:
                return
            chunk = bytes(self._pending[end + 2 : end + 2 + length])
            del self._pending[: end + length + 4]
            self._left = length
            self._take(chunk)
            self.is_whole = not length

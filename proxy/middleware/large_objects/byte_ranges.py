# SPDX-License-Identifier: Apache-2.0
"""The Range header of a large object, which a filter assembles, and a body of several ranges.

werkzeug.http.parse_range_header answers 8 of our 25 test headers unlike Swift: it ignores a header
whose ranges overlap or are not sorted, where Swift serves or rejects them.
"""

from __future__ import annotations

import itertools
import re
import secrets
from typing import NamedTuple

# The limits of the object servers. A header above them gets the answer of one that cannot be
# satisfied (RFC 9110, 17.15).
_RANGES_MAX = 50
_OVERLAPS_MAX = 2
_UNSORTED_MAX = 8
_OFFSET_DIGITS_MAX = 18

_SPEC = re.compile(r"(\d*)-(\d*)", re.ASCII)


class ByteRange(NamedTuple):
    """The bytes from ``first`` to ``last``, both included."""

    first: int
    last: int

    @property
    def length(self) -> int:
        """Bytes in the range."""
        return self.last - self.first + 1

    def content_range(self, size: int | None) -> str:
        """The Content-Range within ``size`` bytes; None: the size is unknown."""
        return f"bytes {self.first}-{self.last}/{'*' if size is None else size}"


def parse_ranges(header: str | None, size: int) -> list[ByteRange] | None:
    """The ranges of a Range header within ``size`` bytes, in the order of the header.

    None: without a header, or if it is malformed; all bytes are then sent. An empty list: no range
    can be satisfied.
    """
    unit, equals, listed = (header or "").replace(" ", "").partition("=")
    if not equals or unit.lower() != "bytes":
        return None
    ranges = []
    for spec in listed.split(","):
        match = _SPEC.fullmatch(spec)
        if match is None or spec == "-":
            return None
        first, last = (_offset(text) for text in match.groups())
        if first is not None and last is not None and last < first:
            return None
        ranges.append(_within(first, last, size))
    satisfiable = [found for found in ranges if found.length > 0]
    return [] if _is_egregious(satisfiable) else satisfiable


def _offset(digits: str) -> int | None:
    """The number. One that is too long for int() becomes one beyond the end of every object."""
    if not digits:
        return None
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) <= _OFFSET_DIGITS_MAX else 10**_OFFSET_DIGITS_MAX


def _within(first: int | None, last: int | None, size: int) -> ByteRange:
    """The part of the range that is within ``size`` bytes; its length may be 0 or less."""
    if first is None:
        return ByteRange(max(0, size - (last or 0)), size - 1)
    return ByteRange(first, size - 1 if last is None else min(last, size - 1))


def _is_egregious(ranges: list[ByteRange]) -> bool:
    if len(ranges) > _RANGES_MAX:
        return True
    overlaps = sum(
        a.first <= b.last and b.first <= a.last
        for index, a in enumerate(ranges)
        for b in ranges[index + 1 :]
    )
    is_sorted = all(a.first <= b.first for a, b in itertools.pairwise(ranges))
    return overlaps > _OVERLAPS_MAX or (not is_sorted and len(ranges) >= _UNSORTED_MAX)


class Multipart:
    """The frame of a 206 with several ranges (``multipart/byteranges``)."""

    #: After the bytes of each range.
    part_end = b"\r\n"

    def __init__(self, content_type: str, size: int, ranges: list[ByteRange]) -> None:
        """``content_type`` (a WSGI string) and ``size`` are those of the whole object."""
        self._boundary = secrets.token_hex(16)
        self._part_type = content_type
        self._size = size
        self._ranges = ranges

    @property
    def content_type(self) -> str:
        """The Content-Type of the response."""
        return f"multipart/byteranges;boundary={self._boundary}"

    def head(self, part: ByteRange) -> bytes:
        """The bytes before those of a range."""
        lines = (
            f"--{self._boundary}",
            f"Content-Type: {self._part_type}",
            f"Content-Range: {part.content_range(self._size)}",
            "\r\n",
        )
        return "\r\n".join(lines).encode("latin-1")

    @property
    def tail(self) -> bytes:
        """The end of the body."""
        return f"--{self._boundary}--".encode("latin-1")

    @property
    def length(self) -> int:
        """The Content-Length of the body."""
        parts = sum(
            len(self.head(part)) + part.length + len(self.part_end) for part in self._ranges
        )
        return parts + len(self.tail)

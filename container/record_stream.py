# SPDX-License-Identifier: Apache-2.0
"""Streams of records of object servers, as far as the reconciler has to know them.

A stream is that of doc/formats/replication.md, "Messages". Of a record only some fields of its
header are read (doc/formats/bundle.md, "Record"). The bytes are passed on as they are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import msgpack  # type: ignore[import-untyped]

from martlet.grid.stream import GridStream
from martlet.words.timestamp import Timestamp

PUT, SPILL, TOMBSTONE, DELETE_MARKER = 1, 2, 4, 5
#: The types of records that are versions.
VERSIONS = frozenset((PUT, SPILL, DELETE_MARKER))
NULL_ID = bytes(16)
# An id with one of these bits is that of a decision about which version is current.
_DECISION_BITS = 0xC0

_HEAD = struct.Struct("<IQ")
_LENGTH = struct.Struct("<I")
_NO_LARGE = 2**64 - 1
_END = struct.Struct("<I24xI")
_HEADER_BYTES = 128
# Type, version id, ticks and offset, length of the metadata, signature, length of the block.
_RECORD = struct.Struct("<5xB34x16sQQ12xI20xQ4xI4x")
#: In the metadata of the removal of a version that was moved to another policy.
_MOVED = "X-Object-Sysmeta-Moved"
_RECORD_BYTES_MAX = 64 << 20

#: The end of a stream from a sender without a position.
END = bytes(_END.size)


class StreamError(Exception):
    """The stream is not one of records, or ends too early."""


@dataclass(frozen=True, slots=True)
class RecordHead:
    """The fields of a record's header; two records with equal ones are the same write."""

    kind: int
    version_id: bytes
    timestamp: Timestamp
    signature: int
    #: It removes a version that was moved to another policy.
    is_of_move: bool = False

    @property
    def is_version(self) -> bool:
        """Whether the record is a version, not a removal."""
        return self.kind in VERSIONS

    @property
    def is_decision(self) -> bool:
        """Whether it says which version is current, or that none is."""
        return bool(self.version_id[0] & _DECISION_BITS)

    @property
    def version(self) -> str:
        """The id as it is in a row; empty for the null version, and for a decision."""
        if self.version_id == NULL_ID or self.is_decision:
            return ""
        ticks, offset = struct.unpack(">QQ", self.version_id)
        return Timestamp(Timestamp.from_ticks(ticks), offset).internal


class RecordStream:
    """Reads a stream of records.

    :param timeout: seconds to wait for more bytes.
    """

    def __init__(self, stream: GridStream, timeout: float) -> None:
        self._stream = stream
        self._timeout = timeout
        self._buffer = bytearray()
        self._left = 0  # bytes of the last record
        #: Records that the sender could not read, or holds back. Known at the end.
        self.skipped = 0

    def __iter__(self) -> Iterator[RecordHead]:
        """Yield each record. What was not read of one is skipped before the next.

        :raises StreamError: the stream is malformed.
        :raises BackendError: it was cut.
        """
        while True:
            for _ in self.parts():
                pass
            (length,) = _LENGTH.unpack(self._peek(_LENGTH.size))
            if not length:
                _, self.skipped = _END.unpack(self._peek(_END.size))
                return
            if not _RECORD.size <= length <= _RECORD_BYTES_MAX:
                raise StreamError(f"a record of {length} bytes")
            head = self._peek(_HEAD.size + _RECORD.size)
            _, large = _HEAD.unpack(head[: _HEAD.size])
            self._left = _HEAD.size + length + (0 if large == _NO_LARGE else large)
            kind, version_id, ticks, offset, size, signature, block = _RECORD.unpack(
                head[_HEAD.size :]
            )
            try:
                timestamp = Timestamp(Timestamp.from_ticks(ticks), offset)
            except ValueError as error:
                raise StreamError(f"a record without a time: {error}") from None
            is_of_move = kind == TOMBSTONE and self._is_of_move(length, block, size)
            yield RecordHead(kind, version_id, timestamp, signature, is_of_move)

    def parts(self) -> Iterator[bytes]:
        """Yield the bytes of the record, with its large object, as they are in the stream."""
        while self._left:
            if not self._buffer:
                self._fill()
            part = bytes(self._buffer[: self._left])
            del self._buffer[: len(part)]
            self._left -= len(part)
            yield part

    def _is_of_move(self, length: int, block: int, size: int) -> bool:
        """Whether the metadata of the record say so; they have ``size`` bytes behind the block."""
        start, end = _HEADER_BYTES + block, _HEADER_BYTES + block + size
        if end > length:
            raise StreamError("a record is shorter than its metadata")
        metadata = bytes(self._peek(_HEAD.size + end)[_HEAD.size + start :])
        try:
            fields = msgpack.unpackb(metadata, unicode_errors="surrogateescape")
            return _MOVED in (fields.get("x") or {})
        except (ValueError, AttributeError) as error:
            raise StreamError(f"a removal without metadata: {error}") from None

    def _peek(self, size: int) -> bytearray:
        while len(self._buffer) < size:
            self._fill()
        return self._buffer[:size]

    def _fill(self) -> None:
        data = self._stream.read(self._timeout)
        if not data:
            raise StreamError("it ends in the middle")
        self._buffer += data

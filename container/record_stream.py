# SPDX-License-Identifier: Apache-2.0
"""Streams of records of object servers, as far as the reconciler has to know them.

A stream is that of doc/formats/replication.md, "Messages". Of a record only some fields of its
header are read (doc/formats/bundle.md, "Record"). The bytes are passed on as they are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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


_NEVER = Timestamp.from_ticks(0)
#: Of a lock: c, then s and g, then o and h; see doc/formats/bundle.md, "Locks".
_Lock = tuple[Timestamp, tuple[Timestamp, Timestamp], tuple[Timestamp, bool]]
_UNLOCKED: _Lock = (_NEVER, (_NEVER, _NEVER), (_NEVER, False))


@dataclass(frozen=True, slots=True)
class RecordHead:
    """The fields of a record's header; two records with equal ones are the same write.

    ``metadata_at`` and ``type_at`` are the times of the parts that a POST has replaced. The time of
    the data stands for parts that came with them.
    """

    kind: int
    version_id: bytes
    timestamp: Timestamp
    signature: int
    #: It removes a version that was moved to another policy.
    is_of_move: bool = False
    metadata_at: Timestamp = _NEVER
    type_at: Timestamp = _NEVER
    lock: _Lock = _UNLOCKED

    @property
    def is_null(self) -> bool:
        """Whether it writes or removes the null version."""
        return self.version_id == NULL_ID

    def has_all_of(self, other: RecordHead) -> bool:
        """Whether this record of a version has the POSTs and the lock of another one of it."""
        return (
            (self.metadata_at >= other.metadata_at or other.metadata_at <= other.timestamp)
            and (self.type_at >= other.type_at or other.type_at <= other.timestamp)
            and self.lock[0] >= other.lock[0]
            and self.lock[1] >= other.lock[1]
            and self.lock[2] >= other.lock[2]
        )

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
            fields = self._metadata(length, block, size)
            try:
                known = _record_head(kind, version_id, timestamp, signature, fields)
            except (ValueError, TypeError, AttributeError) as error:
                raise StreamError(f"a record with other metadata: {error}") from None
            yield known

    def parts(self) -> Iterator[bytes]:
        """Yield the bytes of the record, with its large object, as they are in the stream."""
        while self._left:
            if not self._buffer:
                self._fill()
            part = bytes(self._buffer[: self._left])
            del self._buffer[: len(part)]
            self._left -= len(part)
            yield part

    def _metadata(self, length: int, block: int, size: int) -> Any:
        """The metadata of the record, which have ``size`` bytes behind the block."""
        start, end = _HEADER_BYTES + block, _HEADER_BYTES + block + size
        if end > length:
            raise StreamError("a record is shorter than its metadata")
        metadata = bytes(self._peek(_HEAD.size + end)[_HEAD.size + start :])
        try:
            return msgpack.unpackb(metadata, unicode_errors="surrogateescape")
        except ValueError as error:
            raise StreamError(f"a record without metadata: {error}") from None

    def _peek(self, size: int) -> bytearray:
        while len(self._buffer) < size:
            self._fill()
        return self._buffer[:size]

    def _fill(self) -> None:
        data = self._stream.read(self._timeout)
        if not data:
            raise StreamError("it ends in the middle")
        self._buffer += data


def _record_head(
    kind: int, version_id: bytes, time: Timestamp, signature: int, fields: Any
) -> RecordHead:
    if kind == TOMBSTONE:
        return RecordHead(kind, version_id, time, signature, _MOVED in (fields.get("x") or {}))
    posted = _time(fields.get("m")), _time(fields.get("y"))
    lock = _lock(fields["l"]) if fields.get("l") else _UNLOCKED
    return RecordHead(kind, version_id, time, signature, False, *posted, lock)


def _lock(fields: Any) -> _Lock:
    compliance, governance = _time(fields.get("c")), _time(fields.get("g"))
    set_at, hold_at = _time(fields.get("s")), _time(fields.get("o"))
    return compliance, (set_at, governance), (hold_at, bool(fields.get("h")))


def _time(value: Any) -> Timestamp:
    """Ticks, or ticks and offset; 0 stands for no time, and what is no time for none."""
    ticks, offset = value if isinstance(value, list) else (value or 0, 0)
    return Timestamp.from_ticks(int(ticks), int(offset))

# SPDX-License-Identifier: Apache-2.0
"""Reading martlet's own object files: metadata, segments of bundles (doc/formats/bundle.md).

This is a second reader of the format, beside the object server's. It reads the bytes alone, changes
nothing and needs no lock.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import google_crc32c
import msgpack  # type: ignore[import-untyped]

from cluster.errors import ClusterError
from martlet.words.timestamp import Timestamp

UNIT = 64
HEADER_BYTES = 128
CHUNK_BYTES = 64 << 10
SEGMENT_MAGIC = b"mrSG"

_RECORD_MAGIC = b"mrRC"
_SEGMENT = struct.Struct("<4sBxHIIII16sQQ")
_RECORD = struct.Struct("<4sBBHQII16s16sQQQIIQIIIQ")
_METADATA_MAX = 256 << 10
_RECORD_UNITS_MAX = (64 << 20) // UNIT

TYPES = {
    1: "PUT",
    2: "SPILL",
    3: "META",
    4: "TOMBSTONE",
    5: "DELETE MARKER",
    6: "VERSION DIRECTORY",
    7: "CHECKPOINT",
    8: "SEAL",
    9: "PAD",
}
FLAGS = {8: "has versions", 9: "version block"}
_WITH_BLOCK = 1 << 9
_SEAL = 8
_DESCRIPTOR_BYTES = 16
#: The keys of a metadata map, and their names here.
_KEYS = {
    "n": ("name", str),
    "c": ("content_type", str),
    "e": ("etag", str),
    "s": ("size", int),
    "d": ("delete_at", int),
    "t": ("timestamp", list),
    "m": ("meta_timestamp", list),
    "y": ("type_timestamp", list),
    "x": ("system", dict),
    "u": ("user", dict),
}


@dataclass(frozen=True)
class Metadata:
    """The metadata of an object."""

    name: str
    content_type: str
    etag: str
    size: int
    delete_at: int
    timestamp: Timestamp
    meta_timestamp: Timestamp
    type_timestamp: Timestamp
    system: dict[str, str]
    user: dict[str, str]


def decode_metadata(raw: bytes) -> Metadata:
    """:raises ClusterError: it is not the metadata of an object."""
    try:
        fields = msgpack.unpackb(raw, unicode_errors="surrogateescape", strict_map_key=False)
    except Exception as error:  # msgpack raises several kinds on damaged bytes
        raise ClusterError(f"the metadata are no MessagePack: {error}") from None
    values: dict[str, Any] = {}
    for key, (name, kind) in _KEYS.items():
        value = fields.get(key) if isinstance(fields, dict) else None
        if value is None and kind is dict:
            value = {}
        if not isinstance(value, kind):
            raise ClusterError(f"the metadata are damaged: no {name.replace('_', ' ')}")
        values[name] = _timestamp(value) if kind is list else value
    return Metadata(**values)


def _timestamp(pair: object) -> Timestamp:
    match pair:
        case [int(ticks), int(offset)]:
            try:
                return Timestamp(Timestamp.from_ticks(ticks), offset)
            except ValueError as error:
                raise ClusterError(f"the metadata are damaged: {error}") from None
    raise ClusterError("the metadata are damaged: a timestamp is none")


@dataclass(frozen=True)
class Segment:
    """The header of a segment."""

    policy: int
    partition: int
    sequence: int
    generation: int
    uuid: bytes
    base_lsn: int
    created: Timestamp

    @property
    def salt(self) -> int:
        """The number that each record of the segment repeats."""
        return crc(self.uuid)


def crc(data: bytes | memoryview) -> int:
    """CRC-32C."""
    return int(google_crc32c.value(bytes(data)))


def parse_segment(data: memoryview) -> Segment:
    """:raises ClusterError: the header is damaged, or of a newer version."""
    if len(data) < HEADER_BYTES:
        raise ClusterError("the segment is cut off in its header")
    head = data[:HEADER_BYTES]
    if _stored_crc(head) != crc(head[:-4]):
        raise ClusterError("the segment's header is damaged: its checksum is wrong")
    _, version, _, policy, partition, sequence, generation, uuid, base, created = (
        _SEGMENT.unpack_from(head)
    )
    if version != 1:
        raise ClusterError(f"the segment is of version {version}, which is not known here")
    return Segment(
        policy, partition, sequence, generation, uuid, base, Timestamp.from_ticks(created)
    )


def _stored_crc(head: memoryview) -> int:
    return int.from_bytes(head[HEADER_BYTES - 4 : HEADER_BYTES], "little")


@dataclass(frozen=True)
class Record:
    """One record of a segment; ``data`` is the whole record."""

    offset: int
    data: memoryview
    version: int
    type: int
    flags: int
    lsn: int
    salt: int
    units: int
    hash: bytes
    version_id: bytes
    timestamp: Timestamp
    previous: int
    versions: int
    metadata_bytes: int
    size: int
    metadata_crc: int
    data_crc: int
    block_bytes: int

    @property
    def type_name(self) -> str:
        """``PUT``, or ``unknown type 12``."""
        return TYPES.get(self.type, f"unknown type {self.type}")

    @property
    def flag_names(self) -> list[str]:
        """One name for each bit that is set."""
        return [FLAGS.get(bit, f"unknown flag {bit}") for bit in range(16) if self.flags >> bit & 1]

    @property
    def large_id(self) -> int:
        """The name of the large file of a SPILL; else 0."""
        start = self._body
        return int.from_bytes(self.data[start : start + 8], "little") if self.type == 2 else 0

    @property
    def _body(self) -> int:
        """The offset behind the metadata."""
        return HEADER_BYTES + self.block_bytes + self.metadata_bytes

    @property
    def has_metadata(self) -> bool:
        """Whether there are metadata of a name."""
        return self.type <= 5 and self.metadata_bytes > 0

    def metadata(self) -> Metadata:
        """:raises ClusterError: they are damaged."""
        raw = self.data[HEADER_BYTES : self._body]
        if len(raw) < self._body - HEADER_BYTES or crc(raw) != self.metadata_crc:
            raise ClusterError("the metadata are damaged: their checksum is wrong")
        return decode_metadata(bytes(raw[self.block_bytes :]))

    def check_data(self) -> str:
        """``valid``, ``none``, ``in the large file``, or the damage."""
        if self.type not in (1, 2):
            return "none"
        table_bytes = 4 * -(-self.size // CHUNK_BYTES)
        inside = self.size if self.type == 1 else _DESCRIPTOR_BYTES
        table_at = self._body + inside
        proved = self.data[table_at if self.type == 1 else self._body : table_at + table_bytes]
        if table_at + table_bytes > len(self.data) or crc(proved) != self.data_crc:
            return "damaged: the table of checksums is wrong"
        if self.type == 2:
            return "in the large file"
        table = self.data[table_at : table_at + table_bytes].cast("I")
        for index, expected in enumerate(table):
            start = self._body + index * CHUNK_BYTES
            if crc(self.data[start : min(start + CHUNK_BYTES, table_at)]) != expected:
                return f"damaged: chunk {index}"
        return "valid"


def parse_record(data: memoryview, offset: int) -> Record | None:
    """The record at ``offset``; None: no record begins there."""
    record = _parse_header(data, offset)
    if record is None or record.type == _SEAL or offset + record.units * UNIT > len(data):
        return None
    return replace(record, data=data[offset : offset + record.units * UNIT])


def parse_seal(data: memoryview) -> Record | None:
    """The footer of a segment, whose header stands at its end; None if there is none."""
    record = _parse_header(data, max(len(data) - HEADER_BYTES, 0))
    if record is None or record.type != _SEAL or record.units * UNIT > len(data) - HEADER_BYTES:
        return None
    offset = len(data) - record.units * UNIT
    return replace(record, offset=offset, data=data[offset:])


def _parse_header(data: memoryview, offset: int) -> Record | None:
    head = data[offset : offset + HEADER_BYTES]
    if len(head) < HEADER_BYTES or head[:4] != _RECORD_MAGIC or _stored_crc(head) != crc(head[:-4]):
        return None
    (
        _, version, kind, flags, lsn, salt, units, name_hash, version_id, ticks, offset_of_time,
        previous, versions, metadata_bytes, size, metadata_crc, data_crc, _, _,
    ) = _RECORD.unpack_from(head)  # fmt: skip
    if not 2 <= units <= _RECORD_UNITS_MAX or metadata_bytes > _METADATA_MAX:
        return None
    return Record(
        offset=offset,
        data=head,
        version=version,
        type=kind,
        flags=flags,
        lsn=lsn,
        salt=salt,
        units=units,
        hash=name_hash,
        version_id=version_id,
        timestamp=_clamped(ticks, offset_of_time),
        previous=previous,
        versions=versions,
        metadata_bytes=metadata_bytes,
        size=size,
        metadata_crc=metadata_crc,
        data_crc=data_crc,
        block_bytes=int.from_bytes(head[120:124], "little") if flags & _WITH_BLOCK else 0,
    )


def _clamped(ticks: int, offset: int) -> Timestamp:
    try:
        return Timestamp(Timestamp.from_ticks(ticks), offset)
    except ValueError:
        return Timestamp(0)


def records(data: memoryview, salt: int) -> Iterator[Record | tuple[int, int]]:
    """The records of a segment in order, and (offset, bytes) of each part without records."""
    seal = parse_seal(data)
    end = seal.offset if seal and seal.salt == salt else len(data)
    place = lost = HEADER_BYTES
    while place + HEADER_BYTES <= end:
        record = parse_record(data, place)
        if record is None or record.salt != salt:
            place += UNIT
            continue
        if lost < place:
            yield lost, place - lost
        yield record
        place = lost = place + record.units * UNIT
    if lost < end:
        yield lost, end - lost
    if seal and end < len(data):
        yield seal

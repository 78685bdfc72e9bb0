# SPDX-License-Identifier: Apache-2.0
"""The ring file, versions 1 and 2 (doc/formats/ring.md); bytes in, bytes out.

Version 1:  "R1NG" | u16 1 | u32 length, JSON | one row of u16 device ids per replica
Version 2:  "R1NG" | u16 2 | sections, each u64 length, blob | index | u64, u64 offset of the index

All of it is one gzip stream. The magic and the trailing offsets are stored uncompressed. Each
section ends in a full flush. So tools can seek in the compressed file.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import sys
import zlib
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ring.devices import Device, checked_device
from ring.errors import DeviceError, RingFileError
from ring.gzip_stream import GzipStreamWriter, inflate
from ring.table import TYPE_CODES, Table

MAGIC = b"R1NG"  # on disk, never change
JSON_BYTES_MAX = 256 * 2**20
TABLE_BYTES_MAX = 4 * 2**30
FILE_BYTES_MAX = TABLE_BYTES_MAX + JSON_BYTES_MAX
PART_POWER_MAX = 32
REPLICAS_MAX = 256
_UTF_16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"
METADATA, DEVICES, ASSIGNMENTS = (
    "swift/ring/metadata",
    "swift/ring/devices",
    "swift/ring/assignments",
)


@dataclass(slots=True)
class RingData:
    """The content of a ring file. ``table[replica][partition]`` is a device id.

    The last row of the table may be short.
    ``devs[id]`` is that device, or None where a device was removed.
    """

    devs: list[Device | None]
    part_shift: int
    table: Table = field(default_factory=list)
    version: int | None = None
    next_part_power: int | None = None
    # Of the file that the ring was read from; not a property of the ring itself.
    format_version: int = field(default=1, compare=False)

    @property
    def partition_count(self) -> int:
        """2 ** part power."""
        return 1 << (32 - self.part_shift)

    @property
    def replica_count(self) -> float:
        """Rows of the table, the last one counted by how far it is filled."""
        if not self.table:
            return 0.0
        return len(self.table) - 1 + len(self.table[-1]) / self.partition_count

    @property
    def dev_id_bytes(self) -> int:
        """Width of a device id in the table."""
        return max((row.itemsize for row in self.table), default=2)

    def widen_ids(self, width: int) -> None:
        """Makes device ids in the table ``width`` bytes wide.

        :raises ValueError: there are ids that so few bytes do not hold.
        """
        if width == 2 and len(self.devs) >= 2**16 - 1:
            raise ValueError(f"{len(self.devs)} device ids do not fit into 2 bytes")
        self.table = [array(TYPE_CODES[width], row) for row in self.table]


def read_ring(path: Path) -> RingData:
    """The ring in ``path``.

    :raises RingFileError: missing, unreadable, damaged, or of an unknown version.
    """
    try:
        size = path.stat().st_size
        if size > FILE_BYTES_MAX:
            raise RingFileError(f"{size} bytes are too many for a ring file")
        return decode_ring(path.read_bytes())
    except OSError as error:
        raise RingFileError(f"{path}: {error.strerror}") from error
    except RingFileError as error:
        raise RingFileError(f"{path}: {error}") from error


def decode_ring(raw: bytes) -> RingData:
    """The ring in the bytes of a ring file.

    :raises RingFileError: with the reason.
    """
    try:
        plain = memoryview(inflate(raw, FILE_BYTES_MAX))
    except (zlib.error, ValueError) as error:
        raise RingFileError(f"not a whole gzip stream: {error}") from error
    if len(plain) < 6 or plain[:4] != MAGIC:
        raise RingFileError("not a ring file: it does not start with R1NG")
    (version,) = struct.unpack_from("!H", plain, 4)
    if version == 1:
        return _decode_v1(plain)
    if version == 2:
        data = _decode_v2(plain)
        data.format_version = 2
        return data
    raise RingFileError(f"ring format version {version} is not known")


def encode_ring(data: RingData, file_name: str, format_version: int = 1) -> bytes:
    """The bytes of a ring file; equal rings under one ``file_name`` give equal bytes.

    :raises ValueError: the format version is not 1 or 2, or version 1 cannot hold the device ids.
    """
    if format_version == 1:
        return _encode_v1(data, file_name)
    if format_version == 2:
        return _encode_v2(data, file_name)
    raise ValueError(f"ring format version {format_version} cannot be written, only 1 and 2")


# --- version 1 --------------------------------------------------------------------------------


def _decode_v1(plain: memoryview) -> RingData:
    if len(plain) < 10:
        raise RingFileError("cut off before its description")
    (length,) = struct.unpack_from("!I", plain, 6)
    if length > JSON_BYTES_MAX or 10 + length > len(plain):
        raise RingFileError(f"its description claims {length} bytes, more than there are")
    about = _json_object(plain[10 : 10 + length])
    byteorder = about.get("byteorder", sys.byteorder)
    if byteorder not in ("little", "big"):
        raise RingFileError(f"byteorder {byteorder!r} is not known")
    rows = about.get("replica_count")
    if type(rows) is not int or not 0 <= rows <= REPLICAS_MAX:
        raise RingFileError(f"replica_count {rows!r} is not 0 to {REPLICAS_MAX}")
    table = plain[10 + length :]
    return _checked(about, about.get("devs"), _rows(about, rows, table, 2, byteorder))


def _encode_v1(data: RingData, file_name: str) -> bytes:
    if data.dev_id_bytes != 2:
        raise ValueError("device ids above 65534 need ring format version 2")
    about: dict[str, Any] = {
        "byteorder": sys.byteorder,
        "devs": data.devs,
        "part_shift": data.part_shift,
        "replica_count": len(data.table),
    }
    about.update(_optional(data))
    text = _json_bytes(about)
    stream = GzipStreamWriter(file_name)
    _write_magic(stream, 1)
    stream.write(struct.pack("!I", len(text)))
    stream.write(text)
    for row in data.table:
        stream.write(row.tobytes())
    return stream.finish()


# --- version 2 --------------------------------------------------------------------------------


def _decode_v2(plain: memoryview) -> RingData:
    index = _read_index(plain)
    about = _json_object(_section(plain, index, METADATA))
    devs = _json(_section(plain, index, DEVICES))
    width = about.get("dev_id_bytes")
    if width not in TYPE_CODES:
        raise RingFileError(f"dev_id_bytes {width!r} is not 2 or 4")
    replicas = about.get("replica_count")
    if not isinstance(replicas, int | float) or not 0 <= replicas <= REPLICAS_MAX:
        raise RingFileError(f"replica_count {replicas!r} is not 0 to {REPLICAS_MAX}")
    table = _section(plain, index, ASSIGNMENTS)
    data = _checked(about, devs, _rows(about, -(-replicas // 1), table, width, "big"))
    if abs(data.replica_count - replicas) > 0.5 / data.partition_count:
        raise RingFileError(f"{replicas} replicas are promised, {data.replica_count} are there")
    return data


def _read_index(plain: memoryview) -> Mapping[str, Any]:
    if len(plain) < 6 + 8 + 16:
        raise RingFileError("cut off before its index")
    (start,) = struct.unpack_from("!Q", plain, len(plain) - 16)
    return _json_object(_blob(plain, start, len(plain) - 16))


def _blob(plain: memoryview, start: int, end: int) -> memoryview:
    """The blob whose length is at ``start``; it ends exactly at ``end``."""
    if not 0 <= start <= end - 8 or end > len(plain):
        raise RingFileError(f"a section at {start} to {end} lies outside of the file")
    (length,) = struct.unpack_from("!Q", plain, start)
    if length != end - start - 8:
        raise RingFileError(f"a section of {end - start - 8} bytes claims {length}")
    return plain[start + 8 : end]


def _section(plain: memoryview, index: Mapping[str, Any], name: str) -> memoryview:
    entry = index.get(name)
    if not isinstance(entry, list) or len(entry) != 6 or any(type(n) is not int for n in entry[:4]):
        raise RingFileError(f"the index has no proper entry for {name}")
    _, start, _, end, method, wanted = entry
    blob = _blob(plain, start, end)
    if method not in ("md5", "sha1", "sha256", "sha512"):
        raise RingFileError(f"digest {method!r} of {name} is not known")
    found = hashlib.new(method, plain[start:end], usedforsecurity=False).hexdigest()
    if found != wanted:
        raise RingFileError(f"{name} is damaged: its {method} is {found}, not {wanted}")
    return blob


def _encode_v2(data: RingData, file_name: str) -> bytes:
    width = data.dev_id_bytes
    about: dict[str, Any] = {
        "dev_id_bytes": width,
        "part_shift": data.part_shift,
        "replica_count": data.replica_count,
        "version": None,
    }
    about.update(_optional(data))
    stream = GzipStreamWriter(file_name)
    _write_magic(stream, 2)
    index = {
        METADATA: _write_section(stream, _json_bytes(about)),
        DEVICES: _write_section(stream, _json_bytes(data.devs)),
        ASSIGNMENTS: _write_section(
            stream, b"".join(_big_endian(row, width) for row in data.table)
        ),
    }
    start = (stream.plain_size, stream.compressed_size)
    text = _json_bytes(index)
    stream.write(struct.pack("!Q", len(text)) + text)
    stream.set_level(0)
    for offset in start:
        stream.write(struct.pack("!Q", offset))
        stream.full_flush()
    return stream.finish()


def _write_section(stream: GzipStreamWriter, blob: bytes) -> list[int | str]:
    compressed_start, start = stream.compressed_size, stream.plain_size
    whole = struct.pack("!Q", len(blob)) + blob
    stream.write(whole)
    stream.full_flush()
    digest = hashlib.sha256(whole).hexdigest()
    return [compressed_start, start, stream.compressed_size, stream.plain_size, "sha256", digest]


def _big_endian(row: array[int], width: int) -> bytes:
    wide = array(TYPE_CODES[width], row)
    if sys.byteorder == "little":
        wide.byteswap()
    return wide.tobytes()


# --- both -------------------------------------------------------------------------------------


def _write_magic(stream: GzipStreamWriter, version: int) -> None:
    stream.set_level(0)
    stream.write(struct.pack("!4sH", MAGIC, version))
    stream.set_level(9)


def _optional(data: RingData) -> dict[str, int]:
    values = {"version": data.version, "next_part_power": data.next_part_power}
    return {key: value for key, value in values.items() if value is not None}


def _json_bytes(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=True).encode("ascii")


def _json(text: memoryview) -> Any:
    if len(text) > JSON_BYTES_MAX:
        raise RingFileError(f"{len(text)} bytes of JSON are too many")
    try:
        return json.loads(bytes(text))
    except (ValueError, RecursionError) as error:
        raise RingFileError(f"its description is not JSON: {error}") from error


def _json_object(text: memoryview) -> dict[str, Any]:
    value = _json(text)
    if not isinstance(value, dict):
        raise RingFileError("its description is not a JSON object")
    return value


def _rows(
    about: Mapping[str, Any], count: float, table: memoryview, width: int, byteorder: str
) -> Table:
    """``count`` rows of device ids; each but the last must be whole.

    OpenStack Swift also counts a last row without any id, for a fraction too small for one.
    """
    shift = about.get("part_shift")
    if type(shift) is not int or not 32 - PART_POWER_MAX <= shift <= 32:
        raise RingFileError(f"part_shift {shift!r} is not 0 to 32")
    row_bytes = width << (32 - shift)
    lowest = (count - 1) * row_bytes if count else -1
    is_last_row_empty = count > 1 and len(table) == lowest
    is_fitting = lowest < len(table) <= count * row_bytes or is_last_row_empty
    if not is_fitting or len(table) % width:
        raise RingFileError(f"{len(table)} bytes of assignments do not make {count:g} rows")
    rows = []
    for start in range(0, len(table), row_bytes):
        row = array(TYPE_CODES[width])
        row.frombytes(table[start : start + row_bytes])
        if byteorder != sys.byteorder:
            row.byteswap()
        rows.append(row)
    return rows


def _checked(about: Mapping[str, Any], devs: object, table: Table) -> RingData:
    """The ring, if every device is valid and every id in the table is a device."""
    if not isinstance(devs, list):
        raise RingFileError("it has no list of devices")
    # In place, so that the memory of a device as it was read is free for the next one.
    checked: list[Any] = devs
    for number, dev in enumerate(checked):
        try:
            checked[number] = None if dev is None else checked_device({"region": 1, **dev})
        except (DeviceError, TypeError) as error:
            raise RingFileError(f"device {number}: {error}") from error
        if dev is not None and dev.get("id") != number:
            raise RingFileError(f"device {number} says that its id is {dev.get('id')!r}")
    for device in filter(None, checked):
        # A thousand devices have a hundred addresses and a dozen names.
        device["ip"] = sys.intern(device["ip"])
        device["replication_ip"] = sys.intern(device["replication_ip"])
        device["device"] = sys.intern(device["device"])
        device["meta"] = sys.intern(device["meta"])
    known = {dev_id for dev_id, dev in enumerate(checked) if dev is not None}
    for row in table:
        if unknown := _unknown_ids(row, known):
            raise RingFileError(f"partitions are on device {min(unknown)}, which does not exist")
    for key in ("version", "next_part_power"):
        if about.get(key) is not None and type(about[key]) is not int:
            raise RingFileError(f"{key} {about[key]!r} is not a whole number")
    return RingData(
        devs=checked,
        part_shift=about["part_shift"],
        table=table,
        version=about.get("version"),
        next_part_power=about.get("next_part_power"),
    )


def _unknown_ids(row: array[int], known: set[int]) -> set[int]:
    """The ids in a row that are not among ``known``.

    The difference of sets at the end is enough. The search before it only saves time: 65 of 112 ms
    for three rows of part power 20. It reads ids of two bytes as characters, in C. A surrogate pair
    is one character above 0xFFFF, so it is not found, and the sets decide.
    """
    if row.itemsize == 2 and known and max(known) < 0x10000:
        known_characters = re.escape("".join(map(chr, known)))
        text = str(memoryview(row).cast("B"), _UTF_16, "surrogatepass")
        if re.fullmatch(f"[{known_characters}]*", text):
            return set()
    return set(row) - known

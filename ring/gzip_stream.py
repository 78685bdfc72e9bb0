# SPDX-License-Identifier: Apache-2.0
"""A gzip stream with flush points at known offsets, and a reader with a limit."""

from __future__ import annotations

import struct
import zlib

# The same time in every ring file, so that equal rings are equal files.
MTIME_SECONDS = 1300507380
_HAS_NAME = 8
_BEST_COMPRESSION = 2
_UNKNOWN_SYSTEM = 255


class GzipStreamWriter:
    """A writer of one gzip member into memory; starts at the highest compression level."""

    def __init__(self, file_name: str) -> None:
        """``file_name`` (its last part, without .gz) is written to the gzip header."""
        name = file_name.rpartition("/")[2].removesuffix(".gz")
        try:
            name_field = name.encode("latin-1") + b"\0" if name else b""
        except UnicodeEncodeError:
            name_field = b""  # the header allows Latin-1 only; the name is optional
        flags = _HAS_NAME if name_field else 0
        header = struct.pack(
            "<BBBBIBB", 0x1F, 0x8B, 8, flags, MTIME_SECONDS, _BEST_COMPRESSION, _UNKNOWN_SYSTEM
        )
        self._out = bytearray(header + name_field)
        self._deflate = self._new_deflate(9)
        self._crc = 0
        self._flushed = True
        self.plain_size = 0

    @property
    def compressed_size(self) -> int:
        """The bytes of the file so far, after a full flush: a position to start reading from."""
        self.full_flush()
        return len(self._out)

    def write(self, data: bytes) -> None:
        """Add plain bytes."""
        if data:
            self._crc = zlib.crc32(data, self._crc)
            self.plain_size += len(data)
            self._out += self._deflate.compress(data)
            self._flushed = False

    def full_flush(self) -> None:
        """End the block so that the following data can be inflated separately."""
        if not self._flushed:
            self._out += self._deflate.flush(zlib.Z_FULL_FLUSH)
            self._flushed = True

    def set_level(self, level: int) -> None:
        """Compress the following data with ``level`` (0 stores it)."""
        self.full_flush()
        self._deflate = self._new_deflate(level)

    def finish(self) -> bytes:
        """Return the whole file; it cannot be written to afterwards."""
        self._out += self._deflate.flush(zlib.Z_FINISH)
        self._out += struct.pack("<II", self._crc, self.plain_size & 0xFFFFFFFF)
        return bytes(self._out)

    @staticmethod
    def _new_deflate(level: int) -> zlib._Compress:
        return zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, 0)


def inflate(raw: bytes, bytes_max: int) -> bytes:
    """Decompress one gzip member, and check its CRC and length.

    :raises ValueError: it is longer than ``bytes_max``, truncated, or followed by other data.
    :raises zlib.error: it is damaged.
    """
    inflator = zlib.decompressobj(zlib.MAX_WBITS + 16)
    out = inflator.decompress(raw, bytes_max + 1)
    if len(out) > bytes_max:
        raise ValueError(f"it has more than {bytes_max} bytes")
    if not inflator.eof:
        raise ValueError("it is cut off")
    if inflator.unused_data:
        raise ValueError("something else follows its end")
    return out

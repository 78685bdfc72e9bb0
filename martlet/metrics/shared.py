# SPDX-License-Identifier: Apache-2.0
"""Numbers that all worker processes of a service share, so that each of them knows the totals.

The memory has a region for each process. Only its process writes to it, so an addition needs no
lock. A region has rows: a key in text, and numbers. When a worker ends, the next one continues its
region and its counts. After a reload the new program finds the same memory by its descriptor.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Row = memoryview[float]  # the class takes no parameter at run time before Python 3.14

REGIONS = 256
REGION_BYTES = 128 * 1024
KEY_BYTES = 104
#: Numbers of a row.
WIDTH = 15
#: The key of the row that counts for those that have no place.
OVERFLOW = "overflow"

_ROW_BYTES = KEY_BYTES + 8 * WIDTH
_HEAD_BYTES = 64
_ROWS_MAX = (REGION_BYTES - _HEAD_BYTES) // _ROW_BYTES
#: In front of the regions: the version of this layout. A program with another one begins anew.
_PREFACE = b"martlet metrics 1".ljust(4096, b"\0")
_SIZE = len(_PREFACE) + REGIONS * REGION_BYTES
_VARIABLE = "MARTLET_METRICS"
_COUNT = struct.Struct("<Q")
#: struct flock of Linux: type, whence, start, length, process.
_FLOCK = struct.Struct("@hhqqi4x")


class Region:
    """The rows of one process."""

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self._rows: dict[str, Row] = {}
        for key, numbers in _read(memory):
            self._rows[key] = numbers

    def row(self, key: str) -> Row:
        """The numbers under a key, zeros at first; those of ``OVERFLOW`` if the region is full."""
        found = self._rows.get(key)
        if found is None:
            if len(self._rows) >= _ROWS_MAX - 1 and key != OVERFLOW:
                return self.row(OVERFLOW)
            found = self._rows[key] = self._append(key)
        return found

    def set_all(self, prefix: str, values: Mapping[str, float]) -> None:
        """Set the first number of the rows with this prefix; those without a value become 0."""
        for key, numbers in self._rows.items():
            if key.startswith(prefix) and key not in values:
                numbers[0] = 0.0
        for key, value in values.items():
            self.row(key)[0] = value

    def _append(self, key: str) -> Row:
        index = len(self._rows)
        start = _HEAD_BYTES + index * _ROW_BYTES
        # A key that is too long loses its end.
        text = key.encode("utf-8", "surrogateescape")[:KEY_BYTES].ljust(KEY_BYTES, b"\0")
        self._memory[start : start + KEY_BYTES] = text
        # Readers see the row from now on.
        _COUNT.pack_into(self._memory, 0, index + 1)
        return _numbers(self._memory, start)


class SharedTable:
    """The memory of a service. Its workers are forked from the process that made it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._memory = memoryview(mmap.mmap(descriptor, _SIZE))
        self._own: int | None = None  # the region of this process

    @classmethod
    def open(cls) -> SharedTable:
        """New memory, or that of this process from before a reload."""
        process, _, number = os.environ.pop(_VARIABLE, "").partition(":")
        if process == str(os.getpid()) and number.isdecimal() and _is_ours(int(number)):
            return cls(int(number))._announce()
        descriptor = os.memfd_create("martlet-metrics")
        os.ftruncate(descriptor, _SIZE)  # pages that are never written take no memory
        os.pwrite(descriptor, _PREFACE, 0)
        return cls(descriptor)._announce()

    def claim(self) -> Region:
        """The region of this process until it ends; a private one if all are taken."""
        for index in range(REGIONS):
            try:
                # The kernel releases the lock when the process ends, in whatever way.
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, index)
            except OSError:
                continue
            self._own = index
            return Region(self._region(index))
        return private_region()

    def rows(self) -> Iterator[tuple[bool, str, Row]]:
        """The rows of all regions, and whether the process of the region lives.

        A key comes once for each region that has it.
        """
        for index in range(REGIONS):
            region = self._region(index)
            if _COUNT.unpack_from(region, 0)[0]:
                is_live = self._is_claimed(index)
                for key, numbers in _read(region):
                    yield is_live, key, numbers

    def _is_claimed(self, index: int) -> bool:
        if index == self._own:
            return True
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, index, 1, 0)
        found = _FLOCK.unpack(fcntl.fcntl(self._descriptor, fcntl.F_GETLK, asked))
        return bool(found[0] != fcntl.F_UNLCK)

    def _region(self, index: int) -> memoryview:
        start = len(_PREFACE) + index * REGION_BYTES
        return self._memory[start : start + REGION_BYTES]

    def _announce(self) -> SharedTable:
        """Leave the descriptor open for the program that a reload executes in this process."""
        os.set_inheritable(self._descriptor, True)
        os.environ[_VARIABLE] = f"{os.getpid()}:{self._descriptor}"
        return self


def _is_ours(descriptor: int) -> bool:
    """Whether it is memory of this layout; another file, or none, may have its number."""
    try:
        return os.pread(descriptor, len(_PREFACE), 0) == _PREFACE
    except OSError:
        return False


def private_region() -> Region:
    """A region that no other process sees."""
    return Region(memoryview(bytearray(REGION_BYTES)))


def _read(memory: memoryview) -> Iterator[tuple[str, Row]]:
    (count,) = _COUNT.unpack_from(memory, 0)
    for index in range(min(count, _ROWS_MAX)):
        start = _HEAD_BYTES + index * _ROW_BYTES
        key = bytes(memory[start : start + KEY_BYTES]).rstrip(b"\0")
        yield key.decode("utf-8", "surrogateescape"), _numbers(memory, start)


def _numbers(memory: memoryview, start: int) -> Row:
    return memory[start + KEY_BYTES : start + _ROW_BYTES].cast("d")

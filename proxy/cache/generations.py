# SPDX-License-Identifier: Apache-2.0
"""Generations shared by worker processes: how one worker tells the others that a key changed.

An anonymous shared mapping of 64-bit slots, made before the workers are forked. A key belongs to
one slot; bumping the key writes a value never used before into it. What was remembered under the
old value no longer counts. Keys that share a slot cause each other needless misses, nothing worse.

A slot is written by one aligned 8-byte store, and no value comes twice, so two writers need no
lock: whichever wins, the old value is gone. The mapping dies with the processes; a worker forked
later to replace a dead one inherits it.
"""

from __future__ import annotations

import mmap
import random
from zlib import crc32

SLOT_COUNT = 16384
_SLOT_BYTES = 8


class SharedGenerations:
    """The generation of each key, the same in all processes forked from the one that made this."""

    def __init__(self, slot_count: int = SLOT_COUNT) -> None:
        """``slot_count`` must be a power of two."""
        if slot_count <= 0 or slot_count & (slot_count - 1):
            raise ValueError(f"slot_count must be a power of two, not {slot_count}")
        self._mask = slot_count - 1
        self._slots = memoryview(mmap.mmap(-1, slot_count * _SLOT_BYTES)).cast("Q")

    def slot_of(self, key: str) -> int:
        """The slot of a key; equal in every process."""
        return crc32(key.encode("utf-8", "surrogatepass")) & self._mask

    def current(self, slot: int) -> int:
        """The generation in that slot now."""
        return self._slots[slot]

    def bump(self, slot: int) -> int:
        """Begin a new generation in that slot, for all processes, and return it."""
        # The random module seeds itself anew in a forked child, so workers do not repeat
        # each other's values.
        fresh = random.getrandbits(64)
        self._slots[slot] = fresh
        return fresh

# SPDX-License-Identifier: Apache-2.0
"""Generations shared by worker processes, which invalidate a key in all of them.

They are an anonymous shared mapping of 64-bit slots, created before the workers are forked. A key
belongs to one slot; bumping the key writes a new value into it. Entries cached under the old value
are invalid then. Keys that share a slot only cause each other needless misses.

A slot is written by one aligned 8-byte store, and values do not repeat. So two writers need no
lock: either new value replaces the old one. The mapping ends with the processes; a worker that is
forked later to replace a dead one inherits it.
"""

from __future__ import annotations

import mmap
import random
from zlib import crc32

SLOT_COUNT = 16384
_SLOT_BYTES = 8


class SharedGenerations:
    """The generation of each key, shared by all processes forked from the creator."""

    def __init__(self, slot_count: int = SLOT_COUNT) -> None:
        """Create the slots; ``slot_count`` must be a power of two."""
        if slot_count <= 0 or slot_count & (slot_count - 1):
            raise ValueError(f"slot_count must be a power of two, not {slot_count}")
        self._mask = slot_count - 1
        self._slots = memoryview(mmap.mmap(-1, slot_count * _SLOT_BYTES)).cast("Q")

    def slot_of(self, key: str) -> int:
        """Return the slot of a key, the same in every process."""
        return crc32(key.encode("utf-8", "surrogatepass")) & self._mask

    def current(self, slot: int) -> int:
        """Return the current generation of a slot."""
        return self._slots[slot]

    def bump(self, slot: int) -> int:
        """Start a new generation of a slot in all processes, and return it."""
        # The random module reseeds itself in a forked child, so workers do not repeat each
        # other's values.
        fresh = random.getrandbits(64)
        self._slots[slot] = fresh
        return fresh

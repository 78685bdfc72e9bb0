# SPDX-License-Identifier: Apache-2.0
"""The cache in the memory of one worker process, invalidated through ``SharedGenerations``.

Each worker has its own values. A change by one worker is visible to all at their next look-up.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Any

from proxy.cache.generations import SharedGenerations
from proxy.cache.interface import Lease

DEFAULT_MAX_ENTRIES = 16384
_NEVER = float("inf")


class LocalCache:
    """A ``Cache`` in process memory that evicts the least recently used entry.

    Create it before the workers are forked. Its calls do no I/O, so green threads cannot interleave
    within one. It is not safe for several operating system threads.
    """

    def __init__(
        self,
        max_entries: int = DEFAULT_MAX_ENTRIES,
        generations: SharedGenerations | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._max_entries = max_entries
        self._generations = generations or SharedGenerations()
        self._clock = clock
        # key -> (value, when it expires, slot, generation it was stored under)
        self._entries: OrderedDict[str, tuple[Any, float, int, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __bool__(self) -> bool:
        """Return True also for an empty cache: other code tests ``if environ["swift.cache"]``."""
        return True

    def get(self, key: str) -> Any:
        """See ``Cache``."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        value, expires, slot, generation = entry
        if self._generations.current(slot) != generation or self._clock() >= expires:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return value

    def lookup(self, key: str) -> tuple[Any, Lease]:
        """See ``Cache``."""
        # The generation is read before the value, so that a change in between also invalidates
        # this lease.
        lease = self._generations.current(self._generations.slot_of(key))
        return self.get(key), lease

    def set(self, key: str, value: Any, time: float = 0, lease: Lease | None = None) -> None:
        """See ``Cache``."""
        slot = self._generations.slot_of(key)
        # The entries of other workers stay: if a set invalidated them, workers that fetch the same
        # key would evict each other forever.
        generation = self._generations.current(slot)
        if lease is not None and lease != generation:
            return
        expires = self._clock() + time if time else _NEVER
        text_or_value = value.decode("utf-8") if isinstance(value, bytes) else value
        self._entries[key] = (text_or_value, expires, slot, generation)
        self._entries.move_to_end(key)
        while len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)

    def delete(self, key: str) -> None:
        """See ``Cache``."""
        self._generations.bump(self._generations.slot_of(key))
        self._entries.pop(key, None)

    def incr(self, key: str, delta: int) -> int | None:
        """See ``Cache``."""
        total: int = max(0, (self.get(key) or 0) + delta)
        self.set(key, total, lease=self._generations.current(self._generations.slot_of(key)))
        return total

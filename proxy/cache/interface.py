# SPDX-License-Identifier: Apache-2.0
"""What every cache offers, and the one rule that keeps cached information true.

A process that reads something from the backends and caches it races with a process that changes
it: the reader may have read before the change and store after it. So a read that ends in the cache
goes like this::

    value, lease = cache.lookup(key)
    if value is None:
        value = ...ask the backends...
        cache.set(key, value, time=60, lease=lease)

and a change like this::

    ...change it on the backends...      # also when the answer was an error: it may have happened
    cache.delete(key)

A ``delete`` between ``lookup`` and ``set`` voids the lease, whichever worker process does it, and
the late ``set`` is dropped.

A ``set`` without a lease is for what holds whoever fetched it and whenever, such as what Keystone
says of a token: other workers keep what they have.

Values are what JSON can carry. Whoever gets a value must not change it: it may be shared.
"""

from __future__ import annotations

from typing import Any, Protocol

#: Opaque; goes from ``lookup`` to ``set`` of the same key of the same cache.
Lease = int | bytes


class Cache(Protocol):
    """A cache of JSON values; no method raises for a cache that is out of reach."""

    def get(self, key: str) -> Any:
        """The value, or None on a miss."""

    def lookup(self, key: str) -> tuple[Any, Lease]:
        """The value or None, and the lease under which a value fetched from now on may be set."""

    def set(self, key: str, value: Any, time: float = 0, lease: Lease | None = None) -> None:
        """Keep ``value`` for ``time`` seconds (0: until there is no room).

        With a lease, only if the key has not been deleted since ``lookup`` gave it. Bytes are
        kept as the text that they encode in UTF-8.
        """

    def delete(self, key: str) -> None:
        """Forget the value, in every process, and void the leases given so far."""

    def incr(self, key: str, delta: int) -> int | None:
        """Add ``delta`` to the whole number under ``key``, 0 if there is none; the sum.

        A sum is not below 0. None if the cache is out of reach. In memcached all proxies add to one
        number; without it each worker has its own.
        """

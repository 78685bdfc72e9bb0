# SPDX-License-Identifier: Apache-2.0
"""The interface of every cache, and the rule that prevents stale entries.

A process that caches a value from the backends races with a process that changes it. The reader
may read before the change and store after it. So a read with caching looks like this::

    value, lease = cache.lookup(key)
    if value is None:
        value = ...ask the backends...
        cache.set(key, value, time=60, lease=lease)

and a change like this::

    ...change it on the backends...      # also after an error: the change may have happened
    cache.delete(key)

A ``delete`` between ``lookup`` and ``set``, in any worker process, invalidates the lease. The late
``set`` is then dropped.

A ``set`` without a lease is for values that do not depend on the time or the worker, such as
Keystone's answer about a token: other workers keep their entries.

Values are JSON values. A caller must not change a value that it gets: it may be shared.
"""

from __future__ import annotations

from typing import Any, Protocol

#: Opaque; goes from ``lookup`` to ``set`` of the same key of the same cache.
Lease = int | bytes


class Cache(Protocol):
    """A cache of JSON values; no method raises an error if the cache is unreachable."""

    def get(self, key: str) -> Any:
        """Return the value, or None on a miss."""

    def lookup(self, key: str) -> tuple[Any, Lease]:
        """Return the value or None, and the lease for setting a value fetched after this call."""

    def set(self, key: str, value: Any, time: float = 0, lease: Lease | None = None) -> None:
        """Store ``value`` for ``time`` seconds (0: until it is evicted).

        With a lease, store it only if the key was not deleted since the ``lookup``. Bytes are
        stored as the text that they encode in UTF-8.
        """

    def delete(self, key: str) -> None:
        """Remove the value in every process and invalidate the existing leases."""

    def incr(self, key: str, delta: int) -> int | None:
        """Add ``delta`` to the whole number under ``key`` (0 if absent) and return the sum.

        A sum is not below 0. The result is None if the cache is unreachable. In memcached all
        proxies share the number; otherwise each worker has its own.
        """

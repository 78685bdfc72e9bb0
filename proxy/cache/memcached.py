# SPDX-License-Identifier: Apache-2.0
"""The cache in memcached: shared by all workers and all proxies.

An unreachable memcached causes misses and lost values, never an error for a client.

Two flags mark the entries: a value is JSON; a tombstone replaces a deleted value for
``TOMBSTONE_SECONDS``. memcached's own compare-and-swap ids serve as leases. ``lookup`` finds that
the key is absent, and the late ``set`` is an ``add``; or it finds the id of the tombstone, and the
``set`` is a ``cas``. Both fail if the key was changed meanwhile.
"""

from __future__ import annotations

import json
import math
import time as clock
from hashlib import md5
from ssl import SSLContext
from threading import BoundedSemaphore
from typing import Any

from pymemcache.client.hash import HashClient

from martlet.log import get_logger
from proxy.cache.interface import Lease

log = get_logger("proxy.cache")

#: Flag of JSON values, the same as OpenStack Swift's.
FLAG_JSON = 2
FLAG_TOMBSTONE = 4
#: Longer than any fetch from the backends may take between ``lookup`` and ``set``.
TOMBSTONE_SECONDS = 60
#: memcached reads a longer time to live as a date.
_RELATIVE_TIME_MAX_SECONDS = 30 * 24 * 3600
#: An unreachable memcached is logged once in this time, for any number of misses.
_LOG_INTERVAL_SECONDS = 10.0
_ABSENT: Lease = b""
_VOID: Lease = b"void"
_TOMBSTONE = object()


class _JsonSerde:
    """Converts values to bytes and flags; entries of other programs read as a miss."""

    def serialize(self, key: str, value: object) -> tuple[bytes, int]:
        if value is _TOMBSTONE:
            return b"", FLAG_TOMBSTONE
        text_or_value = value.decode("utf-8") if isinstance(value, bytes) else value
        return json.dumps(text_or_value, separators=(",", ":")).encode("ascii"), FLAG_JSON

    def deserialize(self, key: str, value: bytes, flags: int) -> Any:
        if flags & FLAG_JSON:
            try:
                return json.loads(value)
            except ValueError:
                return None
        return None


class MemcachedCache:
    """A ``Cache`` over one or several memcached servers; green-thread safe."""

    def __init__(
        self,
        servers: list[str],
        *,
        max_connections: int,
        connect_timeout_seconds: float,
        pool_timeout_seconds: float,
        io_timeout_seconds: float,
        error_limit: int,
        error_interval_seconds: float,
        tls_context: SSLContext | None = None,
        item_size_warning_bytes: int = -1,
    ) -> None:
        """Create the client; it connects at the first use, so that forked workers share no socket.

        :raises ValueError: a server is not ``host[:port]``.
        """
        connection_count = max_connections * len(servers)
        self._client = HashClient(
            servers,
            serde=_JsonSerde(),
            connect_timeout=connect_timeout_seconds,
            timeout=io_timeout_seconds,
            no_delay=True,
            use_pooling=True,
            max_pool_size=connection_count,
            retry_attempts=error_limit,
            dead_timeout=error_interval_seconds,
            # With replies, because memcached answers an oversized value even with noreply, and
            # because a delete must be done before the client gets its answer.
            default_noreply=False,
            tls_context=tls_context,
        )
        # pymemcache's pool raises an error when it is empty; waiting for a turn prevents that.
        self._turns = BoundedSemaphore(connection_count)
        self._pool_timeout = pool_timeout_seconds
        self._item_size_warning_bytes = item_size_warning_bytes
        self._log_again_at = 0.0

    def get(self, key: str) -> Any:
        """See ``Cache``."""
        return self._run("get", key)

    def lookup(self, key: str) -> tuple[Any, Lease]:
        """See ``Cache``."""
        answer = self._run("gets", key)
        if answer is None:
            return None, _VOID  # unreachable: the state of the key is unknown
        value, cas_id = answer
        return value, (_ABSENT if cas_id is None else cas_id)

    def set(self, key: str, value: Any, time: float = 0, lease: Lease | None = None) -> None:
        """See ``Cache``."""
        if lease == _VOID:
            return
        if self._item_size_warning_bytes >= 0:
            self._warn_of_size(key, value)
        expire = _expire(time)
        if lease is None:
            self._run("set", key, value, expire=expire)
        elif lease == _ABSENT:
            self._run("add", key, value, expire=expire)
        else:
            self._run("cas", key, value, lease, expire=expire, noreply=False)

    def delete(self, key: str) -> None:
        """See ``Cache``."""
        self._run("set", key, _TOMBSTONE, expire=TOMBSTONE_SECONDS)

    def incr(self, key: str, delta: int) -> int | None:
        """See ``Cache``."""
        command = "incr" if delta >= 0 else "decr"
        for _ in range(2):  # again, if another proxy created the number between our two steps
            total = self._run(command, key, abs(delta), noreply=False)
            if total is False:
                return None  # the answer for a server that is suppressed after errors
            if total is not None:
                number: int = total
                return number
            if self._run("add", key, max(0, delta), noreply=False):
                return max(0, delta)
        return None

    def _run(self, command: str, key: str, *args: Any, **kwargs: Any) -> Any:
        if not self._turns.acquire(timeout=self._pool_timeout):
            self._log_failure(f"no connection became free in {self._pool_timeout} s")
            return None
        try:
            return getattr(self._client, command)(_hashed(key), *args, **kwargs)
        except Exception as error:  # every error of a cache counts as a miss
            self._log_failure(f"{type(error).__name__}: {error}")
            return None
        finally:
            self._turns.release()

    def _log_failure(self, reason: str) -> None:
        now = clock.monotonic()
        if now >= self._log_again_at:
            self._log_again_at = now + _LOG_INTERVAL_SECONDS
            log.warning("memcached out of reach, continuing without it: %s", reason)

    def _warn_of_size(self, key: str, value: object) -> None:
        size = len(_JsonSerde().serialize(key, value)[0])
        if size > self._item_size_warning_bytes:
            log.warning("large cache item key=%s bytes=%d", key, size)


def _hashed(key: str) -> str:
    return md5(key.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def _expire(seconds: float) -> int:
    whole = math.ceil(seconds)
    return whole if whole <= _RELATIVE_TIME_MAX_SECONDS else whole + int(clock.time())

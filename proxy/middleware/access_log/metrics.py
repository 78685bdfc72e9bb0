# SPDX-License-Identifier: Apache-2.0
"""Figures about requests for StatsD, under OpenStack Swift's names.

``proxy-server.<type>.<verb>.<status>.timing``, ``.first-byte.timing`` of GETs and ``.xfer`` (bytes
in and out); the type is account, container, object or UNKNOWN. Objects are also counted by storage
policy: ``proxy-server.object.policy.<index>.…``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import statsd

_TYPES = ("UNKNOWN", "account", "container", "object")


class Counted(NamedTuple):
    """The figures of one request; times in seconds."""

    path: str
    method: str
    status: int
    policy_index: str | None
    duration: float
    first_byte: float
    byte_count: int


class AccessMetrics:
    """Sends figures over UDP. No error is reported if no server listens."""

    def __init__(
        self, client: statsd.StatsClient, sample_rate: float, valid_methods: Collection[str]
    ) -> None:
        self._client = client
        self._rate = sample_rate
        self._valid_methods = frozenset(valid_methods)

    def count(self, counted: Counted) -> None:
        """Send the figures of a request that has ended."""
        kind = _kind_of(counted.path)
        verb = counted.method if counted.method in self._valid_methods else "BAD_METHOD"
        prefixes = [kind]
        if kind == "object" and counted.policy_index is not None:
            prefixes.append(f"object.policy.{counted.policy_index}")
        with self._client.pipeline() as pipe:
            for prefix in prefixes:
                name = f"{prefix}.{verb}.{counted.status}"
                if verb == "GET":
                    first = counted.first_byte * 1000.0
                    pipe.timing(f"{name}.first-byte.timing", first, self._rate)
                pipe.timing(f"{name}.timing", counted.duration * 1000.0, self._rate)
                pipe.incr(f"{name}.xfer", counted.byte_count, self._rate)


def _kind_of(path: str) -> str:
    """The type of a path."""
    parts = path.split("/", 4)
    if parts[1:2] not in (["v1"], ["v1.0"]):
        return _TYPES[0]
    names = [part for part in parts[2:] if part]
    return _TYPES[len(names)]

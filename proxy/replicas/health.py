# SPDX-License-Identifier: Apache-2.0
"""The failures of devices, as one process sees them.

- A device that failed too often, or answered that it is full or not mounted, is *suppressed*:
  requests avoid it. The prober asks it about every second. Its next good answer ends the
  suppression.
- A server that refuses connections does not run: requests avoid its devices for a second. A new
  attempt costs little, so these refusals do not count as failures.
- A device that failed may have missed writes. It is *doubted*: reads try it after the others. After
  a short failure, one missed write is enough to serve an outdated object.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ring.ring import Node

Clock = Callable[[], float]

#: How long requests avoid a server that refused a connection, seconds.
GONE_SECONDS = 1.0
#: Connections lost within this time after the first one count as one incident, seconds.
INCIDENT_SECONDS = 1.0
_NEVER = float("-inf")
_Key = tuple[str, int, str]


@dataclass(slots=True)
class _Trouble:
    """The failures of one device; times are those of the clock."""

    count: int = 0
    total: int = 0  # of all failures, never reset
    failed_at: float = _NEVER
    lost_at: float = _NEVER  # the first lost connection of an incident
    doubted_until: float = _NEVER
    is_deaf: bool = False  # the last probe got no good answer


def _key(node: Node) -> _Key:
    return node["ip"], node["port"], node["device"]


class DeviceHealth:
    """Notes failures of devices, and decides which devices to avoid and which to ask last.

    Failures are forgotten ``interval`` seconds after the last one. 0 as ``interval`` switches
    suppression off, 0 as ``doubt_seconds`` switches doubt off.

    :param limit: the number of failures at which a device is not yet suppressed.
    """

    def __init__(
        self, interval: float, limit: int, doubt_seconds: float, clock: Clock = time.monotonic
    ) -> None:
        self.interval = interval
        self._limit = limit
        self._doubt_seconds = doubt_seconds
        self._clock = clock
        self._gone: dict[tuple[str, int], float] = {}
        #: By device. Empty if no device failed, which callers on the fast path check first.
        self.troubles: dict[_Key, _Trouble] = {}

    def is_suppressed(self, node: Node) -> bool:
        """Whether requests should avoid the device."""
        if self._gone and self._is_gone(node):
            return True
        trouble = self.troubles.get(_key(node))
        return trouble is not None and self._count_of(trouble) > self._limit

    def suppressed(self) -> list[str]:
        """The devices to avoid, as ``ip:port/device``."""
        return [
            f"{ip}:{port}/{device}"
            for (ip, port, device), trouble in self.troubles.items()
            if self._count_of(trouble) > self._limit
        ]

    def is_doubted(self, node: Node) -> bool:
        """Whether the device may have missed recent writes."""
        trouble = self.troubles.get(_key(node))
        return trouble is not None and trouble.doubted_until > self._clock()

    def is_deaf(self, node: Node) -> bool:
        """Whether the last probe of a suppressed device got no good answer."""
        trouble = self.troubles.get(_key(node))
        return trouble is not None and trouble.is_deaf

    def trouble_count(self, node: Node) -> int:
        """The number of all failures of the device so far; it never decreases."""
        if not self.troubles:
            return 0  # nearly always
        trouble = self.troubles.get(_key(node))
        return 0 if trouble is None else trouble.total

    def add_failure(self, node: Node) -> bool:
        """Count one failure. True if the device becomes suppressed by it."""
        trouble = self._trouble(node)
        self._count(trouble, self._count_of(trouble) + 1)
        return self.interval > 0 and trouble.count == self._limit + 1

    def add_lost_connection(self, node: Node) -> bool:
        """The same for a lost connection. All connections that one crash ends count once."""
        trouble = self._trouble(node)
        now = self._clock()
        if now - trouble.lost_at < INCIDENT_SECONDS and trouble.count:
            return False
        trouble.lost_at = now
        return self.add_failure(node)

    def add_refusal(self, node: Node) -> bool:
        """Note that the server refuses connections. True if this was not known."""
        self.doubt(node)
        if self.interval <= 0 or self._is_gone(node):
            return False
        self._gone[node["ip"], node["port"]] = self._clock() + GONE_SECONDS
        return True

    def suppress(self, node: Node) -> bool:
        """Suppress the device, which is full or not mounted. True if it was not suppressed yet."""
        trouble = self._trouble(node)
        is_news = self.interval > 0 and self._count_of(trouble) <= self._limit
        self._count(trouble, self._limit + 1)
        return is_news

    def doubt(self, node: Node) -> None:
        """Note that the device may have missed a write."""
        self._trouble(node)

    def note_deaf(self, node: Node) -> None:
        """Note a probe without a good answer: suppress the device for another ``interval``."""
        self.suppress(node)
        self.troubles[_key(node)].is_deaf = True

    def forgive(self, node: Node) -> bool:
        """End the suppression of a device that has just answered. True if it was suppressed."""
        self._gone.pop((node["ip"], node["port"]), None)
        trouble = self.troubles.get(_key(node))
        if trouble is None or self._count_of(trouble) <= self._limit:
            return False
        trouble.count, trouble.is_deaf = 0, False
        return True

    def _is_gone(self, node: Node) -> bool:
        address = (node["ip"], node["port"])
        until = self._gone.get(address)
        if until is None:
            return False
        if until > self._clock():
            return True
        self._gone.pop(address, None)
        return False

    def _trouble(self, node: Node) -> _Trouble:
        """The failures of a device, which is doubted from now on."""
        trouble = self.troubles.setdefault(_key(node), _Trouble())
        trouble.total += 1
        if self._doubt_seconds > 0:
            trouble.doubted_until = self._clock() + self._doubt_seconds
        return trouble

    def _count_of(self, trouble: _Trouble) -> int:
        if trouble.count and trouble.failed_at + self.interval < self._clock():
            trouble.count, trouble.is_deaf = 0, False
        return trouble.count

    def _count(self, trouble: _Trouble, count: int) -> None:
        if self.interval > 0:
            trouble.count, trouble.failed_at = count, self._clock()

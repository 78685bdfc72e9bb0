# SPDX-License-Identifier: Apache-2.0
"""How far each device is trusted, as one process sees it.

- A device that failed too often, or said that it is full or not mounted, is *suppressed*: requests
  leave it alone. The prober asks such a device about every second; it comes back by an answer.
- A server that refuses connections does not run: its devices are left alone for a second. A try
  costs next to nothing, so no failures are counted.
- A device that failed may have missed writes. It is *doubted*: reads try it after the others. A
  short absence needs no more than one missed write to serve an outdated object.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ring.ring import Node

Clock = Callable[[], float]

#: A server that refused a connection is not asked again for so long, seconds.
GONE_SECONDS = 1.0
#: Connections that are lost within so long after the first end by one incident, seconds.
INCIDENT_SECONDS = 1.0
_NEVER = float("-inf")
_Key = tuple[str, int, str]


@dataclass(slots=True)
class _Trouble:
    """Of one device; times are those of the clock."""

    count: int = 0
    total: int = 0  # of all troubles, never set back
    failed_at: float = _NEVER
    lost_at: float = _NEVER  # the first lost connection of an incident
    doubted_until: float = _NEVER
    is_deaf: bool = False  # the last probe found it as it was


def _key(node: Node) -> _Key:
    return node["ip"], node["port"], node["device"]


class DeviceHealth:
    """Notes failures of devices, and says which to leave alone and which to ask last.

    Failures are forgotten ``interval`` seconds after the last one. ``interval`` 0 switches
    suppression off, ``doubt_seconds`` 0 doubt.

    :param limit: failures that a device may have without being suppressed.
    """

    def __init__(
        self, interval: float, limit: int, doubt_seconds: float, clock: Clock = time.monotonic
    ) -> None:
        self.interval = interval
        self._limit = limit
        self._doubt_seconds = doubt_seconds
        self._clock = clock
        self._gone: dict[tuple[str, int], float] = {}
        #: By device. Nothing while all is well: who asks often looks here first.
        self.troubles: dict[_Key, _Trouble] = {}

    def is_suppressed(self, node: Node) -> bool:
        """Whether requests should leave the device alone."""
        if self._gone and self._is_gone(node):
            return True
        trouble = self.troubles.get(_key(node))
        return trouble is not None and self._count_of(trouble) > self._limit

    def is_doubted(self, node: Node) -> bool:
        """Whether the device may have missed writes of late."""
        trouble = self.troubles.get(_key(node))
        return trouble is not None and trouble.doubted_until > self._clock()

    def is_deaf(self, node: Node) -> bool:
        """Whether a suppressed device was asked meanwhile and did not answer."""
        trouble = self.troubles.get(_key(node))
        return trouble is not None and trouble.is_deaf

    def trouble_count(self, node: Node) -> int:
        """How often the device has been in trouble; it grows whenever the device fails."""
        if not self.troubles:
            return 0  # as nearly always
        trouble = self.troubles.get(_key(node))
        return 0 if trouble is None else trouble.total

    def add_failure(self, node: Node) -> bool:
        """Count one failure; True when it is the one by which the device becomes suppressed."""
        trouble = self._trouble(node)
        self._count(trouble, self._count_of(trouble) + 1)
        return self.interval > 0 and trouble.count == self._limit + 1

    def add_lost_connection(self, node: Node) -> bool:
        """The same for a lost connection. All those that one crash ends count once."""
        trouble = self._trouble(node)
        now = self._clock()
        if now - trouble.lost_at < INCIDENT_SECONDS and trouble.count:
            return False
        trouble.lost_at = now
        return self.add_failure(node)

    def add_refusal(self, node: Node) -> bool:
        """The server refuses connections; True if that is news."""
        self.doubt(node)
        if self.interval <= 0 or self._is_gone(node):
            return False
        self._gone[node["ip"], node["port"]] = self._clock() + GONE_SECONDS
        return True

    def suppress(self, node: Node) -> bool:
        """Leave the device alone from now on: it is full or not mounted. True if that is news."""
        trouble = self._trouble(node)
        is_news = self.interval > 0 and self._count_of(trouble) <= self._limit
        self._count(trouble, self._limit + 1)
        return is_news

    def doubt(self, node: Node) -> None:
        """The device may have missed a write."""
        self._trouble(node)

    def note_deaf(self, node: Node) -> None:
        """A probe got no answer: the device stays suppressed for another ``interval``."""
        self.suppress(node)
        self.troubles[_key(node)].is_deaf = True

    def forgive(self, node: Node) -> bool:
        """Trust a suppressed device again: it has just answered. True if it was suppressed."""
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
        """The notes about a device, which is doubted from now on."""
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

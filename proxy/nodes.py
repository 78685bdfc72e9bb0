# SPDX-License-Identifier: Apache-2.0
"""Which devices a request tries: the primaries of its partition, then hand-offs, and no device that
failed too often of late."""

from __future__ import annotations

import itertools
import logging
import random
import time
from collections.abc import Callable, Iterator

from proxy.quorum import quorum_size
from ring.ring import Node, Ring

Clock = Callable[[], float]


def node_name(node: Node) -> str:
    """How messages name a device."""
    return f"{node['ip']}:{node['port']}/{node['device']}"


class ErrorLimiter:
    """Counts the failures of each device; leaves alone those with too many.

    Counts are of this process, and forgotten ``interval`` seconds after the last failure.
    """

    def __init__(self, interval: float, limit: int, clock: Clock = time.monotonic) -> None:
        self.interval = interval
        self._limit = limit
        self._clock = clock
        #: By device. Nothing while all is well: who asks often looks here first.
        self.failures: dict[tuple[str, int, str], tuple[int, float]] = {}

    def is_limited(self, node: Node) -> bool:
        """Whether the device should be left alone."""
        key = (node["ip"], node["port"], node["device"])
        count, last = self.failures.get(key, (0, 0.0))
        if count and last + self.interval < self._clock():
            del self.failures[key]
            return False
        return count > self._limit

    def failure_count(self, node: Node) -> int:
        """How often the device has failed of late."""
        failures = self.failures
        if not failures:
            return 0  # as nearly always
        return failures.get((node["ip"], node["port"], node["device"]), (0, 0.0))[0]

    def add_failure(self, node: Node) -> bool:
        """Count one failure; True when it is the one after which the device is left alone."""
        key = (node["ip"], node["port"], node["device"])
        count = self.failures.get(key, (0, 0.0))[0] + 1
        if self.interval > 0:
            self.failures[key] = (count, self._clock())
        return count == self._limit + 1

    def forgive(self, node: Node) -> None:
        """Trust a device again that was left alone: it has just served a request."""
        if self.is_limited(node):
            del self.failures[(node["ip"], node["port"], node["device"])]

    def limit(self, node: Node) -> None:
        """Leave the device alone from now on: it is full or not mounted."""
        if self.interval > 0:
            key = (node["ip"], node["port"], node["device"])
            self.failures[key] = (self._limit + 1, self._clock())


class NodeQueue:
    """The devices for one request, in the order to try them; each device comes once.

    At most ``limit`` usable devices come out; one that turned out to be unusable does not count.
    Those that failed too often come last, where fewer than a quorum of the others are left that
    did not fail meanwhile: a device that may be back is better than a sure failure, and the first
    answer it gives restores its trust. So the queue may end and, after a failure, go on.
    """

    def __init__(
        self,
        ring: Ring,
        partition: int,
        limiter: ErrorLimiter,
        limit: int,
        *,
        shuffle: bool = False,
        logger: logging.Logger | None = None,
    ) -> None:
        primaries = list(ring.get_part_nodes(partition))
        if shuffle:
            random.shuffle(primaries)
        self.primary_count = len(primaries)
        self._primaries = iter(primaries)
        self._ring = ring
        self._partition = partition
        self._limiter = limiter
        self._left = limit
        self._last: Node | None = None
        self._given: list[tuple[Node, int]] = []  # and how often each had failed then
        self._suppressed: list[Node] = []
        self._logger = logger
        self._remaining = self._usable()
        self._handoffs_expected = limit - len(primaries)
        self._handoffs_used = 0

    def __iter__(self) -> Iterator[Node]:
        return self

    def __next__(self) -> Node:
        limiter = self._limiter
        if self._last is not None and not (limiter.failures and limiter.is_limited(self._last)):
            self._left -= 1
        self._last = None
        if self._left <= 0:
            raise StopIteration
        self._last = next(self._remaining, None) or self._next_suppressed()
        return self._last

    def _usable(self) -> Iterator[Node]:
        limiter = self._limiter
        for node in self._primaries:
            if limiter.failures and limiter.is_limited(node):
                self._suppressed.append(node)
            else:
                self._given.append((node, limiter.failure_count(node)))
                yield node
        for node in self._ring.get_more_nodes(self._partition):
            if limiter.failures and limiter.is_limited(node):
                self._suppressed.append(node)
            else:
                self._note_handoff()
                self._given.append((node, limiter.failure_count(node)))
                yield node

    def _next_suppressed(self) -> Node:
        if not self._suppressed or self._good_count() >= quorum_size(self.primary_count):
            raise StopIteration
        return self._suppressed.pop(0)

    def _good_count(self) -> int:
        """How many of the usable devices have not failed since they came out."""
        return sum(self._limiter.failure_count(node) <= before for node, before in self._given)

    def handoffs(self, count: int) -> list[Node]:
        """The next hand-offs, whether or not the limit is reached."""
        for _ in self._primaries:
            pass
        usable = (n for n in self._remaining if not self._limiter.is_limited(n))
        return list(itertools.islice(usable, count))

    def _note_handoff(self) -> None:
        # Hand-offs beyond those that every search may use mean that primaries were left alone.
        self._handoffs_used += 1
        if self._logger is not None and self._handoffs_used > self._handoffs_expected:
            self._logger.warning(
                "event=handoff_requested partition=%d handoffs=%d",
                self._partition,
                self._handoffs_used,
            )

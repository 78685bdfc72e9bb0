# SPDX-License-Identifier: Apache-2.0
"""The devices that a request tries: the primaries of its partition, then hand-offs. Suppressed
devices are the last resort."""

from __future__ import annotations

import itertools
import logging
import random
from collections.abc import Iterator, Sequence
from functools import cache

from proxy.replicas.health import DeviceHealth
from proxy.replicas.quorum import quorum_size
from ring.ring import Node, Ring

#: With so many replicas or fewer, a read tries them in any order.
_ALL_ORDERS_MAX = 5


def node_name(node: Node) -> str:
    """The name of a device in messages."""
    return f"{node['ip']}:{node['port']}/{node['device']}"


@cache
def _orders(count: int) -> Sequence[Sequence[int]]:
    """Orders to choose from: all of a few devices, else each device first in one of them.

    random.shuffle takes four times as long.
    """
    if count <= _ALL_ORDERS_MAX:
        return list(itertools.permutations(range(count)))
    return [[(first + i) % count for i in range(count)] for first in range(count)]


class NodeQueue:
    """The devices for one request, in the order to try them. Each device comes once.

    At most ``limit`` usable devices come out. A device that is suppressed afterwards does not
    count. Suppressed devices come last.

    A write gets suppressed devices if fewer than a quorum of the others have not failed since they
    came out. A device that may work again is better than a certain failure, and its first good
    answer ends its suppression. So the queue may end and, after a failure, continue.

    A read takes the first device that has the object. The order of its primaries is random, but
    doubted ones follow the others. Before it may answer 404, it also asks all suppressed devices,
    except those that did not answer a probe.
    """

    def __init__(
        self,
        ring: Ring,
        partition: int,
        primaries: Sequence[Node],
        health: DeviceHealth,
        limit: int,
        *,
        is_read: bool = False,
        logger: logging.Logger | None = None,
    ) -> None:
        if is_read:
            order = random.choice(_orders(len(primaries)))  # noqa: S311
            primaries = [primaries[i] for i in order]
            if health.troubles:
                primaries.sort(key=health.is_doubted)
        self.partition = partition
        self.primaries = primaries
        self.primary_count = len(primaries)
        self._is_read = is_read
        self._primaries = iter(primaries)
        self._ring = ring
        self._health = health
        self._left = limit
        self._last: Node | None = None
        self._given: list[tuple[Node, int]] = []  # with the number of failures at that time
        self._suppressed: list[Node] = []
        self._logger = logger
        self._remaining = self._usable()
        self._handoffs_expected = limit - len(primaries)
        self._handoffs_used = 0

    @property
    def first_primary(self) -> Node:
        """The first primary; of a write it is the same in all proxies."""
        return self.primaries[0]

    def __iter__(self) -> Iterator[Node]:
        return self

    def __next__(self) -> Node:
        health = self._health
        if self._last is not None and not (health.troubles and health.is_suppressed(self._last)):
            self._left -= 1
        self._last = None
        if self._left > 0:
            self._last = next(self._remaining, None)
        if self._last is None:
            self._last = self._next_suppressed()
        return self._last

    def _usable(self) -> Iterator[Node]:
        for node in self._primaries:
            if self._is_usable(node):
                yield node
        for node in self._ring.get_more_nodes(self.partition):
            if self._is_usable(node):
                self._note_handoff()
                yield node

    def _is_usable(self, node: Node) -> bool:
        """Whether the device comes out now. If not, it may come out at the end."""
        health = self._health
        if health.troubles and health.is_suppressed(node):
            self._suppressed.append(node)
            return False
        self._given.append((node, health.trouble_count(node)))
        return True

    def _next_suppressed(self) -> Node:
        if self._is_read:
            while self._suppressed:
                node = self._suppressed.pop(0)
                if not self._health.is_deaf(node):
                    return node
            raise StopIteration
        is_enough = self._left <= 0 or self._good_count() >= quorum_size(self.primary_count)
        if not self._suppressed or is_enough:
            raise StopIteration
        return self._suppressed.pop(0)

    def _good_count(self) -> int:
        """The number of usable devices that have not failed since they came out."""
        return sum(self._health.trouble_count(node) <= before for node, before in self._given)

    def handoffs(self, count: int) -> list[Node]:
        """The next hand-offs, whether or not the limit is reached, then suppressed devices."""
        for _ in self._primaries:
            pass
        found = list(itertools.islice(self._remaining, count))
        while len(found) < count and self._suppressed:
            found.append(self._suppressed.pop(0))
        return found

    def _note_handoff(self) -> None:
        # More hand-offs than every search may use mean that primaries were suppressed.
        self._handoffs_used += 1
        if self._logger is not None and self._handoffs_used > self._handoffs_expected:
            self._logger.warning(
                "event=handoff_requested partition=%d handoffs=%d",
                self.partition,
                self._handoffs_used,
            )

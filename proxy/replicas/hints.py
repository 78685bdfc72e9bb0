# SPDX-License-Identifier: Apache-2.0
"""Hints: object servers learn at once that another replica missed a write which they have.

A replicator finds what a replica missed when its next pass comes to the partition. The proxy knows
it when the write ends. So it tells a server that has the write, and the replicator of that host
repairs the partition within seconds. A hand-off that has the write is told as well. A hint may be
lost, and it may be wrong: a replica whose answer came late is only compared.

This module uses only the standard library: under eventlet's monkey patch the threads are green.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

import msgpack  # type: ignore[import-untyped]

from martlet.http.backend_client import BackendError
from martlet.log import fields
from proxy.replicas.engine import Outcome
from proxy.replicas.grid_servers import Grid
from proxy.replicas.nodes import node_name
from ring.ring import Node

#: The pause before hints are sent, in which those for the same server are joined, seconds.
PAUSE_SECONDS = 0.5
#: How many hints wait at most. A replicator's pass finds what the others would have said.
HINTS_MAX = 4096
#: The longest wait for the answer to a hint, seconds.
TIMEOUT_SECONDS = 5.0

_NAME = "replica.hint"


class Hints:
    """The hints of one process. Only green threads of one hub, or one thread, note hints."""

    def __init__(
        self, grid: Grid, logger: logging.Logger, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._grid = grid
        self._logger = logger
        self._sleep = sleep
        #: By device and policy: the device, and partitions of it.
        self._waiting: dict[tuple[str, int, str, int], tuple[Node, set[int]]] = {}
        self._count = 0
        self._is_sending = False

    def note(
        self,
        method: str,
        policy_index: int,
        partition: int,
        primary_count: int,
        outcomes: Sequence[Outcome],
    ) -> None:
        """Note the outcomes of a write of an object, if a primary is not known to have it."""
        done = [o.node for o in outcomes if _has_it(method, o.answer.status)]
        handoffs = [node for node in done if "handoff_index" in node]
        if len(done) - len(handoffs) == primary_count:
            return
        primary = next((node for node in done if "handoff_index" not in node), None)
        for node in handoffs if primary is None else [primary, *handoffs]:
            self._add(node, policy_index, partition)
        if self._waiting and not self._is_sending:
            self._is_sending = True
            threading.Thread(target=self._send_all, name="hints", daemon=True).start()

    @property
    def waiting(self) -> int:
        """The number of hints that are not sent yet."""
        return self._count

    def _add(self, node: Node, policy_index: int, partition: int) -> None:
        if self._count >= HINTS_MAX:
            return
        key = node["ip"], node["port"], node["device"], policy_index
        partitions = self._waiting.setdefault(key, (node, set()))[1]
        if partition not in partitions:
            partitions.add(partition)
            self._count += 1

    def _send_all(self) -> None:
        try:
            while self._waiting:
                self._sleep(PAUSE_SECONDS)
                waiting, self._waiting, self._count = self._waiting, {}, 0
                for (_, _, _, policy_index), (node, partitions) in waiting.items():
                    self._send(node, policy_index, sorted(partitions))
        finally:
            self._is_sending = False

    def _send(self, node: Node, policy_index: int, partitions: list[int]) -> None:
        if not self._grid.serves(node, _NAME):
            return  # a server of OpenStack Swift has replicators of its own
        hint = {"device": node["device"], "policy": policy_index, "partitions": partitions}
        address = node["ip"], node["port"]
        try:
            self._grid.client.request(address, _NAME, msgpack.packb(hint), TIMEOUT_SECONDS)
        except BackendError as error:
            self._grid.note(address, _NAME, error)
            self._logger.debug(
                "event=hint_lost %s", fields(device=node_name(node), reason=error.reason)
            )


def _has_it(method: str, status: int) -> bool:
    """Whether the device that answers so has the write. A tombstone is stored with a 404, too."""
    return status < 300 or (status == 404 and method == "DELETE")

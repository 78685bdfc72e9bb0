# SPDX-License-Identifier: Apache-2.0
"""The reconciler's direct requests to container servers, to every replica."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence

from container.misplaced import QUEUE_ACCOUNT, Entry
from container.policy_choice import claim_of, winning_policy
from martlet.http.backend_client import BackendClient, BackendError, BackendExchange
from martlet.log import get_logger
from martlet.words.names import quote_path
from martlet.words.timestamp import Timestamp
from ring.ring import Node, Ring

#: How long the policy of a container is cached, seconds.
POLICY_SECONDS = 30.0
_CACHED_MAX = 10_000


class QueueServers:
    """The container servers of a cluster."""

    def __init__(self, ring: Ring, client: BackendClient) -> None:
        self._ring = ring
        self._client = client
        self._policies: dict[tuple[str, str], tuple[float, int]] = {}
        self._log = get_logger("martlet.container.reconciler")

    def policy_of(self, account: str, container: str) -> int | None:
        """The policy of a container; None if too few replicas answer, or none knows it."""
        key = account, container
        until, policy = self._policies.get(key, (0.0, 0))
        if time.monotonic() < until:
            return policy
        answers = self._ask("HEAD", account, container, "", {})
        known = [headers for status, headers in answers if status // 100 == 2 or status == 404]
        _, nodes = self._ring.get_nodes(account, container)
        if len(known) * 2 <= len(nodes):
            return None
        try:
            found = winning_policy(map(claim_of, known))
        except ValueError as error:
            self._log.error("policy not known path=/%s/%s reason=%s", account, container, error)
            return None
        if found is not None:
            if len(self._policies) >= _CACHED_MAX:
                self._policies.clear()
            self._policies[key] = time.monotonic() + POLICY_SECONDS, found
        return found

    def remove_entry(self, container: str, entry: Entry) -> None:
        """Remove an entry from the queue.

        A replica that misses the removal brings the entry back; this is harmless, as it is done.
        """
        headers = {"X-Timestamp": entry.done_at.internal}
        self._ask("DELETE", QUEUE_ACCOUNT, container, entry.name, headers)

    def _ask(
        self, method: str, account: str, container: str, obj: str, headers: Mapping[str, str]
    ) -> list[tuple[int, dict[str, str]]]:
        """The status and headers from each replica that answers."""
        partition, nodes = self._ring.get_nodes(account, container)
        sent = {
            "X-Timestamp": Timestamp.now().internal,
            "User-Agent": f"container-reconciler {os.getpid()}",
            **headers,
        }
        names = f"/{account}/{container}" + (f"/{obj}" if obj else "")
        exchanges = list(self._start(method, nodes, partition, names, sent))
        return [answer for exchange in exchanges if (answer := self._finish(exchange))]

    def _start(
        self,
        method: str,
        nodes: Sequence[Node],
        partition: int,
        names: str,
        headers: Mapping[str, str],
    ) -> Iterator[BackendExchange]:
        for node in nodes:
            path = quote_path(f"/{node['device']}/{partition}{names}")
            try:
                yield self._client.start((node["ip"], node["port"]), method, path, headers)
            except BackendError as error:
                self._log.warning("container server did not answer: %s", error)

    def _finish(self, exchange: BackendExchange) -> tuple[int, dict[str, str]] | None:
        try:
            response = exchange.response()
        except BackendError as error:
            exchange.abort()
            self._log.warning("container server did not answer: %s", error)
            return None
        response.close()
        return response.status, response.headers

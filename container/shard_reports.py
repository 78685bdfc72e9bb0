# SPDX-License-Identifier: Apache-2.0
"""Reports of shards: a shard tells the container that it is a part of how much it holds.

That container reports the sum to the account. Accounts know no shards.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from container.info import ContainerInfo
from container.report_answer import Answer, read_answer
from container.shard_range import ACTIVE, ShardRange
from container.shard_rows import parent_of
from martlet.http.backend_client import BackendClient, BackendError, BackendExchange
from martlet.words.names import quote_path
from martlet.words.timestamp import Timestamp
from ring.ring import Ring

#: Only the statistics of ranges that the container knows are merged.
STATS_ONLY = "X-Backend-Shard-Stats"


class ShardReports:
    """The reports of one process."""

    def __init__(self, client: BackendClient, open_ring: Callable[[], Ring]) -> None:
        """``open_ring`` opens the container ring."""
        self._client = client
        self._open_ring = open_ring
        self._ring: Ring | None = None

    def send(self, info: ContainerInfo) -> list[Answer]:
        """Report the state of a shard to all replicas of its parent; return the answers.

        :raises RingError: there is no container ring.
        """
        if self._ring is None:
            self._ring = self._open_ring()
        account, container = parent_of(info.raw_metadata, info.account, info.container)
        partition, nodes = self._ring.get_nodes(account, container)
        body = json.dumps([_report(info).as_dict()]).encode()
        headers = {
            "X-Timestamp": Timestamp.now().internal,
            "X-Backend-Record-Type": "shard",
            STATS_ONLY: "true",
            "User-Agent": f"container-server {os.getpid()}",
        }
        started: list[BackendExchange | None] = []
        for node in nodes:
            path = quote_path(f"/{node['device']}/{partition}/{account}/{container}")
            try:
                address = node["ip"], node["port"]
                started.append(self._client.start(address, "PUT", path, headers, body))
            except BackendError:
                started.append(None)
        return [read_answer(exchange, _ignore) for exchange in started]


def _report(info: ContainerInfo) -> ShardRange:
    name, read_at = f"{info.account}/{info.container}", Timestamp(info.read_at).normal
    counts = max(0, info.object_count), max(0, info.bytes_used)
    return ShardRange(name, read_at, state=ACTIVE).with_stats(*counts, read_at)


def _ignore(error: object) -> None:
    """The reporter logs the statuses."""

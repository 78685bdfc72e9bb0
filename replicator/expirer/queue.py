# SPDX-License-Identifier: Apache-2.0
"""The queue of tasks: listings through the expirer's own proxy, removals at the container servers.

The rows of many tasks are removed with one UPDATE to each replica. A replica that misses it brings
the tasks back when it replicates. This is harmless: the objects are deleted already.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from martlet.http.backend_client import BackendClient, BackendError, BackendExchange
from martlet.http.internal_client import InternalClient
from martlet.log import fields, get_logger
from martlet.words.names import quote_path
from martlet.words.timestamp import Timestamp
from replicator.expirer.tasks import end_marker, removed_row
from ring.ring import Node, Ring

#: Most rows of one listing.
PAGE_ROWS = 1000

Row = dict[str, Any]


class QueueError(Exception):
    """The queue cannot be read now."""


class Queue:
    """The queue in the containers of ``account``."""

    def __init__(
        self,
        account: str,
        client: InternalClient,
        ring: Ring,
        backends: BackendClient,
        page_rows: int = PAGE_ROWS,
    ) -> None:
        """``page_rows`` is the most rows of a listing, up to the limits of the cluster."""
        self._page_rows = page_rows
        self._account = account
        self._client = client
        self._ring = ring
        self._backends = backends
        self._log = get_logger("martlet.object.expirer")

    def containers(self, now: Timestamp) -> Iterator[str]:
        """Yield the containers with a name up to ``now``.

        :raises QueueError: the account cannot be listed.
        """
        for page in self._pages(f"/v1/{self._account}", now):
            yield from (str(row["name"]) for row in page)

    def pages(self, container: str, now: Timestamp) -> Iterator[list[Row]]:
        """Yield the rows of a container whose names start with a time up to ``now``.

        :raises QueueError: the container cannot be listed.
        """
        return self._pages(f"/v1/{self._account}/{container}", now)

    def _pages(self, path: str, now: Timestamp) -> Iterator[list[Row]]:
        """Yield the listing in pages; none if there is no such account or container."""
        marker, end = "", end_marker(now)
        while True:
            limits = f"limit={self._page_rows}&end_marker={end}&marker={quote(marker, safe='')}"
            response = self._client.request("GET", f"{path}?format=json&{limits}")
            body = response.body()
            if response.status == 404:
                return
            if response.status // 100 != 2:
                raise QueueError(f"GET {path} was answered {response.status}")
            rows: list[Row] = json.loads(body or b"[]")
            if rows:
                yield rows
            if len(rows) < self._page_rows:
                return
            marker = rows[-1]["name"]

    def remove_container(self, container: str) -> None:
        """Remove a container if it is empty; the next pass tries again if this fails."""
        path = f"/v1/{self._account}/{container}"
        response = self._client.request("DELETE", path)
        response.close()
        if response.status // 100 != 2 and response.status not in (404, 409):
            self._log.warning(
                "container of the queue not removed %s", fields(path=path, status=response.status)
            )

    def remove(self, container: str, names: Sequence[str], now: Timestamp) -> bool:
        """Remove tasks from every replica; return whether one of them has done so."""
        partition, nodes = self._ring.get_nodes(self._account, container)
        body = json.dumps([removed_row(name, now) for name in names]).encode()
        exchanges = list(self._start(nodes, f"/{partition}/{self._account}/{container}", now, body))
        return any([self._finish(exchange) for exchange in exchanges])

    def _start(
        self, nodes: Sequence[Node], path: str, now: Timestamp, body: bytes
    ) -> Iterator[BackendExchange]:
        headers = {
            "X-Timestamp": now.internal,
            "X-Backend-Storage-Policy-Index": "0",
            "Content-Type": "application/json",
            "User-Agent": f"object-expirer {os.getpid()}",
        }
        for node in nodes:
            address, place = (node["ip"], node["port"]), quote_path(f"/{node['device']}{path}")
            try:
                yield self._backends.start(address, "UPDATE", place, headers, body)
            except BackendError as error:
                self._log.warning("container server did not answer: %s", error)

    def _finish(self, exchange: BackendExchange) -> bool:
        try:
            response = exchange.response()
        except BackendError as error:
            exchange.abort()
            self._log.warning("container server did not answer: %s", error)
            return False
        response.close()
        if response.status // 100 != 2:
            self._log.warning("tasks not removed %s", fields(status=response.status))
        return response.status // 100 == 2

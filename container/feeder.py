# SPDX-License-Identifier: Apache-2.0
"""The feeder: copies misplaced rows of this server's containers to the reconciler's queue.

A row is misplaced if its storage policy is not the container's: the object was written while the
container seemed to have another policy. Such rows stay in the database, but neither listings nor
totals show them. The database records up to which row they are in the queue (misplaced_rows.py), so
that a crash loses nothing. The set of marked containers is only for speed. Every replica of a
container feeds the queue, where rows of one name are merged.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from container.database import ContainerDatabase
from container.info import ContainerInfo
from container.misplaced import QUEUE_ACCOUNT, queue_row
from container.misplaced_rows import (
    forget_settled,
    has_seen_versions,
    next_misplaced,
    set_queued,
)
from container.shard_rows import root_of
from martlet.http.backend_client import BackendClient, BackendError, BackendExchange
from martlet.log import get_logger
from martlet.words.names import quote_path
from martlet.words.timestamp import Timestamp
from ring.errors import RingError
from ring.ring import Ring
from storage.concurrency import repeat_in_background
from storage.database_pool import DatabasePool
from storage.errors import DatabaseMissing, DeviceFailed, DeviceStuck, ProcessLost

#: Pause between two runs over the marked containers, seconds.
INTERVAL_SECONDS = 1.0
#: Pause after the queue has not accepted rows, seconds.
RETRY_SECONDS = 15.0
#: Most marked containers; others wait for the sweep.
MARKED_MAX = 10_000
#: Most rows in one request.
ROWS_AT_ONCE = 1000

_Rows = Sequence[Mapping[str, Any]]


class Feeder:
    """The feeder of one process. Any green thread may call ``mark_misplaced``."""

    def __init__(
        self,
        pool: DatabasePool[ContainerDatabase],
        client: BackendClient,
        open_container_ring: Callable[[], Ring],
    ) -> None:
        self._pool = pool
        self._client = client
        self._open_ring = open_container_ring
        self._ring: Ring | None = None
        self._lock = threading.Lock()  # guards _marked
        self._marked: set[str] = set()
        self._next_try = 0.0  # monotonic
        self._log = get_logger("martlet.container.feeder")

    def start(self) -> None:
        """Start feeding in the background."""
        repeat_in_background("feed", self.feed_marked, INTERVAL_SECONDS)

    def mark_misplaced(self, path: str) -> None:
        """Mark a database that has received a misplaced row."""
        with self._lock:
            if len(self._marked) < MARKED_MAX:
                self._marked.add(path)

    def look_at(self, path: str, info: ContainerInfo) -> bool:
        """Mark a container found by a sweep, if it may have misplaced rows; return that.

        Notes of versions that were replaced are removed, if they are of no use any more.
        """
        may_have = info.has_other_policies
        if may_have:
            with self._pool.use(path) as database:
                forget_settled(database, ROWS_AT_ONCE)
        if info.version_count and not may_have:
            with self._pool.use(path) as database:
                may_have = not has_seen_versions(database)
        if may_have:
            self.mark_misplaced(path)
        return may_have

    def feed_marked(self) -> None:
        """Feed every marked container; one that fails stays marked and is retried after a pause."""
        if time.monotonic() < self._next_try:
            return
        with self._lock:
            marked, self._marked = self._marked, set()
        for path in marked:
            try:
                is_done = self.feed(path)
            except DatabaseMissing:
                continue  # its rows are gone with it
            except (DeviceStuck, ProcessLost):
                continue  # logged once for the device; a sweep marks it again
            except RingError as error:
                self._log.error("cannot feed the queue of misplaced objects: %s", error)
                is_done = False
            except DeviceFailed as error:
                self._log.error("feeding failed, to be repeated: %s", error)
                is_done = False
            except Exception:
                self._log.exception("feeding failed path=%s", path)
                continue
            if not is_done:
                self.mark_misplaced(path)
                self._next_try = time.monotonic() + RETRY_SECONDS

    def feed(self, path: str) -> bool:
        """Put the misplaced rows of a container into the queue; return False unless all are in it.

        :raises DatabaseError: its database cannot be read or written.
        :raises RingError: there is no container ring.
        """
        with self._pool.use(path) as database:
            while True:
                found = next_misplaced(database, ROWS_AT_ONCE)
                info = found.info
                is_empty = found.after == found.before and not found.replaced
                if is_empty or info.account == QUEUE_ACCOUNT:
                    return True
                containers: dict[str, list[dict[str, Any]]] = defaultdict(list)
                names = root_of(info.raw_metadata, info.account, info.container)
                for record in found.objects:
                    container, row = queue_row(*names, record)
                    containers[container].append(row)
                # The name may have been in the queue before, with a newer version.
                now = Timestamp.now()
                for record in (*found.versions, *found.replaced):
                    container, row = queue_row(*names, record, now)
                    containers[container].append(row)
                for container, rows in containers.items():
                    if not self._send(container, rows):
                        return False
                policies = {record.storage_policy_index for record in found.versions}
                set_queued(database, found.after, policies, found.replaced)
                if containers:
                    self._log.info(
                        "queued misplaced objects account=%s container=%s rows=%d",
                        info.account,
                        info.container,
                        sum(map(len, containers.values())),
                    )

    def _send(self, container: str, rows: _Rows) -> bool:
        """Send rows to the queue; return whether most replicas of its container accepted them."""
        if self._ring is None:
            self._ring = self._open_ring()
        partition, nodes = self._ring.get_nodes(QUEUE_ACCOUNT, container)
        headers = {
            "X-Timestamp": Timestamp.now().internal,
            "X-Backend-Storage-Policy-Index": "0",
            "X-Backend-Auto-Create": "true",
            "User-Agent": "container-feeder",
        }
        body = json.dumps(rows).encode()
        started = []
        for node in nodes:
            path = quote_path(f"/{node['device']}/{partition}/{QUEUE_ACCOUNT}/{container}")
            try:
                address = node["ip"], node["port"]
                started.append(self._client.start(address, "UPDATE", path, headers, body))
            except BackendError as error:
                self._log.warning("queue update failed, to be repeated: %s", error)
        taken = sum(map(self._is_taken, started))
        return taken * 2 > len(nodes)

    def _is_taken(self, exchange: BackendExchange) -> bool:
        try:
            response = exchange.response()
        except BackendError as error:
            exchange.abort()
            self._log.warning("queue update failed, to be repeated: %s", error)
            return False
        response.close()
        return 200 <= response.status < 300

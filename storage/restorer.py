# SPDX-License-Identifier: Apache-2.0
"""The restore of a missing database from its other replicas (wire-container.md, SNAPSHOT).

It asks all primaries and as many hand-offs for their state, decides with `peers`, and fetches a
copy of the right replica. The request waits for it. A second request for the same database does not
wait: its answer says that the state is unknown.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from martlet.http.backend_client import (
    BackendClient,
    BackendError,
    BackendExchange,
    BackendResponse,
)
from martlet.log import fields, get_logger
from martlet.words.names import quote_path
from ring.errors import RingError
from ring.ring import Node, Ring
from storage.database import Database
from storage.database_copy import BadCopy
from storage.database_files import device_path_of
from storage.errors import DatabaseExists
from storage.long_work import TooMuchWork, long_work
from storage.peers import PeerState, Verdict, source_of, state_of

#: Most databases restored in parallel by one process; others are restored on a later request.
RESTORES_AT_ONCE = 4
#: How long the result that no replica has a database is cached, seconds.
ABSENT_SECONDS = 5.0
#: Pause between two log lines with the reason why a database cannot be restored, seconds.
SILENT_SECONDS = 60.0
#: Longest wait for the first bytes of a copy; its sender first writes it to disk; seconds.
COPY_SECONDS = 60.0
#: A copy is aborted if its average rate after COPY_SECONDS is lower than this.
COPY_BYTES_PER_SECOND_MIN = 64 * 1024
#: The wait for an answer that may have come during the wait for others, seconds.
_GLANCE_SECONDS = 0.05
_REMEMBERED_MAX = 10_000


class Restorer:
    """The restores of one process. ``kind`` is ``account`` or ``container``.

    ``assert_room`` is called with the path of a database before each write. If the device is full,
    it raises the response for the request.
    """

    def __init__(
        self,
        kind: str,
        client: BackendClient,
        open_ring: Callable[[], Ring],
        assert_room: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kind = kind
        self._client = client
        self._open_ring = open_ring
        self._assert_room = assert_room
        self._clock = clock
        self._ring: Ring | None = None
        self._under_way: set[str] = set()
        self._absent_until: dict[str, float] = {}  # by path
        self._silent_until: dict[str, float] = {}  # by path
        self._log = get_logger(f"martlet.{kind}.restorer")

    def restore(self, database: Database, account: str, container: str | None = None) -> Verdict:
        """Restore a missing database; the verdict says whether it exists now.

        :raises DeviceMissing: the device is missing.
        :raises DeviceFailed: the device is full, fails or hangs.
        """
        path = database.path
        if self._absent_until.get(path, 0.0) > self._clock():
            return Verdict.ABSENT
        if path in self._under_way or len(self._under_way) >= RESTORES_AT_ONCE:
            return Verdict.LATER
        names = {"account": account} | ({"container": container} if container else {})
        self._under_way.add(path)
        try:
            with long_work(device_path_of(path)):
                verdict = self._restore(database, names)
        except TooMuchWork:
            return Verdict.LATER
        finally:
            self._under_way.discard(path)
        if verdict is Verdict.ABSENT:
            self._remember(self._absent_until, path, ABSENT_SECONDS)
        return verdict

    def _restore(self, database: Database, names: Mapping[str, str]) -> Verdict:
        try:
            if self._ring is None:
                self._ring = self._open_ring()
        except RingError as error:
            # Without a ring there are no known peers: only the devices of this server count.
            self._say_seldom(database.path, names, f"no ring: {error}")
            return Verdict.ABSENT
        partition = self._ring.get_part(*names.values())
        primaries = self._ring.get_part_nodes(partition)
        handoffs = tuple(islice(self._ring.get_more_nodes(partition), len(primaries)))
        target = f"/{partition}{quote_path('/' + '/'.join(names.values()))}"
        states, silent = self._ask(primaries + handoffs, target)
        unheard = [node for node in silent if node in primaries]
        if unheard:
            devices = ",".join(f"{n['ip']}:{n['port']}/{n['device']}" for n in unheard)
            self._say_seldom(database.path, names, f"no answer from {devices}")
            return Verdict.UNKNOWN
        source = source_of(states, primaries)
        if source is None:
            self._say_seldom(database.path, names, "no replica has it")
            return Verdict.ABSENT
        return self._copy(database, names, source, target)

    def _ask(self, nodes: tuple[Node, ...], target: str) -> tuple[list[PeerState], list[Node]]:
        """The states of the replicas that have or had it, and the nodes that did not answer."""
        states, silent = list[PeerState](), list[Node]()
        exchanges = [(node, self._start("HEAD", node, target)) for node in nodes]
        deadline = self._clock() + self._client.node_timeout
        for node, exchange in exchanges:
            response = _answer(exchange, max(deadline - self._clock(), _GLANCE_SECONDS))
            if response is None or (response.status // 100 != 2 and response.status != 404):
                silent.append(node)
                continue
            state = state_of(node, response.status, response.headers, self._kind)
            if state is not None:
                states.append(state)
        return states, silent

    def _start(self, method: str, node: Node, target: str) -> BackendExchange | None:
        headers = {"User-Agent": f"{self._kind}-server {os.getpid()}"}
        timeout = COPY_SECONDS if method == "SNAPSHOT" else None
        path = f"/{quote_path(node['device'])}{target}"
        try:
            return self._client.start(
                (node["ip"], node["port"]), method, path, headers, b"", timeout
            )
        except BackendError:
            return None

    def _copy(
        self, database: Database, names: Mapping[str, str], source: PeerState, target: str
    ) -> Verdict:
        node = source.node
        where = f"{node['ip']}:{node['port']}/{node['device']}"
        try:
            database.adopt(self._chunks(node, target, database.path), names)
        except DatabaseExists:
            return Verdict.COPIED  # another request was faster
        except (BackendError, BadCopy) as error:
            self._say_seldom(database.path, names, f"no copy from {where}: {error}")
            return Verdict.LATER
        self._log.warning(
            "event=replica_made %s",
            fields(**names, source=where, rows=source.row_count, path=database.path),
        )
        return Verdict.COPIED

    def _chunks(self, node: Node, target: str, path: str) -> Iterator[bytes]:
        """
        :raises BackendError: there is no copy, or it comes too slowly.
        :raises HTTPException: the device is full.
        """
        address = (node["ip"], node["port"])
        response = _answer(self._start("SNAPSHOT", node, target), COPY_SECONDS, has_body=True)
        if response is None:
            raise BackendError(address, "no answer")
        if response.status != 200:
            response.close()
            raise BackendError(address, f"answered {response.status}")
        began, received = self._clock(), 0
        for chunk in response.iter_chunks():
            received += len(chunk)
            late = self._clock() - began - COPY_SECONDS
            if received < late * COPY_BYTES_PER_SECOND_MIN:
                raise BackendError(address, "sends too slowly")
            self._assert_room(path)
            yield chunk

    def _say_seldom(self, path: str, names: Mapping[str, str], reason: str) -> None:
        if self._silent_until.get(path, 0.0) > self._clock():
            return
        self._remember(self._silent_until, path, SILENT_SECONDS)
        self._log.warning("event=replica_not_made %s", fields(**names, reason=reason, path=path))

    def _remember(self, times: dict[str, float], path: str, seconds: float) -> None:
        if len(times) >= _REMEMBERED_MAX:
            times.clear()
        times[path] = self._clock() + seconds


def _answer(
    exchange: BackendExchange | None, timeout: float, has_body: bool = False
) -> BackendResponse | None:
    """The response, or None; with ``has_body`` the caller reads its body."""
    if exchange is None:
        return None
    try:
        response = exchange.response(timeout)
    except BackendError:
        exchange.abort()
        return None
    if not has_body:
        response.close()
    return response

# SPDX-License-Identifier: Apache-2.0
"""The updates that object servers send to containers: rows of the object, and of the expirer."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from martlet.words.expiring import EXPIRER_ACCOUNT, task_container
from proxy.replicas.backends import BackendRequest
from proxy.replicas.core import Core
from proxy.replicas.engine import Outcome
from proxy.replicas.grid_fanout import ask_all
from proxy.replicas.quorum import quorum_size
from proxy.wire_headers import WireHeaders
from ring.ring import Node, RingSet

# A DELETE need not update the queue. Two object servers do, so that few outdated rows remain.
QUEUE_CLEANERS = 2
CLEANS_QUEUE = "X-Backend-Clean-Expiring-Object-Queue"

# The header of an object server's answer with the rows of versions that the write changed. They
# have the form of an UPDATE's body (wire-object.md).
_KNOWN_ROWS = "x-backend-container-rows"


@dataclass(frozen=True, slots=True)
class UpdateTarget:
    """A container whose servers get an update."""

    container: str
    partition: int
    nodes: Sequence[Node]


def expirer_target(
    rings: RingSet, delete_at: int, account: str, container: str, obj: str
) -> UpdateTarget:
    """The container that queues the removal of an object at ``delete_at``."""
    digest = rings.hash_path.digest(account, container, obj)
    name = task_container(digest, delete_at)
    partition, nodes = rings.container.get_nodes(EXPIRER_ACCOUNT, name)
    return UpdateTarget(name, partition, nodes)


def update_headers(
    count: int,
    partition: int,
    containers: Sequence[Node],
    expirer: UpdateTarget | None = None,
    db_state: str = "unsharded",
) -> list[dict[str, str]]:
    """The headers about updates, for each of ``count`` requests to object servers.

    Every replica of the container is in at least one request. It is in more than one if the loss of
    a minority of object servers could leave less than a quorum updated. The expirer's servers are
    assigned in reverse order, so that the same object server need not do both.
    """
    if expirer is None and len(containers) == count:
        return [_plain_update(i, partition, containers[i], db_state) for i in range(count)]
    told = spread(containers, count)
    queued = reversed(spread(expirer.nodes if expirer else [], count))
    updates = []
    for index, (rows_to, queue_to) in enumerate(zip(told, queued, strict=True)):
        headers = {CLEANS_QUEUE: _cleans_queue(index)}
        if rows_to:
            headers |= _named("X-Container", partition, rows_to)
            headers["X-Container-Root-Db-State"] = db_state
        if expirer is not None and queue_to:
            headers |= _named("X-Delete-At", expirer.partition, queue_to)
            headers["X-Delete-At-Container"] = expirer.container
        updates.append(headers)
    return updates


def spread(containers: Sequence[Node], count: int) -> list[list[Node]]:
    """The replicas of a container that each of ``count`` object servers has to update."""
    told: list[list[Node]] = [[] for _ in range(count)]
    for number in range(update_count(len(containers), count)):
        told[number % count].append(containers[number % len(containers)])
    return told


@cache
def update_count(container_replicas: int, object_replicas: int) -> int:
    """The number of container updates in the requests to all object servers, assigned in turn.

    A write succeeds once a quorum of object servers has it. The others may crash before they send
    their updates. The remaining servers must still reach a quorum of the container's replicas.
    Without a failure, every replica of the container should get an update.
    """
    kept = quorum_size(object_replicas)
    needed = quorum_size(container_replicas)
    updates = container_replicas
    while _fewest_left(updates, object_replicas, kept) < needed:
        updates += 1
    return updates


def _fewest_left(updates: int, object_replicas: int, kept: int) -> int:
    """The updates of ``kept`` object servers, if the lost servers had the most."""
    each, more = divmod(updates, object_replicas)
    return kept * each + max(0, kept - (object_replicas - more))


def told_by(outcomes: Iterable[Outcome]) -> set[int]:
    """The indexes of the object servers that have updated their container replicas, or will.

    A server that got the request twice and found the write done may have crashed in between. Then
    it stored the object, but may have sent no update. One that counts as unavailable, as the
    condition of the write did not hold there, has sent none.
    """
    return {
        o.index
        for o in outcomes
        if o.answer.status < 500 and not (o.answer.was_resent and o.answer.status in (404, 409))
    }


def have_known_rows(outcomes: Iterable[Outcome]) -> bool:
    """Whether an object server has rows besides that of the write."""
    return any(_KNOWN_ROWS in o.answer.headers for o in outcomes)


def row_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that all rows of a write have in common."""
    return {name: headers[name] for name in ("X-Timestamp", "X-Backend-Storage-Policy-Index")}


class ContainerRow(NamedTuple):
    """The row of an object that is being written, for container replicas that would miss it.

    Each object server updates one or two replicas. It may fail after a quorum has the object, with
    no hand-off in its place. Its container replicas would then wait for replication, so the proxy
    updates them itself. A replica that the proxy cannot reach still waits for replication.

    :param request: that of the object.
    :param partition: that of the container, whose replicas are ``containers``.
    :param server_count: the number of object servers that get the request.
    """

    core: Core
    request: BackendRequest
    partition: int
    containers: Sequence[Node]
    server_count: int

    def send_missed(self, method: str, told: Container[int], headers: Mapping[str, str]) -> None:
        """Send the row to the replicas of the object servers whose index is not in ``told``."""
        self._send(method, self.request.path, told, headers)

    def send_known(self, outcomes: Iterable[Outcome], headers: Mapping[str, str]) -> None:
        """Send the rows that some object servers have to the replicas of those that do not.

        ``headers`` are those of the row of the write itself.
        """
        told: dict[str, set[int]] = {}
        for outcome in outcomes:
            rows = outcome.answer.headers.get(_KNOWN_ROWS)
            if rows is not None:
                told.setdefault(rows, set()).add(outcome.index)
        container = "/".join(self.request.path.split("/")[:3])
        for rows, indexes in told.items():
            self._send("UPDATE", container, indexes, headers, rows.encode("latin-1"))

    def _send(
        self,
        method: str,
        path: str,
        told: Container[int],
        headers: Mapping[str, str],
        body: bytes = b"",
    ) -> None:
        by_server = enumerate(spread(self.containers, self.server_count))
        nodes = [n for i, nodes in by_server if i not in told for n in nodes]
        if not nodes:
            return
        timeout = self.core.options.node_timeout
        request = BackendRequest(
            "Container", method, self.partition, path, self.request.trans_id, timeout, body
        )
        ask_all(
            self.core.backends,
            request,
            iter(nodes),
            [WireHeaders(headers)] * len(nodes),
            lambda statuses: True,  # the client waits no longer than post_quorum_timeout
            self.core.options.post_quorum_timeout,
        )


def _plain_update(index: int, partition: int, node: Node, db_state: str) -> dict[str, str]:
    """The fast path for the usual case: one container server for each object server."""
    return {
        "X-Container-Partition": str(partition),
        "X-Container-Host": f"{node['ip']}:{node['port']}",
        "X-Container-Device": node["device"],
        "X-Container-Root-Db-State": db_state,
        CLEANS_QUEUE: _cleans_queue(index),
    }


def _cleans_queue(index: int) -> str:
    return "t" if index < QUEUE_CLEANERS else "f"


def _named(prefix: str, partition: int, nodes: Sequence[Node]) -> dict[str, str]:
    return {
        f"{prefix}-Partition": str(partition),
        f"{prefix}-Host": ",".join(f"{n['ip']}:{n['port']}" for n in nodes),
        f"{prefix}-Device": ",".join(n["device"] for n in nodes),
    }

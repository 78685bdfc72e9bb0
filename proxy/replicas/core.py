# SPDX-License-Identifier: Apache-2.0
"""The object that all controllers share: options, rings, requests to the storage servers."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from martlet.conf.cluster import ClusterConf
from martlet.grid.client import GridClient
from martlet.grid.frames import PAYLOAD_BYTES_MAX
from martlet.grid.http_login import Logins
from martlet.grid.options import Options
from martlet.http.backend_client import BackendClient
from martlet.http.request import Request
from martlet.http.response import http_error
from martlet.log import fields
from proxy.config import ProxyOptions
from proxy.replicas.backends import BackendRequest, Backends
from proxy.replicas.engine import Decided, Outcome
from proxy.replicas.grid_fanout import ask_all
from proxy.replicas.grid_servers import Grid
from proxy.replicas.health import DeviceHealth
from proxy.replicas.hints import Hints
from proxy.replicas.nodes import NodeQueue
from proxy.replicas.quorum import UNAVAILABLE, Answer, best_answer, have_quorum
from proxy.replicas.shard_ranges import Names, ShardRanges
from proxy.wire_headers import WireHeaders
from ring.errors import RingError
from ring.ring import Ring, RingSet


class Core:
    """The shared state of one proxy process."""

    def __init__(
        self, options: ProxyOptions, cluster: ClusterConf, rings: RingSet, logger: logging.Logger
    ) -> None:
        self.options = options
        self.cluster = cluster
        self.constraints = cluster.constraints
        self.rings = rings
        self.logger = logger
        client = BackendClient(
            options.conn_timeout,
            options.node_timeout,
            options.backend_pool_size,
            Logins(cluster.grid.secrets, cluster.grid.plain_http),
            cluster.grid.secure(),
        )
        health = DeviceHealth(
            options.error_suppression_interval,
            options.error_suppression_limit,
            options.error_doubt_interval,
        )
        grid = _grid(options, cluster)
        self.backends = Backends(client, grid, health, logger)
        self.hints = Hints(grid, logger)
        #: By the account and container that clients name; `proxy.lookup.shards` fills it.
        self.shard_ranges: dict[Names, ShardRanges] = {}

    def object_ring(self, policy_index: int, trans_id: str) -> Ring:
        """The ring of a storage policy.

        :raises HTTPException: (503) there is none.
        """
        try:
            return self.rings.object_ring(policy_index)
        except RingError as error:
            self.logger.error("event=no_ring reason=%s trans_id=%s", error, trans_id)
            raise http_error(503) from None

    def nodes(
        self,
        ring: Ring,
        account: str,
        container: str | None = None,
        obj: str | None = None,
        *,
        is_read: bool = False,
    ) -> NodeQueue:
        """The devices for one request about a name."""
        partition, primaries = ring.get_nodes(account, container, obj)
        return NodeQueue(
            ring,
            partition,
            primaries,
            self.backends.health,
            self.options.node_count(len(primaries)),
            is_read=is_read,
            logger=self.logger if self.options.log_handoffs else None,
        )

    def request(
        self,
        req: Request,
        server_type: str,
        partition: int,
        path: str,
        *,
        method: str = "",
        body: bytes = b"",
        timeout: float = 0.0,
    ) -> BackendRequest:
        """A request to the servers of ``partition``; by default with the client's method and
        ``node_timeout``.
        """
        return BackendRequest(
            server_type,
            method or req.method,
            partition,
            path,
            req.trans_id,
            timeout or self.options.node_timeout,
            body,
        )

    def ask(
        self,
        request: BackendRequest,
        nodes: NodeQueue,
        headers: Sequence[WireHeaders],
        decided: Decided | None = None,
    ) -> list[Outcome]:
        """`grid_fanout.ask_all` with this proxy's options; by default a quorum of the primaries
        decides.
        """
        replicas = nodes.primary_count
        decided = decided or (lambda statuses: have_quorum(statuses, replicas))
        patience = self.options.post_quorum_timeout
        return ask_all(self.backends, request, nodes, headers, decided, patience)

    def ask_for_one(
        self,
        request: BackendRequest,
        nodes: NodeQueue,
        headers: Sequence[WireHeaders],
        overrides: Mapping[int, int] | None = None,
    ) -> Answer:
        """One answer for those of all replicas; 503 if no class of statuses has a quorum."""
        outcomes = self.ask(request, nodes, headers)
        return self.best(request, [o.answer for o in outcomes], nodes.primary_count, overrides)

    def best(
        self,
        request: BackendRequest,
        answers: list[Answer],
        replicas: int,
        overrides: Mapping[int, int] | None = None,
        quorum: int | None = None,
    ) -> Answer:
        """The best of the answers. Replicas without an answer count as 503."""
        answers = answers + [UNAVAILABLE] * (replicas - len(answers))
        answer = best_answer(answers, quorum, overrides)
        if answer is not None:
            return answer
        statuses = ",".join(str(a.status) for a in answers)
        self.logger.error(
            "event=no_quorum %s",
            fields(
                server=request.server_type,
                method=request.method,
                path=request.path,
                statuses=statuses,
                trans_id=request.trans_id,
            ),
        )
        return UNAVAILABLE


def _grid(options: ProxyOptions, cluster: ClusterConf) -> Grid:
    conf = cluster.grid
    # Listings are the largest answers, and nearly all of them fit then.
    own = Options("proxy-server", checksum=conf.checksum, max_payload=PAYLOAD_BYTES_MAX)
    client = GridClient(
        conf.secrets, own, options.conn_timeout, options.node_timeout, secure=conf.secure()
    )
    return Grid(client, conf.plain_http)

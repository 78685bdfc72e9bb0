# SPDX-License-Identifier: Apache-2.0
"""A PUT, POST or DELETE of an object: the devices that it goes to, and what each of them gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote

from martlet.http.headers import Headers
from martlet.http.request import Request
from proxy.controllers.resource import Resource
from proxy.lookup.shards import row_target
from proxy.replicas.backends import BackendRequest
from proxy.replicas.core import Core
from proxy.replicas.engine import Outcome
from proxy.replicas.nodes import NodeQueue
from proxy.replicas.updates import (
    CLEANS_QUEUE,
    ContainerRow,
    expirer_target,
    update_headers,
)
from proxy.wire_headers import WireHeaders


class Write(NamedTuple):
    """One write.

    :param headers: by wire name, for all replicas.
    :param updates: the headers about updates, for each replica.
    :param row: for container replicas that no object server updates.
    """

    request: BackendRequest
    nodes: NodeQueue
    headers: dict[str, str]
    updates: list[dict[str, str]]
    row: ContainerRow
    policy_index: int

    def note_missed(self, core: Core, outcomes: Sequence[Outcome]) -> None:
        """Let replicators know at once which replicas missed the write."""
        nodes = self.nodes
        core.hints.note(
            self.request.method, self.policy_index, nodes.partition, nodes.primary_count, outcomes
        )

    def wire_headers(self, more: Mapping[str, str] | None = None) -> list[WireHeaders]:
        """The headers for each replica; ``more`` overrides those for all."""
        headers: Mapping[str, str] = self.headers
        if more:
            merged = Headers(headers)
            merged.update(more)
            headers = merged
        common = WireHeaders(headers)
        return [WireHeaders(own, common) for own in self.updates]


def prepare_write(
    core: Core,
    req: Request,
    resource: Resource,
    policy_index: int,
    headers: dict[str, str],
    expires: int | None = None,
) -> Write:
    """Choose the devices of a write, and the updates that each of them has to send.

    :param headers: from the client. Those about the placement are added to it.
    :param expires: the time to delete the object, Unix seconds.
    :raises HTTPException: (503) the storage policy has no ring.
    """
    ring = core.object_ring(policy_index, req.trans_id)
    nodes = core.nodes(ring, *resource)
    headers["X-Backend-Storage-Policy-Index"] = str(policy_index)
    if ring.next_part_power:
        headers["X-Backend-Next-Part-Power"] = str(ring.next_part_power)
    expirer = None
    if expires is not None:
        headers["X-Delete-At"] = f"{expires:010d}"
        expirer = expirer_target(core.rings, expires, *resource)
    servers = nodes.primary_count
    listed_in = row_target(core, req, *resource)
    partition, containers = core.rings.container.get_nodes(*listed_in)
    updates = update_headers(servers, partition, containers, expirer)
    if CLEANS_QUEUE in headers:  # the expirer removes the task itself
        for update in updates:
            del update[CLEANS_QUEUE]
    request = core.request(req, "Object", nodes.partition, resource.path)
    about_row = request
    if listed_in != resource[:2]:
        headers["X-Backend-Quoted-Container-Path"] = quote("/".join(listed_in))
        about_row = request._replace(path=Resource(*listed_in, resource.obj).path)
    row = ContainerRow(core, about_row, partition, containers, servers)
    return Write(request, nodes, headers, updates, row, policy_index)

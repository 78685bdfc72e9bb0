# SPDX-License-Identifier: Apache-2.0
"""The requests of the reaper to container, object and account servers, past the proxy.

The proxy refuses everything in a deleted account. Each deletion goes to all primaries; if one of
them misses it, replication brings it there.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from typing import Any, NamedTuple
from urllib.parse import quote

from martlet.http.backend_client import BackendClient, BackendError, BackendExchange
from martlet.words.names import quote_path
from martlet.words.timestamp import Timestamp
from ring.ring import Node, RingSet
from storage.storage_server import RESTORE_HEADER

_POLICY = "X-Backend-Storage-Policy-Index"
_RECORD_TYPE = "X-Backend-Record-Type"
#: The version of a name without versions.
_NULL = "null"
_LISTING_BYTES_MAX = 64 * 1024**2


class ReapError(Exception):
    """A request was not done; the message says which."""


class Entry(NamedTuple):
    """An object, or a version of one."""

    name: str
    version: str = _NULL


class Page(NamedTuple):
    """A part of a listing; ``entries`` is empty after the end."""

    entries: Sequence[Entry]
    policy_index: int


class ReaperRequests:
    """The requests of one process."""

    def __init__(self, rings: RingSet, client: BackendClient) -> None:
        self._rings = rings
        self._client = client

    def list_objects(
        self, account: str, container: str, after: Entry, policy_index: int | None
    ) -> Page | None:
        """A part of the listing of all versions; None if no replica has the container.

        :param policy_index: objects with this storage policy; None: with that of the container.
        :raises ReapError: no replica answers.
        """
        marker = quote(after.name, safe="")
        query = f"?format=json&versions=true&marker={marker}"
        if after.version != _NULL:
            query += f"&version_marker={after.version}"
        headers = {_RECORD_TYPE: "auto"}
        if policy_index is not None:
            headers[_POLICY] = str(policy_index)
        partition, nodes = self._rings.container.get_nodes(account, container)
        said, is_absent = "", True
        for node in random.sample(nodes, len(nodes)):
            path = _path(node, partition, account, container) + query
            try:
                address = node["ip"], node["port"]
                response = self._client.request(address, "GET", path, _common(headers))
                body = response.body(_LISTING_BYTES_MAX)
            except BackendError as error:
                said, is_absent = str(error), False
                continue
            if response.status // 100 == 2:
                if response.headers.get(_RECORD_TYPE.lower()) == "shard":
                    policy = int(response.headers.get(_POLICY.lower(), "0"))
                    wanted = policy if policy_index is None else policy_index
                    return self._list_shards((account, container), _shards(body), after, wanted)
                return _page(body, response.headers)
            if response.status != 404:
                said, is_absent = f"{response.status}", False
        if is_absent:
            return None
        raise ReapError(f"no listing of /{account}/{container}: {said}")

    def _list_shards(
        self, own: tuple[str, str], shards: Sequence[tuple[str, str]], after: Entry, policy: int
    ) -> Page:
        """The first part of the listing of a container's shards that is not empty.

        :raises ReapError: no replica of one answers.
        """
        for names in shards:
            # What is still in the container itself has been given away by another replica, or will.
            page = self.list_objects(*names, after, policy) if names != own else None
            if page is not None and page.entries:
                return Page(page.entries, policy)
        return Page([], policy)

    def delete_object(self, account: str, container: str, entry: Entry, policy_index: int) -> None:
        """Delete an object, or one version, and its row.

        :raises ReapError: no replica of it did, it is locked, or there is no such storage policy.
        """
        ring = self._rings.objects.get(policy_index)
        if ring is None:
            raise ReapError(f"there is no ring of storage policy {policy_index}")
        partition, nodes = ring.get_nodes(account, container, entry.name)
        headers = {_POLICY: str(policy_index)}
        if ring.next_part_power:
            headers["X-Backend-Next-Part-Power"] = str(ring.next_part_power)
        if entry.version != _NULL:
            headers["X-Backend-Version-Id"] = entry.version
        target, holders = self._rings.container.get_nodes(account, container)
        updates = update_headers(len(nodes), "Container", target, holders)
        names = account, container, entry.name
        statuses = self._delete(nodes, partition, names, headers, updates)
        if 403 in statuses:
            raise ReapError(f"/{'/'.join(names)} is locked")
        if not any(status // 100 == 2 or status == 404 for status in statuses):
            raise ReapError(f"no replica of /{'/'.join(names)} deleted it: {statuses}")

    def delete_container(self, account: str, container: str) -> list[int]:
        """Delete a container and its row in the account; return the statuses, 503 for no answer."""
        partition, nodes = self._rings.container.get_nodes(account, container)
        target, holders = self._rings.account.get_nodes(account)
        updates = update_headers(len(nodes), "Account", target, holders)
        # After a change of the ring only hand-offs may have it: 404 only if they have not either.
        headers = {"X-Account-Override-Deleted": "yes", RESTORE_HEADER: "true"}
        return self._delete(nodes, partition, (account, container), headers, updates)

    def forget_container(self, account: str, container: str) -> list[int]:
        """Remove the row of a container that has no replica any more; return the statuses."""
        partition, nodes = self._rings.account.get_nodes(account)
        now = Timestamp.now().internal
        headers = _common(
            {
                "X-Account-Override-Deleted": "yes",
                "X-Put-Timestamp": "0",
                "X-Delete-Timestamp": now,
                "X-Object-Count": "0",
                "X-Bytes-Used": "0",
            }
        )
        started = [
            self._start("PUT", node, _path(node, partition, account, container), headers)
            for node in nodes
        ]
        return [_status(exchange) for exchange in started]

    def _delete(
        self,
        nodes: Sequence[Node],
        partition: int,
        names: tuple[str, ...],
        headers: Mapping[str, str],
        updates: Sequence[Mapping[str, str]],
    ) -> list[int]:
        """Send DELETE to all nodes in parallel; return the statuses, 503 for no answer."""
        common = _common(headers)
        started = [
            self._start("DELETE", node, _path(node, partition, *names), {**common, **own})
            for node, own in zip(nodes, updates, strict=True)
        ]
        return [_status(exchange) for exchange in started]

    def _start(
        self, method: str, node: Node, path: str, headers: Mapping[str, str]
    ) -> BackendExchange | None:
        try:
            return self._client.start((node["ip"], node["port"]), method, path, headers)
        except BackendError:
            return None


def update_headers(
    count: int, kind: str, partition: int, holders: Sequence[Node]
) -> list[dict[str, str]]:
    """The headers that share out the replicas to inform among ``count`` requests. Pure.

    Every replica is informed by one request at least, and every request informs one.

    :param kind: ``Account`` or ``Container``, of which the holders are replicas.
    """
    informed: list[list[Node]] = [[] for _ in range(count)]
    for number, holder in enumerate(islice(cycle(holders), max(count, len(holders)))):
        informed[number % count].append(holder)
    return [
        {
            f"X-{kind}-Partition": str(partition),
            f"X-{kind}-Host": ",".join(_host(node) for node in group),
            f"X-{kind}-Device": ",".join(node["device"] for node in group),
        }
        for group in informed
    ]


def _host(node: Node) -> str:
    ip = f"[{node['ip']}]" if ":" in node["ip"] else node["ip"]
    return f"{ip}:{node['port']}"


def _path(node: Node, partition: int, *names: str) -> str:
    return quote_path(f"/{node['device']}/{partition}/{'/'.join(names)}")


def _common(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        "X-Timestamp": Timestamp.now().internal,
        "User-Agent": f"account-reaper {os.getpid()}",
        **headers,
    }


def _status(exchange: BackendExchange | None) -> int:
    if exchange is None:
        return 503
    try:
        response = exchange.response()
    except BackendError:
        exchange.abort()
        return 503
    response.close()
    return response.status


def _shards(body: bytes) -> list[tuple[str, str]]:
    """The containers of shard ranges.

    :raises ReapError: they are none.
    """
    try:
        names = [item["name"].partition("/") for item in json.loads(body or b"[]")]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ReapError(f"not a list of shard ranges: {error}") from None
    return [(account, container) for account, _, container in names]


def _page(body: bytes, headers: Mapping[str, str]) -> Page:
    """
    :raises ReapError: it is not a listing.
    """
    try:
        rows: list[dict[str, Any]] = json.loads(body or b"[]")
        entries = [Entry(row["name"], row.get("version_id") or _NULL) for row in rows]
        return Page(entries, int(headers.get(_POLICY.lower(), "0")))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ReapError(f"not a listing: {error}") from None

"""The databases of a running cluster, as their servers list them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from running_cluster import RunningCluster
from storage_connection import StorageConnection

from cluster.ports import HOST
from martlet.words.names import quote_path
from ring.hashing import HashPath
from ring.ring import Node, Ring


def ring_of(cluster: RunningCluster, kind: str) -> Ring:
    etc = cluster.home / "etc"
    path = etc / f"{kind}.ring.gz"
    if not path.exists():
        (path,) = etc.glob(f"*/{kind}.ring.gz")
    return Ring(path, HashPath.from_conf(path.parent / "martlet.conf"))


def device_path(cluster: RunningCluster, node: Node) -> Path:
    (found,) = (cluster.home / "devices").glob(f"*/{node['device']}")
    return found


def call(cluster: RunningCluster, port: int, path: str, host: str = HOST) -> tuple[int, bytes]:
    """Send a GET to one storage server."""
    connection = StorageConnection(cluster.home, host, port)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def listed(cluster: RunningCluster, ring: Ring, *names: str) -> list[list[str] | None]:
    """Return the listing of each primary; None for a primary without the database."""
    return [
        None if rows is None else [row["name"] for row in rows]
        for rows in _rows(cluster, ring, names, "format=json")
    ]


def listed_versions(cluster: RunningCluster, account: str, container: str) -> list[list[str]]:
    """Return the ids of the versions that each primary of the container lists."""
    found = _rows(
        cluster, ring_of(cluster, "container"), (account, container), "format=json&versions=true"
    )
    return [[row["version_id"] for row in rows or ()] for rows in found]


def _rows(
    cluster: RunningCluster, ring: Ring, names: tuple[str, ...], query: str
) -> Iterator[list[dict[str, Any]] | None]:
    """Yield the listing of each primary; None for a primary without the database."""
    partition, nodes = ring.get_nodes(*names)
    path = f"{partition}{quote_path('/' + '/'.join(names))}?{query}"
    for node in nodes:
        status, body = call(cluster, node["port"], f"/{node['device']}/{path}")
        yield json.loads(body) if status == 200 else None

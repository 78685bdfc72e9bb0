"""The replicas of objects in a running cluster, as their servers answer for them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import NamedTuple

from running_cluster import RunningCluster, await_true
from storage_connection import StorageConnection

from martlet.service.programs import find_object_server
from martlet.words.names import quote_path
from ring.hashing import HashPath
from ring.ring import Node, Ring


class Replica(NamedTuple):
    """The answer of one device."""

    status: int
    timestamp: str | None = None
    etag: str | None = None


class BrokenOff(OSError):
    """An answer without its end."""


class ObjectReplicas:
    """Asks the object servers over connections that stay open. Not for several threads."""

    def __init__(self, cluster: RunningCluster) -> None:
        self._home = cluster.home
        etc = cluster.home / "etc"
        self.ring = Ring(etc / "object.ring.gz", HashPath.from_conf(etc / "martlet.conf"))
        self._connections: dict[tuple[str, int], StorageConnection] = {}

    def of(self, account: str, container: str, name: str) -> tuple[set[Replica], list[int]]:
        """Return the different answers of the primaries, and the statuses of all hand-offs.

        :raises OSError: a server does not answer.
        """
        partition, primaries = self.ring.get_nodes(account, container, name)
        path = f"{partition}{quote_path(f'/{account}/{container}/{name}')}"
        handoffs = [self._head(node, path).status for node in self.ring.get_more_nodes(partition)]
        return {self._head(node, path) for node in primaries}, handoffs

    def bodies(self, account: str, container: str, name: str) -> list[tuple[int, bytes]]:
        """Return the status and the body of each primary; 0 for an answer that breaks off.

        :raises OSError: a server cannot be reached.
        """
        partition, primaries = self.ring.get_nodes(account, container, name)
        path = f"{partition}{quote_path(f'/{account}/{container}/{name}')}"
        found = []
        for node in primaries:
            try:
                response, body = self._ask("GET", node, path)
                found.append((response.status, body))
            except BrokenOff:
                found.append((0, b""))
        return found

    def _head(self, node: Node, path: str) -> Replica:
        response, _ = self._ask("HEAD", node, path)
        headers = response.headers
        return Replica(response.status, headers["X-Backend-Timestamp"], headers["Etag"])

    def _ask(self, method: str, node: Node, path: str) -> tuple[HTTPResponse, bytes]:
        at = node["ip"], node["port"]
        connection = self._connections.get(at)
        if connection is None:
            connection = self._connections[at] = StorageConnection(self._home, *at)
        try:
            connection.request(method, f"/{node['device']}/{path}")
            response = connection.getresponse()
            return response, response.read()
        except IncompleteRead as error:
            connection.close()
            del self._connections[at]
            raise BrokenOff(f"{at}: {error!r}") from error
        except (OSError, HTTPException) as error:
            connection.close()
            del self._connections[at]
            raise OSError(f"{at}: {error!r}") from error

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections = {}


def replicate_objects(cluster: RunningCluster) -> list[dict[str, int]]:
    """Run a pass of the object replicator on each node, one after the other; return the figures."""
    found = []
    for conf in sorted((cluster.home / "etc").rglob("object-server.conf")):
        command = [find_object_server(), "replicate", str(conf), "--once", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    return found


def await_no_object(cluster: RunningCluster, objects: Sequence[tuple[str, str, str]]) -> None:
    """Run passes until every replica of these objects answers 404.

    A replica may have missed a DELETE: that is the replicator's work.
    """
    replicas = ObjectReplicas(cluster)

    def are_gone() -> bool:
        replicate_objects(cluster)
        return {one.status for names in objects for one in replicas.of(*names)[0]} == {404}

    await_true(are_gone, "no replica of any object is left")
    replicas.close()

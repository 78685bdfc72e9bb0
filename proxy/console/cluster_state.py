# SPDX-License-Identifier: Apache-2.0
"""The view of operators: the rings, and the answers of all storage servers below ``/recon/``."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from martlet.conf.cluster import ClusterConf
from martlet.http.backend_client import BackendClient
from martlet.recon.ask import Reply, Server, ask_all
from ring.ring import Ring, load_rings

ASK_SECONDS = 2.0
#: A share of a device in use from which on it is a problem: writes soon go elsewhere.
FULL_SHARE = 0.9
#: The age of the last pass of a replicator from which on it is a problem.
REPLICATION_SECONDS = 6 * 3600.0
_PATHS = ("unmounted", "diskusage", "quarantined", "ringmd5", "version")
_NEVER = "its replicator has finished no pass yet"


class ClusterState:
    """The view of a proxy on its cluster; it reads the rings when it is first asked."""

    def __init__(self, swift_dir: str) -> None:
        """Read the conf and the rings.

        :raises ConfigError, RingError: they cannot be used.
        """
        self._conf = ClusterConf.load(swift_dir)
        self._rings = load_rings(swift_dir, policies=[one.index for one in self._conf.policies])
        self._secure = self._conf.grid.secure()

    def as_json(self) -> dict[str, Any]:
        """Rings, servers and problems, as doc/console.md describes them."""
        replies = ask_all(self._servers(), _paths_of, self._client)
        now = time.time()
        servers = [server_as_json(reply, now) for reply in replies]
        return {
            "rings": [ring_as_json(name, ring) for name, _, ring in self._named_rings()],
            "servers": servers,
            "problems": [
                f"{server['kind']} server {server['name']}: {problem}"
                for server in servers
                for problem in server["problems"]
            ]
            + list(differing_rings(replies)),
        }

    def _client(self) -> BackendClient:
        return BackendClient(ASK_SECONDS, ASK_SECONDS, secure=self._secure)

    def _named_rings(self) -> Iterator[tuple[str, str, Ring]]:
        """The name, the kind of the servers, and the ring."""
        yield "account", "account", self._rings.account
        yield "container", "container", self._rings.container
        for policy in self._conf.policies:
            ring = self._rings.object_ring(policy.index)
            yield f"object, {policy.name}", "object", ring

    def _servers(self) -> Sequence[Server]:
        found: dict[tuple[str, str, int], set[str]] = {}
        for _, kind, ring in self._named_rings():
            for device in filter(None, ring.devs):
                place = (kind, device["ip"], device["port"])
                found.setdefault(place, set()).add(device["device"])
        return sorted(Server(*place, tuple(sorted(names))) for place, names in found.items())


def _paths_of(kind: str) -> Iterable[str]:
    own = (f"replication/{kind}", *(("async",) if kind == "object" else ()))
    return (*own, *_PATHS)


def ring_as_json(name: str, ring: Ring) -> dict[str, Any]:
    """A ring and its devices."""
    partitions = ring.partitions_by_device
    return {
        "name": name,
        "replicas": ring.replica_count,
        "partitions": ring.partition_count,
        "devices": [
            {
                "id": device["id"],
                "region": device["region"],
                "zone": device["zone"],
                "ip": device["ip"],
                "port": device["port"],
                "device": device["device"],
                "weight": device["weight"],
                "partitions": partitions.get(device["id"], 0),
            }
            for device in ring.devs
            if device is not None
        ],
    }


def server_as_json(reply: Reply, now: float) -> dict[str, Any]:
    """A server: its figures, None for what it did not answer, and its problems."""
    server = reply.server
    passes = _map(reply.value(f"replication/{server.kind}"))
    last = _number(passes.get("replication_last"))
    found = {
        "kind": server.kind,
        "name": server.name,
        "ip": server.ip,
        "port": server.port,
        "version": _map(reply.value("version")).get("version"),
        "replication_age": max(0.0, now - last) if last else None,
        "failures": _number(_map(passes.get("replication_stats")).get("failure")),
        "pending": _number(_map(reply.value("async")).get("async_pending")),
        "quarantined": _number(_map(reply.value("quarantined")).get(f"{server.kind}s")),
        "devices": [
            {name: one.get(name) for name in ("device", "mounted", "size", "used")}
            for one in _maps(reply.value("diskusage"))
            if one.get("device") in server.devices
        ],
    }
    return {**found, "problems": list(problems_of(reply, found))}


def problems_of(reply: Reply, found: Mapping[str, Any]) -> Iterator[str]:
    """Sentences about what an operator should look at."""
    if reply.error:
        yield f"it does not answer: {reply.error}. Look at the host and at the log of the server"
        return
    for one in _maps(reply.value("unmounted")):
        yield f"device {one.get('device')} cannot be used; the log of the server has the reason"
    for one in found["devices"]:
        used, size = _number(one["used"]), _number(one["size"])
        if used is not None and size and used / size >= FULL_SHARE:
            yield f"device {one['device']} is {used / size:.0%} full: add devices"
    age = found["replication_age"]
    if age is None:
        yield f"{_NEVER}: look at its background jobs (martlet-background)"
    elif age > REPLICATION_SECONDS:
        yield f"its replicator has finished no pass for {age / 3600:.0f} h"
    if found["failures"]:
        yield f"the last pass of its replicator had {found['failures']:.0f} failures"
    if found["quarantined"]:
        yield f"{found['quarantined']:.0f} {found['kind']}s are in quarantine, as damaged"


def differing_rings(replies: Sequence[Reply]) -> Iterator[str]:
    """A sentence for each ring file of which the servers have several versions."""
    digests: dict[str, set[str]] = {}
    for reply in replies:
        for path, digest in _map(reply.value("ringmd5")).items():
            digests.setdefault(path.rpartition("/")[2], set()).add(str(digest))
    for name, found in sorted(digests.items()):
        if len(found) > 1:
            yield f"The servers have {len(found)} versions of {name}: copy the newest to all hosts"


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _maps(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None

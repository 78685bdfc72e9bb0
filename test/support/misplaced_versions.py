# SPDX-License-Identifier: Apache-2.0
"""The versions of an object in each of two policies, and their rows in the container."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from typing import Any

from running_cluster import RunningCluster, await_true
from storage_connection import StorageConnection
from two_policies import GOLD, rings_of

from container.misplaced import Entry
from container.version_mover import VersionMover
from martlet.conf.cluster import ClusterConf
from martlet.grid.client import GridClient
from martlet.words.timestamp import Timestamp


def left_in(
    running: RunningCluster, names: tuple[str, str, str], policy: int
) -> list[tuple[str, Timestamp]]:
    """Return the ids and times of the versions of a name that a policy has."""
    now = Timestamp.now()
    holding = mover_of(running).holding(Entry("", policy, *names, False, now, now), policy)
    return sorted({(h.version, h.timestamp) for h in holding.heads() if h.is_version})


def set_policy(running: RunningCluster, names: tuple[str, str, str], policy: int) -> None:
    """Give all replicas of a container another policy, as the end of a conflict does it."""
    partition, nodes = rings_of(running).container.get_nodes(*names[:2])
    folders = [
        running.home / "devices" / node["device"] / "containers" / str(partition) for node in nodes
    ]
    for path in (path for folder in folders for path in folder.rglob("*.db")):
        with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
            named = "SELECT account, container FROM container_info"
            if connection.execute(named).fetchone() != names[:2]:
                continue
            connection.execute(
                "UPDATE container_info SET storage_policy_index = ?, reconciler_sync_point = -1",
                (policy,),
            )
            connection.execute("DROP TABLE IF EXISTS version_queued")


def body_of(
    running: RunningCluster, names: tuple[str, str, str], policy: int, version_id: str
) -> bytes | None:
    """Return the bytes of a version in a policy, if two of its devices have the same; else None."""
    partition, nodes = rings_of(running).object_ring(policy).get_nodes(*names)
    found = Counter[bytes]()
    for node in nodes:
        connection = StorageConnection(running.home, node["ip"], node["port"])
        headers = {
            "X-Backend-Storage-Policy-Index": str(policy),
            "X-Backend-Version-Id": version_id,
        }
        connection.request("GET", f"/{node['device']}/{partition}/{'/'.join(names)}", b"", headers)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status == 200:
            found[body] += 1
        connection.close()
    return next((body for body, count in found.items() if count > 1), None)


def mover_of(running: RunningCluster) -> VersionMover:
    secrets = ClusterConf.load(running.home / "etc").grid.secrets
    return VersionMover(rings_of(running), GridClient(secrets), 30)


def late_row(time: Timestamp, version_id: str, **values: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"name": "o", "created_at": time.internal, "version_id": version_id}
    row |= {"size": 4, "content_type": "text/x-lost", "etag": "late"}
    return row | {"storage_policy_index": GOLD} | values


def rows_of(
    running: RunningCluster, names: tuple[str, str, str], policy: int
) -> list[list[dict[str, Any]]]:
    """Return the rows of an object's versions in a policy, of each replica of the container."""
    headers = {"X-Backend-Record-Type": "version", "X-Backend-Storage-Policy-Index": str(policy)}
    found = call_containers(running, names, "GET", f"?name={names[2]}", headers)
    return [json.loads(body) or [] for _, body in found]


def await_rows(
    running: RunningCluster, names: tuple[str, str, str], policy: int, count: int
) -> None:
    def are_there() -> bool:
        return all(len(rows) == count for rows in rows_of(running, names, policy))

    await_true(are_there, f"{count} rows on all replicas")


def send_rows(
    running: RunningCluster, names: tuple[str, str, str], rows: list[dict[str, Any]]
) -> None:
    """Send rows to all replicas of a container, as object servers do."""
    headers = {"X-Timestamp": Timestamp.now().internal}
    body = json.dumps(rows).encode()
    found = call_containers(running, names, "UPDATE", "", headers, body)
    assert {status for status, _ in found} == {202}


def call_containers(
    running: RunningCluster,
    names: tuple[str, str, str],
    method: str,
    query: str,
    headers: dict[str, str],
    body: bytes = b"",
) -> list[tuple[int, bytes]]:
    """Send a request to all replicas of a container; return each status and body."""
    partition, nodes = rings_of(running).container.get_nodes(*names[:2])
    found = []
    for node in nodes:
        connection = StorageConnection(running.home, node["ip"], node["port"])
        path = f"/{node['device']}/{partition}/{names[0]}/{names[1]}{query}"
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        found.append((answer.status, answer.read()))
        connection.close()
    return found

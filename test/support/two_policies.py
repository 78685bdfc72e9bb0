# SPDX-License-Identifier: Apache-2.0
"""A cluster with two policies, objects in the wrong one, and the queue of the reconciler."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from running_cluster import RunningCluster, await_true
from storage_connection import StorageConnection
from stored_records import stored_kinds
from swift_api import Account

from container.misplaced import QUEUE_ACCOUNT, Entry, parse_entry, queue_container
from martlet.words.timestamp import Timestamp
from ring.ring import Node, RingSet, load_rings

GOLD, SILVER = 0, 1


@contextmanager
def two_policies(home: Path) -> Iterator[RunningCluster]:
    """Run a cluster with the policies gold and silver in a directory."""
    (home / "etc").mkdir()
    # Swift's own reconciler speaks to the storage servers without proof.
    (home / "etc" / "martlet.conf").write_text("[grid]\ngrid_plain_http = 127.0.0.1\n")
    running = RunningCluster(home, "--policy", "gold", "--policy", "silver").start().await_writes()
    yield running
    assert running.stop() == 0, "".join(running.output)


def rings_of(running: RunningCluster) -> RingSet:
    return load_rings(running.home / "etc", policies=[GOLD, SILVER])


def write_misplaced(
    running: RunningCluster,
    method: str,
    names: tuple[str, str, str],
    policy: int,
    time: Timestamp,
    body: bytes = b"",
    extra: Mapping[str, str] | None = None,
    *,
    has_rows: bool = True,
    replicas: int = 3,
) -> None:
    """Send the requests that a proxy on the other side would send to the object servers.

    :param has_rows: container servers are told.
    :param replicas: the first of them get the requests.
    """
    rings = rings_of(running)
    container_partition, containers = rings.container.get_nodes(*names[:2])
    partition, nodes = rings.object_ring(policy).get_nodes(*names)
    for node, container in list(zip(nodes, containers, strict=True))[:replicas]:
        connection = StorageConnection(running.home, node["ip"], node["port"])
        headers = {
            "X-Timestamp": time.internal,
            "X-Backend-Storage-Policy-Index": str(policy),
            "Content-Type": "text/x-lost",
            "Content-Length": str(len(body)),
            **(extra or {}),
        }
        if has_rows:
            headers |= {
                "X-Container-Partition": str(container_partition),
                "X-Container-Host": f"{container['ip']}:{container['port']}",
                "X-Container-Device": container["device"],
            }
        path = f"/{node['device']}/{partition}/{'/'.join(names)}"
        connection.request(method, path, body, headers)
        assert connection.getresponse().status in (201, 202, 204, 404)
        connection.close()


def queue(running: RunningCluster, time: Timestamp) -> list[Entry]:
    """Return the entries of an hour, once all replicas of the queue list the same."""
    container = queue_container(time)
    partition, nodes = rings_of(running).container.get_nodes(QUEUE_ACCOUNT, container)
    listings: list[list[Entry]] = []

    def agree() -> bool:
        listings[:] = [entries_of(running, node, partition, container) for node in nodes]
        return all(listing == listings[0] for listing in listings)

    await_true(agree, "equal replicas of the queue")
    return listings[0]


def entries_of(running: RunningCluster, node: Node, partition: int, container: str) -> list[Entry]:
    """Return the entries that one replica of a queue container lists."""
    connection = StorageConnection(running.home, node["ip"], node["port"])
    path = f"/{node['device']}/{partition}/{QUEUE_ACCOUNT}/{container}?format=json"
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return [parse_entry(row) for row in json.loads(body)] if answer.status == 200 else []


def reconcile(running: RunningCluster, conf: Path | None = None) -> str:
    """Run one pass of the daemon and return its log."""
    conf = conf or running.home / "etc" / "container-reconciler.conf"
    command = [sys.executable, "-m", "container.reconciler_daemon", str(conf), "once"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def records(running: RunningCluster, names: tuple[str, str, str]) -> dict[str, dict[str, int]]:
    """Count the devices by kind of their record of an object, for the folder of each policy."""
    found: dict[str, Counter[str]] = {}
    for folder, kind in stored_kinds(running, names):
        found.setdefault(folder, Counter())[kind] += 1
    return {folder: dict(kinds) for folder, kinds in found.items()}


def names_of(user: Account, container: str, obj: str) -> tuple[str, str, str]:
    return user.path.removeprefix("/v1/"), container, obj

# SPDX-License-Identifier: Apache-2.0
"""Clusters whose containers are sharded: options, passes of the sharder, and its results."""

from __future__ import annotations

import json
from typing import Any

from cluster_databases import ring_of
from forked_passes import Pass, total_figures
from running_cluster import RunningCluster
from sharding_load import Load
from storage_connection import StorageConnection
from swift_api import Account

from cluster.ports import HOST

OPTIONS = {
    "shard_container_threshold": 600,
    "rows_per_shard": 200,
    "minimum_shard_size": 40,
    "cleave_row_batch_size": 50,
    "cleave_batch_size": 1,
}


def set_options(cluster: RunningCluster, **options: Any) -> None:
    """Set options of the sharder on all nodes."""
    lines = "".join(f"{name} = {value}\n" for name, value in options.items())
    for conf in (cluster.home / "etc").rglob("container-server.conf"):
        text = conf.read_text()
        head, _, tail = text.partition("[container-sharder]\n")
        kept = [line for line in tail.splitlines() if line.partition(" = ")[0] not in options]
        conf.write_text(f"{head}[container-sharder]\n{lines}" + "\n".join(kept) + "\n")


def start_pass(conf: str) -> Pass:
    return Pass("replicator.sharder.command", conf, "--once", "--json")


def confs(cluster: RunningCluster) -> list[str]:
    return sorted(map(str, (cluster.home / "etc").rglob("container-server.conf")))


def run_pass(cluster: RunningCluster, must_succeed: bool = True) -> dict[str, float]:
    """Run a pass on each node, one after the other; return the sums of the figures."""
    return total_figures(map(start_pass, confs(cluster)), must_succeed)


def ranges_of(cluster: RunningCluster, names: tuple[str, str]) -> list[list[dict[str, Any]]]:
    """The shard ranges of a container in each of its replicas."""
    ring = ring_of(cluster, "container")
    partition, nodes = ring.get_nodes(*names)
    found = []
    for node in nodes:
        connection = StorageConnection(cluster.home, HOST, node["port"])
        path = f"/{node['device']}/{partition}/{names[0]}/{names[1]}?format=json"
        connection.request("GET", path, headers={"X-Backend-Record-Type": "shard"})
        answer = connection.getresponse()
        found.append(json.loads(answer.read()))
        state = answer.getheader("X-Backend-Sharding-State")
        found[-1] = [item | {"sharding_state": state} for item in found[-1]]
        connection.close()
    return found


def is_settled(cluster: RunningCluster, names: tuple[str, str]) -> bool:
    """Whether all replicas are sharded, with active ranges only."""
    found = ranges_of(cluster, names)
    return all(
        replica and all(r["state"] == 40 and r["sharding_state"] == "sharded" for r in replica)
        for replica in found
    )


def has_totals(account: Account, load: Load) -> bool:
    head = account.call("HEAD", load.container).headers
    totals = int(head["x-container-object-count"]), int(head["x-container-bytes-used"])
    return totals == (len(load.expected), load.expected_bytes)

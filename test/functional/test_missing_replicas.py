"""An account and a container missing on two of three primaries: all works; they are restored."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from typing import Any

from cluster_databases import call, device_path, listed, ring_of
from running_cluster import RunningCluster, await_true
from swift_api import Account

from ring.ring import Ring

OBJECTS = 60
CONTAINERS = 18


def container_on(ring: Ring, account: str, devices: set[str]) -> str:
    """Return a container name with replicas on all of these devices."""
    names = (f"c{number}" for number in range(10_000))
    return next(
        name
        for name in names
        if devices <= {node["device"] for node in ring.get_nodes(account, name)[1]}
    )


def pending(cluster: RunningCluster) -> list[dict[str, Any]]:
    """Return the undelivered rows that each object server reports."""
    found = []
    for number in range(1, 5):
        status, body = call(cluster, cluster.storage_port("object", number), "/recon/async")
        assert status == 200
        found.append(json.loads(body))
    return found


def test_what_two_of_three_primaries_miss(new_cluster: Callable[..., RunningCluster]) -> None:
    cluster = new_cluster("--nodes", "4").start()
    account = Account(cluster.port)
    name = account.path.rpartition("/")[2]
    accounts, containers = ring_of(cluster, "account"), ring_of(cluster, "container")
    away, replaced, _ = accounts.get_nodes(name)[1]
    container = container_on(containers, name, {away["device"], replaced["device"]})

    # Created while one primary is down: the third copy is on a hand-off.
    aside = cluster.home / "aside"
    device_path(cluster, away).rename(aside)
    path = cluster.home / "devices" / f"node{away['device'][1:]}" / away["device"]
    assert account.call("PUT", container, headers={"X-Container-Read": ".r:*"}).status == 201
    assert account.call("PUT", container, "first", body=b"x").status == 201
    # Then another primary loses its databases with its disk.
    for kind in ("accounts", "containers", "tmp"):
        shutil.rmtree(device_path(cluster, replaced) / kind)
    assert listed(cluster, accounts, name).count(None) == 2
    assert listed(cluster, containers, name, container).count(None) == 2
    aside.rename(path)

    statuses = [account.call("PUT", f"new{number}").status for number in range(CONTAINERS)]
    assert statuses == [201] * CONTAINERS
    made = sorted([container, *(f"new{number}" for number in range(CONTAINERS))])
    await_true(
        lambda: listed(cluster, accounts, name) == [made] * 3, "all primaries list the containers"
    )

    for number in range(OBJECTS):
        assert account.call("PUT", container, f"o{number}", body=b"x").status == 201
    names = sorted(["first", *(f"o{number}" for number in range(OBJECTS))])
    await_true(
        lambda: listed(cluster, containers, name, container) == [names] * 3, "three whole listings"
    )
    await_true(lambda: not any(p["async_pending"] for p in pending(cluster)), "no row is pending")
    for _ in range(9):  # every replica that answers has the container's ACL
        answer = account.call("HEAD", container)
        assert answer.headers["x-container-read"] == ".r:*"
    logs = "".join(path.read_text() for path in (cluster.home / "logs").glob("*-server-node*.log"))
    assert f"event=replica_made account={name} source=" in logs
    assert f"event=replica_made account={name} container={container} source=" in logs

# SPDX-License-Identifier: Apache-2.0
"""Objects and bytes of containers and accounts, and the moment when all replicas know of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from running_cluster import RunningCluster, await_true
from storage_connection import StorageConnection
from swift_api import Account

from martlet.words.names import quote_path
from ring.ring import load_rings

Usage = tuple[int, int]


def used(account: Account, *names: str) -> Usage:
    """Return objects and bytes of the account or a container from one replica; -1 without it."""
    kind = "container" if names else "account"
    headers = account.call("HEAD", *names).headers
    counts = (headers.get(f"x-{kind}-{what}", -1) for what in ("object-count", "bytes-used"))
    objects, size = map(int, counts)
    return objects, size


def settled(account: Account, home: Path) -> Usage:
    """Return objects and bytes of an account once each replica has those of all containers.

    Otherwise the bytes of another test may be reported, and take the room that a test relies on.

    :param home: the home of the cluster.
    """
    totals = (0, 0)

    def has_all() -> bool:
        nonlocal totals
        each = [used(account, name) for name in account.call("GET").lines]
        totals = sum(objects for objects, _ in each), sum(size for _, size in each)
        return set(usage_of_replicas(home, account.path.rpartition("/")[2])) == {totals}

    await_true(has_all, "each replica of the account has the totals of its containers")
    return totals


def await_usage(cluster: RunningCluster, account: Account, container: str, wanted: Usage) -> None:
    """Wait until each replica of a container has the objects and bytes.

    A write waits for a quorum of the rows only, and a listing is that of any replica.
    """
    owner = account.path.rpartition("/")[2]
    await_true(
        lambda: set(usage_of_replicas(cluster.home, owner, container)) == {wanted},
        f"{wanted} in all replicas of {container}",
    )


def usage_of_replicas(home: Path, *names: str) -> Iterator[Usage]:
    """Yield objects and bytes of an account or a container from each primary; -1 without it."""
    rings = load_rings(home / "etc")
    kind, ring = ("Container", rings.container) if names[1:] else ("Account", rings.account)
    partition, nodes = ring.get_nodes(*names)
    for node in nodes:
        connection = StorageConnection(home, node["ip"], node["port"])
        connection.request(
            "HEAD", f"/{node['device']}/{partition}{quote_path('/' + '/'.join(names))}"
        )
        headers = connection.getresponse().headers
        connection.close()
        counts = (headers.get(f"X-{kind}-{what}", -1) for what in ("Object-Count", "Bytes-Used"))
        objects, size = map(int, counts)
        yield objects, size

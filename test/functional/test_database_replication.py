"""Replicas of databases that missed writes, or were lost, are the same after passes."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cluster_databases import call, device_path, listed, ring_of
from forked_passes import Pass, total_figures
from running_cluster import RunningCluster, await_true
from swift_api import Account

NODES = 3
ROWS = {
    "container": "SELECT name, created_at, size, content_type, etag, deleted, storage_policy_index"
    " FROM object ORDER BY name",
    "account": "SELECT name, put_timestamp, delete_timestamp, object_count, bytes_used, deleted,"
    " storage_policy_index FROM container ORDER BY name",
}
FACTS = {
    "container": "SELECT account, container, put_timestamp, hash, storage_policy_index, metadata"
    " FROM container_info",
    "account": "SELECT account, '', put_timestamp, hash, 0, metadata FROM account_stat",
}


def conf_of(cluster: RunningCluster, kind: str, node: int) -> Path:
    return cluster.home / "etc" / f"node{node}" / f"{kind}-server.conf"


@contextmanager
def stopped(cluster: RunningCluster, kind: str, node: int) -> Iterator[None]:
    """Keep a server from running: without its conf it cannot be restarted."""
    service = f"{kind}-server-node{node}"
    conf = conf_of(cluster, kind, node)
    aside = conf.with_suffix(".aside")
    conf.rename(aside)
    os.kill(cluster.pid_of(service), signal.SIGKILL)
    await_true(lambda: cluster.services()[service]["state"] != "ok", f"{service} is stopped")
    yield
    aside.rename(conf)
    await_true(lambda: cluster.services()[service]["state"] == "ok", f"{service} is back")


def start_pass(cluster: RunningCluster, kind: str, node: int) -> Pass:
    """Start a pass of a node's replicator."""
    conf = str(conf_of(cluster, kind, node))
    return Pass(f"replicator.{kind}_replicator", conf, "--once", "--json")


def replicate(cluster: RunningCluster, kind: str, must_succeed: bool = True) -> dict[str, float]:
    """Run a pass on each node, one after the other; return the sums of the figures."""
    passes = (start_pass(cluster, kind, node) for node in range(1, NODES + 1))
    return total_figures(passes, must_succeed)


def is_clean_pass(cluster: RunningCluster, kind: str) -> list[bool]:
    """Run a pass on each node, and tell of each whether it had no failure."""
    passes = [start_pass(cluster, kind, node) for node in range(1, NODES + 1)]
    for process in passes:
        process.communicate()
    return [process.returncode == 0 for process in passes]


def databases(cluster: RunningCluster, kind: str) -> dict[str, list[Any]]:
    """The rows and facts of each replica of each database, by its hash."""
    found: dict[str, list[Any]] = {}
    for path in sorted((cluster.home / "devices").glob(f"node*/*/{kind}s/*/*/*/*.db")):
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
            rows = connection.execute(ROWS[kind]).fetchall()
            ((*facts, metadata),) = connection.execute(FACTS[kind]).fetchall()
        found.setdefault(path.stem, []).append((facts, json.loads(metadata or "{}"), rows))
    return found


def assert_all_equal(cluster: RunningCluster, kind: str) -> None:
    for name, replicas in databases(cluster, kind).items():
        assert len(replicas) == 3, name
        assert replicas[1] == replicas[0], name
        assert replicas[2] == replicas[0], name


def test_what_a_stopped_server_missed(new_cluster: Callable[..., RunningCluster]) -> None:
    cluster = new_cluster("--nodes", str(NODES)).start()
    account = Account(cluster.port)
    name = account.path.rpartition("/")[2]
    assert account.call("PUT", "old", headers={"X-Container-Meta-Color": "red"}).status == 201
    assert account.call("PUT", "unwanted").status == 201
    for number in range(6):
        assert account.call("PUT", "old", f"o{number}", body=b"12").status == 201
    with stopped(cluster, "container", 2):
        assert account.call("DELETE", "old", "o1").status == 204
        assert account.call("PUT", "old", "o7", body=b"1234").status == 201
        assert account.call("POST", "old", headers={"X-Container-Meta-Color": "blue"}).status == 204
        assert account.call("DELETE", "unwanted").status == 204
        assert account.call("PUT", "new").status in (201, 202)
    containers = ring_of(cluster, "container")
    names = ["o0", "o2", "o3", "o4", "o5", "o7"]
    wanted = {"old": [names] * 3, "unwanted": [None] * 3, "new": [[]] * 3}

    def has_all() -> bool:
        return all(listed(cluster, containers, name, c) == wanted[c] for c in wanted)

    await_equal(cluster, "container", has_all)

    def is_idle() -> bool:
        figures = replicate(cluster, "container")
        return (figures["sent"], figures["copied"], figures["rows"]) == (0, 0, 0)

    await_true(is_idle, "a pass that sends nothing")
    assert has_all()
    assert_all_equal(cluster, "container")
    assert account.call("HEAD", "unwanted").status == 404
    # The accounts, too: the reports of one account server went astray.
    with stopped(cluster, "account", 1):
        assert account.call("DELETE", "new").status == 204
    accounts = ring_of(cluster, "account")
    await_equal(cluster, "account", lambda: listed(cluster, accounts, name) == [["old"]] * 3)


def await_equal(
    cluster: RunningCluster, kind: str, has_all: Callable[[], bool] = lambda: True
) -> None:
    """Run passes until all replicas are the same and have what they must have.

    Servers bring late rows and reports meanwhile; between two of them the replicas are the same.
    """

    def are_equal() -> bool:
        replicate(cluster, kind)
        found = databases(cluster, kind)
        return has_all() and all(len(r) == 3 and r[0] == r[1] == r[2] for r in found.values())

    await_true(are_equal, f"equal {kind} databases")


def await_rows(cluster: RunningCluster, has_all: Callable[[], bool]) -> None:
    """Wait until the rows are everywhere, and no object server will send one again."""

    def is_pending(node: int) -> bool:
        status, body = call(cluster, cluster.storage_port("object", node), "/recon/async")
        assert status == 200
        return int(json.loads(body)["async_pending"]) > 0

    await_true(
        lambda: has_all() and not any(is_pending(node) for node in range(1, NODES + 1)),
        "rows everywhere",
    )


def test_what_a_replaced_disk_missed(new_cluster: Callable[..., RunningCluster]) -> None:
    cluster = new_cluster("--nodes", str(NODES)).start()
    account = Account(cluster.port)
    name = account.path.rpartition("/")[2]
    for number in range(4):
        assert account.call("PUT", f"c{number}").status == 201
        assert account.call("PUT", f"c{number}", "before", body=b"x").status == 201
    containers = ring_of(cluster, "container")
    node = containers.get_nodes(name, "c0")[1][0]
    device = device_path(cluster, node)
    number = int(device.parent.name.removeprefix("node"))
    old = cluster.home / "old-databases"
    await_rows(cluster, lambda: listed(cluster, containers, name, "c0") == [["before"]] * 3)
    with stopped(cluster, "container", number):
        shutil.copytree(device / "containers", old)
    assert account.call("PUT", "c0", "after", body=b"x").status == 201
    assert account.call("DELETE", "c0", "before").status == 204
    await_rows(cluster, lambda: listed(cluster, containers, name, "c0") == [["after"]] * 3)
    # The databases of yesterday: nothing that this replica missed is pending anywhere.
    with stopped(cluster, "container", number):
        shutil.rmtree(device / "containers")
        shutil.copytree(old, device / "containers")
    assert listed(cluster, containers, name, "c0").count(["before"]) == 1
    figures = replicate(cluster, "container")
    assert figures["sent"] >= 1
    assert listed(cluster, containers, name, "c0") == [["after"]] * 3
    assert_all_equal(cluster, "container")
    # A device that was wiped gets all databases again.
    for kind in ("container", "account"):
        with stopped(cluster, kind, number):
            shutil.rmtree(device / f"{kind}s", ignore_errors=True)  # there may be no account
    # A server takes one copy at a time for a device, and leaves the others to the next pass.
    figures = replicate(cluster, "container", must_succeed=False)
    assert figures["copied"] >= 1
    await_true(lambda: all(is_clean_pass(cluster, "container")), "a pass without a failure")
    assert listed(cluster, containers, name, "c0") == [["after"]] * 3
    assert_all_equal(cluster, "container")
    await_equal(cluster, "account")


def test_killed_passes_lose_nothing(new_cluster: Callable[..., RunningCluster]) -> None:
    cluster = new_cluster("--nodes", str(NODES)).start()
    account = Account(cluster.port)
    name = account.path.rpartition("/")[2]
    for number in range(12):
        assert account.call("PUT", f"c{number}").status == 201
        for other in range(3):
            assert account.call("PUT", f"c{number}", f"o{other}", body=b"x").status == 201
    containers = ring_of(cluster, "container")

    def has_all_rows(container: str) -> bool:
        return listed(cluster, containers, name, container) == [["o0", "o1", "o2"]] * 3

    await_rows(cluster, lambda: all(has_all_rows(f"c{number}") for number in range(12)))
    devices = sorted((cluster.home / "devices" / "node3").glob("d*"))
    with stopped(cluster, "container", 3):
        for device in devices:
            shutil.rmtree(device / "containers", ignore_errors=True)
    chance, killed = random.Random(1), 0
    for attempt in range(9):
        running = start_pass(cluster, "container", 1 + attempt % NODES)
        killed += running.kill_after(chance.uniform(0.02, 0.5))
    assert killed, "the passes were faster than the test"
    # A server may still be busy with a copy of a killed pass, and refuse another one for a while.
    await_true(lambda: all(is_clean_pass(cluster, "container")), "a pass without a failure")
    replicate(cluster, "container")
    assert_all_equal(cluster, "container")
    for number in range(12):
        assert listed(cluster, containers, name, f"c{number}") == [["o0", "o1", "o2"]] * 3

"""Deleted containers and accounts are cleared away, damaged databases are replaced."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from cluster_databases import device_path, listed, ring_of
from forked_passes import Pass, total_figures
from frozen import frozen
from object_replicas import await_no_object
from running_cluster import RunningCluster, await_true, descendants
from swift_api import Account

NODES = (1, 2, 3)
#: No pass is killed sooner.
_EARLIEST_SECONDS = 0.001
#: The kind of server whose conf a job reads.
KINDS = {
    "account-auditor": "account",
    "account-reaper": "account",
    "account-replicator": "account",
    "container-auditor": "container",
    "container-replicator": "container",
}


@pytest.fixture
def cluster(new_cluster: Callable[..., RunningCluster]) -> RunningCluster:
    running = new_cluster("--nodes", "3")
    running.start()
    for node in NODES:
        for kind in ("account", "container"):
            conf = running.home / "etc" / f"node{node}" / f"{kind}-server.conf"
            section = f"[{kind}-replicator]\n"
            conf.write_text(conf.read_text().replace(section, f"{section}reclaim_age = 0.1\n"))
    return running


def start_pass(cluster: RunningCluster, job: str, node: int) -> Pass:
    conf = cluster.home / "etc" / f"node{node}" / f"{KINDS[job]}-server.conf"
    return Pass(f"replicator.{job.replace('-', '_')}", str(conf), "--once", "--json")


def run_pass(cluster: RunningCluster, job: str, must_succeed: bool = True) -> dict[str, float]:
    """Run a pass on each node, one after the other; return the sums of the figures."""
    return total_figures((start_pass(cluster, job, node) for node in NODES), must_succeed)


def kill_passes(
    cluster: RunningCluster, job: str, times: int, seed: int, latest: float = 0.4
) -> None:
    """Start passes, and kill each in its middle, ``latest`` seconds after its start at the most.

    On a quick machine none may last so long: then more of them are killed sooner.
    """
    chance = random.Random(seed)
    killed = attempt = 0
    while attempt < times or not killed:
        assert latest > _EARLIEST_SECONDS, "the passes were faster than the test"
        running = start_pass(cluster, job, NODES[attempt % len(NODES)])
        killed += running.kill_after(chance.uniform(_EARLIEST_SECONDS, latest))
        attempt += 1
        if attempt >= times:
            latest /= 2


def names_below(cluster: RunningCluster, kind: str) -> list[str]:
    """All files and directories of the databases of a kind, except locks."""
    found = (cluster.home / "devices").glob(f"node*/*/{kind}s/**/*")
    return sorted(str(path) for path in found if path.name != ".sweep.lock")


def rows_of(path: Path, query: str) -> list[Any]:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def databases(cluster: RunningCluster, kind: str) -> list[Path]:
    return sorted((cluster.home / "devices").glob(f"node*/*/{kind}s/*/*/*/*.db"))


def test_no_file_of_deleted_containers_stays(cluster: RunningCluster) -> None:
    account = Account(cluster.port)
    for number in range(50):
        assert account.call("PUT", f"c{number}").status == 201
    for number in range(50):
        assert account.call("DELETE", f"c{number}").status == 204
    assert len(databases(cluster, "container")) == 150
    kill_passes(cluster, "container-replicator", 6, seed=1)

    def are_gone() -> bool:
        run_pass(cluster, "container-replicator")
        return names_below(cluster, "container") == []

    await_true(are_gone, "no file of a container")

    def is_forgotten() -> bool:
        run_pass(cluster, "account-replicator")
        found = databases(cluster, "account")
        assert len(found) == 3
        return [rows_of(path, "SELECT name FROM container") for path in found] == [[]] * 3

    await_true(is_forgotten, "no row of a container")
    assert account.call("PUT", "c1").status == 201
    assert account.call("GET").lines == ["c1"]


def admin_deletes(cluster: RunningCluster, account: Account) -> None:
    """Delete an account as a reseller admin."""
    conf = cluster.home / "etc" / "proxy-server.conf"
    mark = "account_autocreate = true"
    conf.write_text(conf.read_text().replace(mark, f"{mark}\nallow_account_management = true"))
    cluster.kill_and_await_restart("proxy-server")
    admin = Account(cluster.port, "admin:admin", "admin")
    assert admin.send("DELETE", account.path).status == 204
    assert admin.send("GET", account.path).status == 410


def test_a_deleted_account_is_reaped(cluster: RunningCluster) -> None:
    account = Account(cluster.port)
    owner = account.path.rpartition("/")[2]
    versioned = {"X-Versions-Enabled": "true"}
    for number in range(6):
        headers = versioned if number == 5 else {}
        assert account.call("PUT", f"c-ü{number}", headers=headers).status == 201
        for other in range(20):
            body = b"x" * (300_000 if other == 0 else 10)
            assert account.call("PUT", f"c-ü{number}", f"o {other}", body=body).status == 201
    for body in (b"2", b"3"):
        assert account.call("PUT", "c-ü5", "o 1", body=body).status == 201
    assert account.call("DELETE", "c-ü5", "o 2").status == 204
    containers = ring_of(cluster, "container")
    names = [f"c-ü{number}" for number in range(6)]
    assert listed(cluster, containers, owner, "c-ü0").count(None) == 0
    accounts = ring_of(cluster, "account")
    await_true(lambda: listed(cluster, accounts, owner) == [names] * 3, "the account's listing")
    admin_deletes(cluster, account)
    kill_passes(cluster, "account-reaper", 6, seed=2)

    # A killed pass has sent a part of its requests, and a busy server answers some too late. Then a
    # replica is behind its peers until the replicators have run.
    def is_empty() -> bool:
        figures = run_pass(cluster, "account-reaper", must_succeed=False)
        run_pass(cluster, "container-replicator")
        run_pass(cluster, "account-replicator")
        return figures["accounts"] == 0

    await_true(is_empty, "an empty account")
    await_no_object(
        cluster, [(owner, name, f"o {number}") for name in names for number in range(20)]
    )

    def are_gone() -> bool:
        run_pass(cluster, "container-replicator")
        run_pass(cluster, "account-replicator")
        found = [p for k in ("account", "container") for p in databases(cluster, k)]
        return found == []

    await_true(are_gone, "no database of the account")


def flip_bits(path: Path) -> None:
    """Damage the file of a database below its servers, as a disk does."""
    with path.open("r+b") as file:
        for page in range(1, path.stat().st_size // 4096):
            file.seek(page * 4096)
            head = bytes(byte ^ 0x55 for byte in file.read(64))
            file.seek(page * 4096)
            file.write(head)


def reporters(cluster: RunningCluster) -> set[int]:
    """The processes that report to the account servers."""
    parents = [cluster.pid_of(f"container-server-node{node}") for node in NODES]
    return {*parents, *(child for parent in parents for child in descendants(parent))}


@pytest.mark.parametrize("kind", ["container", "account"])
def test_a_damaged_database_is_replaced(cluster: RunningCluster, kind: str) -> None:
    account = Account(cluster.port)
    owner = account.path.rpartition("/")[2]
    assert account.call("PUT", "c").status == 201
    for number in range(10):
        assert account.call("PUT", "c", f"o{number}", body=b"x").status == 201
    ring = ring_of(cluster, kind)
    names = (owner, "c") if kind == "container" else (owner,)
    whole = [f"o{number}" for number in range(10)] if kind == "container" else ["c"]
    await_true(lambda: listed(cluster, ring, *names) == [whole] * 3, "rows everywhere")
    node = ring.get_nodes(*names)[1][0]
    device = device_path(cluster, node)
    (path,) = (device / f"{kind}s").glob("*/*/*/*.db")
    server = f"{kind}-server-{device.parent.name}"
    cluster.kill_and_await_restart(server)  # so that nothing is left in its log and its memory
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    # A report would have the account server make the replica again before the replicator does.
    with frozen(*reporters(cluster)) if kind == "account" else nullcontext():
        flip_bits(path)
        kill_passes(cluster, f"{kind}-auditor", 3, seed=3, latest=0.08)
        figures = run_pass(cluster, f"{kind}-auditor")
        assert figures["errors"] == 0
        assert len(list((device / "quarantined" / f"{kind}s").iterdir())) == 1
        assert not path.exists()
        assert run_pass(cluster, f"{kind}-auditor")["failed"] == 0
        figures = run_pass(cluster, f"{kind}-replicator")
        assert figures["copied"] == 1
        assert listed(cluster, ring, *names) == [whole] * 3
        assert run_pass(cluster, f"{kind}-auditor")["failed"] == 0

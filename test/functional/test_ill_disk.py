"""One disk of a server fails under load: all data outside the bad place is served."""

from __future__ import annotations

import itertools
import os
import select
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster_logs import errors_since
from ill_disk import DEVICE, IllDisk, hang_at_start
from running_cluster import RunningCluster, await_true
from storage_connection import StorageConnection
from swift_api import Account
from uploader import Uploader, assert_nothing_is_lost, content_of

from cluster.ports import HOST
from ring.ring import load_rings

SECTOR = 512
#: Records that one sector touches at most; the shortest one of an object takes 320 bytes.
RECORDS_OF_SECTOR = 3
#: Longer than a disk may be silent before an object server refuses requests for it, seconds.
HALT_SECONDS = 13.0


@pytest.fixture
def cluster(disk: IllDisk, new_cluster: Callable[..., RunningCluster]) -> Iterator[RunningCluster]:
    """A cluster whose account and container servers also have databases on the failing disk."""
    running = new_cluster().start()
    conf = running.home / "etc" / "proxy-server.conf"
    # Shorter than by default, for the disk that hangs. A good disk of a busy machine needs seconds.
    text = conf.read_text().replace("account_autocreate", "node_timeout = 5\naccount_autocreate")
    conf.write_text(text)
    running.kill_and_await_restart("proxy-server")
    yield running
    disk.heal()  # otherwise hanging processes could not be stopped


@pytest.fixture
def account(cluster: RunningCluster) -> Iterator[Account]:
    opened = Account(cluster.port)
    assert opened.call("PUT", "c").status == 201
    yield opened
    opened.close()


def put_all(account: Account, names: list[str]) -> None:
    for name in names:
        assert account.call("PUT", "c", name, body=content_of(name)).status == 201, name


def assert_all_are_served(account: Account, names: list[str]) -> None:
    for name in names:
        answer = account.call("GET", "c", name)
        assert (answer.status, answer.body == content_of(name)) == (200, True), name


def names_together(cluster: RunningCluster, account: Account, count: int) -> list[str]:
    """Return names of small objects in one partition with a replica on the failing disk."""
    ring = load_rings(cluster.home / "etc").object_ring(0)
    name_of = account.path.rpartition("/")[2]
    together: dict[int, list[str]] = {}
    for number in itertools.count():
        name = f"small-{number}"
        partition, nodes = ring.get_nodes(name_of, "c", name)
        if DEVICE in {node["device"] for node in nodes} and len(content_of(name)) <= 4096:
            together.setdefault(partition, []).append(name)
            if len(together[partition]) == count:
                return together[partition]
    raise AssertionError


def request(cluster: RunningCluster, account: Account, name: str) -> StorageConnection:
    """Send a GET to the object server itself, for the replica on the failing disk."""
    ring = load_rings(cluster.home / "etc").object_ring(0)
    name_of = account.path.rpartition("/")[2]
    partition, _nodes = ring.get_nodes(name_of, "c", name)
    server = StorageConnection(cluster.home, HOST, cluster.storage_port("object"))
    policy = {"X-Backend-Storage-Policy-Index": "0"}
    server.request("GET", f"/{DEVICE}/{partition}/{name_of}/c/{name}", headers=policy)
    return server


def is_answered(server: StorageConnection) -> bool:
    return bool(select.select([server.sock], [], [], 0)[0])


def statuses_of_device(cluster: RunningCluster, account: Account, names: list[str]) -> Counter[int]:
    """Return the object server's own answers for the replicas on the failing disk."""
    ring = load_rings(cluster.home / "etc").object_ring(0)
    server = StorageConnection(cluster.home, HOST, cluster.storage_port("object"))
    statuses: Counter[int] = Counter()
    for name in names:
        partition, nodes = ring.get_nodes(account.path.rpartition("/")[2], "c", name)
        if DEVICE not in {node["device"] for node in nodes}:
            continue
        path = f"/{DEVICE}/{partition}/{account.path.rpartition('/')[2]}/c/{name}"
        server.request("GET", path, headers={"X-Backend-Storage-Policy-Index": "0"})
        answer = server.getresponse()
        answer.read()
        statuses[answer.status] += 1
    server.close()
    return statuses


def segments(disk: IllDisk) -> list[Path]:
    """Return the segments, longest first."""
    return sorted(disk.backing.rglob("*.bundle"), key=lambda path: -path.stat().st_size)


@pytest.mark.parametrize("offset", [0, SECTOR], ids=["first sector", "second sector"])
def test_a_bad_sector(
    cluster: RunningCluster, disk: IllDisk, account: Account, offset: int
) -> None:
    """The server hits it while partitions are opened, and while clients write and read."""
    names = names_together(cluster, account, 50)
    put_all(account, names)
    stored = Counter({200: len(names)})
    # A PUT waits for a quorum, which may be the other disks.
    await_true(lambda: statuses_of_device(cluster, account, names) == stored, "all replicas")
    disk.spoil(str(segments(disk)[0].relative_to(disk.backing)), offset, SECTOR)
    cluster.kill_and_await_restart("object-server")
    statuses = statuses_of_device(cluster, account, names)
    assert set(statuses) <= {200, 503}, statuses
    assert statuses[503] <= RECORDS_OF_SECTOR, statuses
    assert sum(statuses.values()) == len(names)
    with Uploader(cluster.port, "c").running() as uploader:
        assert_all_are_served(account, names)
        uploader.await_more(100)
        assert_all_are_served(account, names)
    assert uploader.failures == []
    assert_nothing_is_lost(account, uploader)


def test_a_disk_that_hangs(cluster: RunningCluster, disk: IllDisk, account: Account) -> None:
    """The server of all four disks continues with three, and with four when the calls return."""
    names = [f"small-{number}" for number in range(60)]
    put_all(account, names)
    server = cluster.pid_of("object-server")
    with Uploader(cluster.port, "c").running() as uploader:
        uploader.await_more(50)
        disk.hang()
        assert_all_are_served(account, names)
        uploader.await_more(100)
        disk.heal()
        uploader.await_more(50)
    assert cluster.pid_of("object-server") == server
    assert_all_are_served(account, names)
    assert_nothing_is_lost(account, uploader)


def test_a_halt_of_the_server(cluster: RunningCluster, disk: IllDisk, account: Account) -> None:
    """Time in which the server is stopped is no silence of the disk. A hang afterwards is one."""
    names = names_together(cluster, account, 40)
    put_all(account, names)
    stored = Counter({200: len(names)})
    await_true(lambda: statuses_of_device(cluster, account, names) == stored, "all replicas")
    began = time.time()
    pid = cluster.pid_of("object-server")
    disk.hold_reads(".bundle")
    first = request(cluster, account, names[0])
    await_true(lambda: disk.held_reads() == 1, "a call that hangs")
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(HALT_SECONDS)
    finally:
        os.kill(pid, signal.SIGCONT)
    second = request(cluster, account, names[1])
    await_true(lambda: disk.held_reads() == 2 or is_answered(second), "the next request")
    assert not is_answered(second), second.getresponse().read()
    assert not [line for line in errors_since(cluster.home, began) if "not answer" in line]

    def is_refused() -> bool:
        third = request(cluster, account, names[2])
        is_soon = bool(select.select([third.sock], [], [], 1)[0])
        refused = is_soon and third.getresponse().status == 507
        third.close()
        return refused

    await_true(is_refused, "the hang to be found")
    disk.heal()
    for name, server in zip(names, (first, second), strict=False):
        answer = server.getresponse()
        assert (answer.status, answer.read() == content_of(name)) == (200, True), name
        server.close()
    assert cluster.pid_of("object-server") == pid


def test_a_disk_that_hangs_at_start(
    cluster: RunningCluster, disk: IllDisk, account: Account
) -> None:
    names = [f"small-{number}" for number in range(60)]
    put_all(account, names)
    hang_at_start(cluster, disk, "object")
    account.close()
    with Uploader(cluster.port, "c").running() as uploader:
        uploader.await_more(50)
        assert_all_are_served(account, names)
        disk.heal()
        uploader.await_more(50)
    assert_all_are_served(account, names)
    assert_nothing_is_lost(account, uploader)

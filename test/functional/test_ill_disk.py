"""One disk of a server fails under load: all data outside the bad place is served."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
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

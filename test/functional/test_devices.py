"""A device that fails, and a ring that changes, while the cluster runs."""

from __future__ import annotations

import itertools
import os
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from running_cluster import RunningCluster, await_true
from storage_connection import StorageConnection
from swift_api import Account
from uploader import Uploader, assert_nothing_is_lost

from cluster.ports import HOST
from ring.hashing import HashPath
from ring.ring import Ring

#: How long an object server lets a DELETE wait for space, seconds.
ERASE_SECONDS = 5.0
RING_BUILDER = str(Path(sysconfig.get_path("scripts")) / "martlet-ring-builder")


def object_ring(cluster: RunningCluster) -> Ring:
    etc = cluster.home / "etc"
    return Ring(etc / "object.ring.gz", HashPath.from_conf(etc / "martlet.conf"))


def holders(cluster: RunningCluster, partition: int) -> set[str]:
    """Return the devices with a directory for that partition's objects."""
    devices = cluster.home / "devices"
    return {path.parts[-3] for path in devices.glob(f"*/bundles/{partition}")}


def name_on(ring: Ring, account: str, container: str, device: str) -> tuple[str, int]:
    """Return an object name that has a replica on ``device``, and its partition."""
    for number in range(10_000):
        partition, nodes = ring.get_nodes(account, container, f"o{number}")
        if device in {node["device"] for node in nodes}:
            return f"o{number}", partition
    raise AssertionError(f"no partition on {device}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """One small file system for all devices of the cluster in ``tmp_path / "home"``."""
    if os.geteuid():
        pytest.skip("only root can mount a file system")
    directory = tmp_path / "home" / "devices"
    directory.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128m", "tmpfs", directory], check=True)
    yield directory
    subprocess.run(["umount", "--lazy", directory], check=True)


def fill(file: Path) -> None:
    """Write a file until no space is left."""
    with file.open("wb", buffering=0) as opened:
        block = bytes(64 * 1024)
        while True:
            try:
                opened.write(block)
            except OSError:
                return


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A cluster whose devices fail; the last test takes one out of its ring."""
    running = RunningCluster(tmp_path_factory.mktemp("devices")).start()
    yield running
    assert running.stop() == 0, "".join(running.output)


def test_a_handoff_takes_the_place_of_a_failed_device(
    cluster: RunningCluster, account: Account, container: str
) -> None:
    ring = object_ring(cluster)
    lost = cluster.home / "devices" / "d2"
    aside = cluster.home / "d2-aside"
    name, partition = name_on(ring, account.path.rpartition("/")[2], container, "d2")

    def is_put_on(devices: set[str]) -> bool:
        assert account.call("PUT", container, name, body=b"on three devices").status == 201
        return holders(cluster, partition) == devices

    lost.rename(aside)
    try:
        # For up to a second the server still writes to the directory that was moved away.
        await_true(lambda: is_put_on({"d1", "d3", "d4"}), "the hand-off holds the object")
        assert account.call("GET", container, name).body == b"on three devices"
        with Uploader(cluster.port, container).running() as uploader:
            uploader.await_more(200)
        assert not uploader.failures
        assert_nothing_is_lost(account, uploader)
    finally:
        aside.rename(lost)
    assert account.call("GET", container, name).body == b"on three devices"


def test_a_file_of_another_program_fills_the_devices(
    small_disk: Path, new_cluster: Callable[..., RunningCluster]
) -> None:
    """A DELETE is refused at once: no compaction can give space back. The objects are served."""
    cluster = new_cluster().start().await_writes()
    account = Account(cluster.port)
    assert account.call("PUT", "c").status == 201
    for number in range(60):
        assert account.call("PUT", "c", f"o{number}", body=b"x" * 20_000).status == 201
    foreign = small_disk / "foreign"
    fill(foreign)

    def delete(number: int) -> tuple[int, float]:
        began = time.monotonic()
        status = account.call("DELETE", "c", f"o{number}").status
        return status, time.monotonic() - began

    # For up to a second a server may go by the space that there was. Some replicas have tombstones.
    await_true(lambda: delete(0)[0] == 503, "the servers see that no space is left")
    refused = [delete(number) for number in range(1, 6)]
    assert {status for status, _seconds in refused} == {503}
    # A busy machine is late now and then.
    assert min(seconds for _status, seconds in refused) < ERASE_SECONDS / 2
    assert {account.call("GET", "c", f"o{number}").status for number in range(10, 60)} == {200}
    foreign.unlink()
    await_true(lambda: delete(59)[0] == 204, "a DELETE")
    account.close()


def test_one_failed_device_leaves_every_old_object_readable(
    cluster: RunningCluster, account: Account, container: str
) -> None:
    with Uploader(cluster.port, container).running() as uploader:
        uploader.await_more(150)
    devices = cluster.home / "devices"
    # Two, one after the other: the proxy's memory of the first must not hide objects on the second.
    # Not d1: a proxy that remembers its failure would not write there in the next test.
    for device in ("d2", "d3"):
        (devices / device).rename(cluster.home / "aside")
        try:
            assert_nothing_is_lost(account, uploader)
        finally:
            (cluster.home / "aside").rename(devices / device)


def has_replica(cluster: RunningCluster, device: str, partition: int, path: str) -> bool:
    """Whether the object server itself has the replica."""
    port = cluster.storage_port("object")
    connection = StorageConnection(cluster.home, HOST, port)
    try:
        connection.request("HEAD", f"/{device}/{partition}{path}")
        status = connection.getresponse().status
    finally:
        connection.close()
    assert status in (200, 404)
    return status == 200


def test_a_new_ring_is_taken_up_while_running(
    cluster: RunningCluster, account: Account, container: str
) -> None:
    account_name = account.path.rpartition("/")[2]
    builder = str(cluster.home / "etc" / "object.builder")
    subprocess.run([RING_BUILDER, builder, "remove", "/d1"], check=True, timeout=300)
    assert subprocess.run([RING_BUILDER, builder, "rebalance"], timeout=300).returncode in (0, 1)
    ring = object_ring(cluster)
    assert {node["device"] for node in ring.get_part_nodes(0)} == {"d2", "d3", "d4"}
    names = (f"o{number}" for number in itertools.count())

    def new_uploads_avoid_the_removed_device() -> bool:
        # With the old ring three of four objects have a replica on d1. Twenty in a row without
        # one, over connections to any worker, are not a coincidence.
        for _ in range(20):
            account.close()
            name = next(names)
            assert account.call("PUT", container, name, body=b"x").status == 201
            partition = ring.get_part(account_name, container, name)
            if has_replica(cluster, "d1", partition, f"/{account_name}/{container}/{name}"):
                return False
        return True

    await_true(new_uploads_avoid_the_removed_device, "the proxy uses the new ring")

"""A disk with databases hangs: the account and container servers continue with the others."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from ill_disk import DEVICE, IllDisk, hang_at_start, is_listening
from running_cluster import RunningCluster, await_true
from storage_connection import StorageConnection

from cluster.ports import HOST
from ring.ring import Ring, load_rings

ACCOUNT = "AUTH_ill"
#: Longest time for a request to a healthy disk on a busy machine.
ANSWER_SECONDS_MAX = 30.0
#: ``disk_timeout`` of the servers here. On a busy machine healthy disks need seconds, too.
DISK_TIMEOUT = 8.0


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ill-databases") / "home"


@pytest.fixture(scope="module")
def disk(ill_disk_program: Path, home: Path) -> Iterator[IllDisk]:
    """One of the four devices of the cluster."""
    with IllDisk(ill_disk_program, home.parent / "backing", home / "devices" / DEVICE) as ill:
        yield ill


@pytest.fixture(scope="module")
def cluster(disk: IllDisk, home: Path) -> Iterator[RunningCluster]:
    running = RunningCluster(home).start()
    for kind in ("account", "container"):
        conf = running.home / "etc" / f"{kind}-server.conf"
        section = f"[app:{kind}-server]\n"
        assert section in conf.read_text()
        conf.write_text(
            conf.read_text().replace(section, f"{section}disk_timeout = {DISK_TIMEOUT}\n")
        )
    running.kill_and_await_restart("account-server", "container-server")
    yield running
    assert running.stop() == 0, "".join(running.output)


@pytest.fixture(autouse=True)
def healed(disk: IllDisk) -> Iterator[None]:
    """After a failed test, too: otherwise hanging processes could not be stopped."""
    yield
    disk.heal()


class Databases:
    """Requests to a storage server itself, with the devices of some databases."""

    def __init__(self, cluster: RunningCluster, kind: str) -> None:
        rings = load_rings(cluster.home / "etc")
        self._home = cluster.home
        self._port = cluster.storage_port(kind)
        ring: Ring = getattr(rings, kind)
        #: One path for each database and device, by device.
        self.paths: dict[str, list[str]] = {f"d{number}": [] for number in range(1, 5)}
        for number in itertools.count():
            if min(map(len, self.paths.values())) >= 8:
                break
            names = (ACCOUNT, f"c{number}") if kind == "container" else (f"AUTH_{number}",)
            partition, nodes = ring.get_nodes(*names)
            for node in nodes:
                self.paths[node["device"]].append(
                    "/".join(["", node["device"], str(partition), *names])
                )

    def request(self, method: str, path: str, **headers: str) -> int:
        """Return the status of an answer that came in time."""
        connection = StorageConnection(self._home, HOST, self._port, ANSWER_SECONDS_MAX)
        sent = {"X-Timestamp": f"{time.time():.5f}", "X-Backend-Storage-Policy-Index": "0"}
        try:
            connection.request(method, path, headers={**sent, **headers})
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()

    def put_all(self) -> None:
        for path in itertools.chain(*self.paths.values()):
            assert self.request("PUT", path) in (201, 202), path

    def assert_others_are_served(self) -> None:
        for device, paths in self.paths.items():
            for path in paths if device != DEVICE else ():
                for method, good in (("PUT", 202), ("HEAD", 204), ("GET", 204)):
                    assert self.request(method, path) == good, (method, path)

    def is_served(self, path: str) -> bool:
        return [self.request(m, path) for m in ("PUT", "HEAD", "GET")] == [202, 204, 204]

    def status_of_ill_disk(self) -> int:
        return self.request("HEAD", self.paths[DEVICE][0])


class Load:
    """Requests of several clients to all databases until the block ends."""

    def __init__(self, databases: Databases, clients: int) -> None:
        self._databases = databases
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._send, args=(device, number), daemon=True)
            for number in range(clients)
            for device in databases.paths
        ]
        self.count = 0

    def _send(self, device: str, number: int) -> None:
        paths = self._databases.paths[device]
        for turn in itertools.count(number):
            if self._is_over.is_set():
                return
            try:
                self._databases.request(("PUT", "GET", "HEAD")[turn % 3], paths[turn % len(paths)])
            except OSError:
                continue  # the test itself has the assertions
            self.count += 1

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(2 * ANSWER_SECONDS_MAX)


@pytest.mark.parametrize("kind", ["account", "container"])
def test_a_disk_that_hangs_under_load(cluster: RunningCluster, disk: IllDisk, kind: str) -> None:
    databases = Databases(cluster, kind)
    databases.put_all()
    server = cluster.pid_of(f"{kind}-server")
    with Load(databases, 3) as load:
        await_true(lambda: load.count > 200, "some load")
        disk.hang()
        await_true(lambda: databases.status_of_ill_disk() == 507, "507 for the ill disk")
        databases.assert_others_are_served()
        disk.heal()
        await_true(lambda: databases.status_of_ill_disk() == 204, "the healed disk is back")
    assert cluster.pid_of(f"{kind}-server") == server
    for path in databases.paths[DEVICE]:
        await_true(partial(databases.is_served, path), f"{path} is served again")


@pytest.mark.parametrize("kind", ["account", "container"])
def test_a_disk_that_hangs_at_start(cluster: RunningCluster, disk: IllDisk, kind: str) -> None:
    databases = Databases(cluster, kind)
    databases.put_all()
    hang_at_start(cluster, disk, kind)
    await_true(lambda: is_listening(cluster.storage_port(kind)), "a server")
    databases.assert_others_are_served()
    assert databases.status_of_ill_disk() == 507
    server = cluster.pid_of(f"{kind}-server")
    disk.heal()
    await_true(lambda: databases.status_of_ill_disk() == 204, "the healed disk is back")
    assert cluster.pid_of(f"{kind}-server") == server

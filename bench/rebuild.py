# SPDX-License-Identifier: Apache-2.0
"""The rebuild of a replaced disk, beside that of OpenStack Swift.

    .venv/bin/python bench/rebuild.py [--objects 5000] [--rounds 3]

Each side has three object servers with one device, and the same ring with three replicas. All
objects of 4 KiB are on all devices, written through Swift's backend protocol. Then an empty device
replaces the third one. The replicators of the other two run one pass, both at once, with default
settings. The time is that of the pass. Afterwards every object is asked for at the third server.
The sides take turns. All devices are in memory: the times are those of the programs. Swift is that
of PyPI (`pip install '.[test]'`), with ssync. Its rsync is another program, which is not measured.
"""

from __future__ import annotations

import argparse
import getpass
import http.client
import json
import shutil
import statistics
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from load import HOST, content_of
from own_cluster import free_port
from pypi_swift import swift_command

from martlet.service.programs import find_object_server
from martlet.words.timestamp import Timestamp
from ring.hashing import HashPath
from ring.ring import Ring

SIZE_BYTES = 4096
NODES = (1, 2, 3)
PART_POWER = 8
CLIENTS = 8
START_SECONDS_MAX = 30.0
PASS_SECONDS_MAX = 3600.0
MEMORY = Path("/dev/shm")  # noqa: S108  # as a disk that costs nothing
ACCOUNT, CONTAINER = "AUTH_bench", "rebuild"
CONF = """
[DEFAULT]
bind_ip = {host}
bind_port = {port}
devices = {devices}
mount_check = false
swift_dir = {home}
user = {user}
log_level = WARNING
[pipeline:main]
pipeline = object-server
[app:object-server]
use = egg:swift#object
[object-replicator]
sync_method = ssync
"""
SALT = "[swift-hash]\nswift_hash_path_suffix = bench\n"


@dataclass(frozen=True)
class Side:
    """One of the two programs; the commands are of a server and of one pass, for a conf."""

    name: str
    serve: Callable[[Path], list[str]]
    replicate: Callable[[Path], list[str]]


def ours() -> Side:
    """This tree's programs."""
    program = find_object_server()
    return Side(
        "martlet",
        lambda conf: [program, str(conf)],
        lambda conf: [program, "replicate", str(conf), "--once"],
    )


def _swifts() -> Side:
    def run(module: str, conf: Path, *arguments: str) -> list[str]:
        folder = str(conf.parent.parent)
        return swift_command(module, folder, str(conf), *arguments)

    return Side(
        "swift",
        lambda conf: run("swift.obj.server", conf),
        lambda conf: run("swift.obj.replicator", conf, "once"),
    )


class Cluster:
    """Three object servers of one side, below a directory."""

    def __init__(self, side: Side, home: Path) -> None:
        self._side = side
        self._home = home
        self._ports = {node: free_port() for node in NODES}
        self._servers: dict[int, subprocess.Popen[bytes]] = {}
        home.mkdir()
        (home / "swift.conf").write_text(SALT)
        (home / "martlet.conf").write_text(f"{SALT}[grid]\ngrid_secret = none\n")
        for node in NODES:
            self.device(node).mkdir(parents=True)
            self.conf(node).write_text(
                CONF.format(
                    host=HOST,
                    port=self._ports[node],
                    devices=self.device(node).parent,
                    home=home,
                    user=getpass.getuser(),
                )
            )
        self._ring = self._make_ring()

    def device(self, node: int) -> Path:
        """The directory of a node's device."""
        return self._home / f"node{node}" / "devices" / f"d{node}"

    def pid(self, node: int) -> int:
        """The process of a running server."""
        return self._servers[node].pid

    def conf(self, node: int) -> Path:
        """The conf of a node."""
        return self._home / f"node{node}" / "object-server.conf"

    def _make_ring(self) -> Ring:
        program = Path(sysconfig.get_path("scripts")) / "martlet-ring-builder"
        builder = [str(program), str(self._home / "object.builder")]
        places = [f"r1z{n}-{HOST}:{self._ports[n]}/d{n}" for n in NODES]
        for words in (
            ["create", str(PART_POWER), str(len(NODES)), "0"],
            *(["add", place, "1"] for place in places),
            ["rebalance"],
        ):
            subprocess.run([*builder, *words], check=True, stdout=subprocess.DEVNULL)
        salts = HashPath.from_conf(self._home / "martlet.conf")
        return Ring(self._home / "object.ring.gz", salts)

    def start(self, node: int) -> None:
        """Start a server, and wait until it answers."""
        with (self._home / f"server{node}.log").open("ab") as log:
            self._servers[node] = subprocess.Popen(
                self._side.serve(self.conf(node)), stdout=log, stderr=log
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                self._head(node, 0)
                return
            except OSError:
                if time.monotonic() > deadline:
                    said = Path(log.name).read_text()[-2000:]
                    raise SystemExit(f"{self._side.name} does not start:\n{said}") from None
                time.sleep(0.05)

    def stop(self, node: int) -> None:
        """End a server."""
        server = self._servers.pop(node)
        server.terminate()
        server.wait(30)

    def close(self) -> None:
        """End all servers."""
        for node in list(self._servers):
            self.stop(node)

    def fill(self, count: int) -> None:
        """Start the servers, and write all objects to each."""
        for node in NODES:
            self.start(node)
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(self._put_some, [range(i, count, CLIENTS) for i in range(CLIENTS)]))

    def _path(self, node: int, number: int) -> str:
        partition = self._ring.get_part(ACCOUNT, CONTAINER, str(number))
        return f"/d{node}/{partition}/{ACCOUNT}/{CONTAINER}/{number}"

    def _put_some(self, numbers: range) -> None:
        connections = [http.client.HTTPConnection(HOST, self._ports[n], timeout=60) for n in NODES]
        for number in numbers:
            headers = {"X-Timestamp": Timestamp.now().normal, "Content-Type": "a/b"}
            body = content_of(number, SIZE_BYTES)
            for node, connection in zip(NODES, connections, strict=True):
                connection.request("PUT", self._path(node, number), body, headers)
                answer = connection.getresponse()
                if answer.status != 201:
                    raise SystemExit(f"{self._side.name}: PUT answers {answer.status}")
                answer.read()
        for connection in connections:
            connection.close()

    def _head(self, node: int, number: int) -> int:
        connection = http.client.HTTPConnection(HOST, self._ports[node], timeout=60)
        try:
            connection.request("HEAD", self._path(node, number))
            return connection.getresponse().status
        finally:
            connection.close()

    def replace(self, node: int) -> None:
        """Put an empty device in the place of a node's device."""
        self.stop(node)
        shutil.rmtree(self.device(node))
        self.device(node).mkdir()
        # Only ours needs it: an empty device in the place of a used one may be a missing mount.
        martlet = Path(sysconfig.get_path("scripts")) / "martlet"
        command = [str(martlet), "device", "adopt", "-d", str(self._home), str(self.device(node))]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        self.start(node)

    def rebuild(self) -> float:
        """Run one pass of the replicators of the first two nodes; return its seconds."""
        began = time.monotonic()
        with (self._home / "replicators.log").open("ab") as log:
            passes = [
                subprocess.Popen(self._side.replicate(self.conf(node)), stdout=log, stderr=log)
                for node in NODES[:2]
            ]
            for each in passes:
                if each.wait(PASS_SECONDS_MAX):
                    said = Path(log.name).read_text()[-2000:]
                    raise SystemExit(f"{self._side.name}: a replicator failed:\n{said}")
        return time.monotonic() - began

    def missing(self, node: int, count: int) -> int:
        """The number of objects that a server does not have."""
        with ThreadPoolExecutor(CLIENTS) as pool:
            statuses = pool.map(lambda number: self._head(node, number), range(count))
            return sum(status != 200 for status in statuses)


def main() -> None:
    """Measure and print."""
    arguments = _parse()
    sides = [ours(), _swifts()]
    seconds: dict[str, list[float]] = {side.name: [] for side in sides}
    with ExitStack() as stack:
        directory = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="martlet-bench-", dir=MEMORY)
        )
        clusters = {}
        for side in sides:
            clusters[side.name] = cluster = Cluster(side, Path(directory) / side.name)
            stack.callback(cluster.close)
            cluster.fill(arguments.objects)
        for _ in range(arguments.rounds):
            for name, cluster in clusters.items():
                cluster.replace(NODES[-1])
                seconds[name].append(cluster.rebuild())
                if missing := cluster.missing(NODES[-1], arguments.objects):
                    raise SystemExit(f"{name}: {missing} objects are missing after the pass")
    _show(arguments, seconds)


def _show(arguments: argparse.Namespace, seconds: dict[str, list[float]]) -> None:
    rates = {name: arguments.objects / statistics.median(s) for name, s in seconds.items()}
    ratio = rates["martlet"] / rates["swift"]
    if arguments.json:
        print(json.dumps({"seconds": seconds, "objects_per_second": rates, "ratio": ratio}))
        return
    print(f"{arguments.objects} objects of 4 KiB, medians of {arguments.rounds} rounds")
    for name, rate in rates.items():
        print(f"{name:8} {statistics.median(seconds[name]):8.2f} s  {rate:10,.0f} objects/s")
    print(f"ratio    {ratio:.1f}")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--objects", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()

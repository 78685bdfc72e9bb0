# SPDX-License-Identifier: Apache-2.0
"""A container with many rows is divided into shards while clients use it.

    .venv/bin/python bench/sharding.py [--rows 5000000] [--clients 4] [--quiet-seconds 20]

It starts a cluster of one node, and fills the three databases of a container with rows. Clients put
and delete objects and list pages at random places, first for a while as it is. Then passes of the
sharder run until all replicas have given all rows to shards. Below 1,000,000 rows the threshold is
the number of rows. At the end it lists the whole container and compares the names.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from load import HOST, percentile
from own_cluster import login, must, own_cluster
from processes import services, tree_cpu_ms

CONTAINER = "photos"
ROWS_AT_ONCE = 10_000
PAGE = 1000
PUT_AT = "1700000000.00000"
THRESHOLD = 1_000_000


@dataclass
class Phase:
    """The requests of a time."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def note(self, kind: str, started: float, status: int, expected: int) -> None:
        """Note a request."""
        self.seconds.setdefault(kind, []).append(time.monotonic() - started)
        if status != expected:
            self.failures.append(f"{kind} {status}")


@dataclass
class Clients:
    """The clients; each changes names of its own."""

    port: int
    token: str
    account: str
    names: list[str]
    phase: Phase = field(default_factory=Phase)
    added: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.is_over = threading.Event()

    def run(self, number: int) -> None:
        """Send requests until `is_over`."""
        chance = random.Random(number)
        connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
        while not self.is_over.is_set():
            if chance.random() < 0.3:
                marker = chance.choice(self.names)
                query = f"?limit={PAGE}&marker={quote(marker)}"
                self.send(connection, "GET", query, b"", 200)
                continue
            name = f"{chance.choice(self.names)}-{number}"
            if name in self.added:
                if self.send(connection, "DELETE", f"/{quote(name)}", b"", 204):
                    self.added.discard(name)
            elif self.send(connection, "PUT", f"/{quote(name)}", b"x", 201):
                self.added.add(name)

    def send(
        self, connection: http.client.HTTPConnection, method: str, rest: str, body: bytes, ok: int
    ) -> bool:
        """Send a request; return whether it had the expected answer."""
        started, phase = time.monotonic(), self.phase
        path = f"{self.account}/{CONTAINER}{rest}"
        try:
            connection.request(method, path, body or None, {"X-Auth-Token": self.token})
            response = connection.getresponse()
            response.read()
            status = response.status
        except (OSError, http.client.HTTPException):
            connection.close()
            status = 0
        phase.note(method, started, status, ok)
        return status == ok

    def listed(self) -> Iterator[str]:
        """All names of the container."""
        marker = ""
        while True:
            query = f"format=json&limit=10000&marker={quote(marker)}"
            path = f"{self.account}/{CONTAINER}?{query}"
            entries = json.loads(must(self.port, "GET", path, self.token, 200))
            if not entries:
                return
            yield from (entry["name"] for entry in entries)
            marker = entries[-1]["name"]


def main() -> int:
    """Print the figures of both times, and of the passes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000, help="objects in the container")
    parser.add_argument("--clients", type=int, default=4, help="parallel clients")
    parser.add_argument("--quiet-seconds", type=float, default=20.0, help="time before it begins")
    options = parser.parse_args()
    with own_cluster() as home:
        return measure(home, options)


def measure(home: Path, options: argparse.Namespace) -> int:
    """Fill, divide and compare; return 1 if a request failed or a name is wrong."""
    port = int(json.loads((home / "cluster.json").read_text())["proxy_port"])
    token, account = login(port)
    must(port, "PUT", f"{account}/{CONTAINER}", token, 201)
    names = [f"2026/{n // 1000:06d}/IMG_{n:08d}.jpg" for n in range(options.rows)]
    fill(home, names)
    clients = Clients(port, token, account, names)
    threads = [threading.Thread(target=clients.run, args=(n,)) for n in range(options.clients)]
    for thread in threads:
        thread.start()
    time.sleep(options.quiet_seconds)
    before, clients.phase = clients.phase, Phase()
    show("before", before, options.quiet_seconds)
    cpu, started = server_cpu(home), time.monotonic()
    conf = conf_with(home, min(THRESHOLD, options.rows))
    totals = passes(conf)
    seconds = time.monotonic() - started
    clients.is_over.set()
    for thread in threads:
        thread.join()
    show("meanwhile", clients.phase, seconds)
    print(f"sharded in {seconds:.0f} s; CPU of container servers {server_cpu(home) - cpu:.0f} s")
    print("passes:", " ".join(f"{name}={value:g}" for name, value in totals.items() if value))
    failures = [*before.failures, *clients.phase.failures]
    expected = sorted({*names, *clients.added})
    found = list(clients.listed())
    print(f"requests that failed: {len(failures)} {failures[:5]}")
    print(f"names: {len(expected)}, listed as they must be: {found == expected}")
    return 0 if found == expected and not failures else 1


def fill(home: Path, names: list[str]) -> None:
    """Write the rows into all replicas of the container."""
    from container.database import ContainerDatabase
    from container.record import Record

    for path in (home / "devices").glob("*/containers/*/*/*/*.db"):
        database = ContainerDatabase(str(path))
        for start in range(0, len(names), ROWS_AT_ONCE):
            part = names[start : start + ROWS_AT_ONCE]
            database.merge([Record(n, PUT_AT, 4096, "image/jpeg", "0" * 32, 0, 0) for n in part])
        database.close()


def conf_with(home: Path, threshold: int) -> Path:
    """The conf of the container server, with a threshold for the sharder."""
    (conf,) = (home / "etc").rglob("container-server.conf")
    text = conf.read_text()
    section = "[container-sharder]\n"
    added = f"{section}shard_container_threshold = {threshold}\n"
    conf.write_text(text.replace(section, added))
    return conf


def passes(conf: Path) -> dict[str, float]:
    """Run passes until nothing is left to be given; return the sums of their figures."""
    command = [sys.executable, "-m", "replicator.sharder.command", str(conf), "--once", "--json"]
    totals: dict[str, float] = {}
    while True:
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        figures = json.loads(answer.stdout)
        for name in ("found", "created", "given", "active", "rows", "moved", "removed", "failures"):
            totals[name] = totals.get(name, 0) + figures[name]
        totals["passes"] = totals.get("passes", 0) + 1
        if totals["active"] and totals["active"] >= totals["found"] and not figures["sharding"]:
            return totals


def server_cpu(home: Path) -> float:
    """The CPU time of the container servers so far, seconds."""
    found = services(home)
    return (
        sum(tree_cpu_ms(pid) for name, pid in found.items() if name.startswith("container")) / 1e3
    )


def show(name: str, phase: Phase, seconds: float) -> None:
    """Print the rates and times of requests."""
    for method, times in sorted(phase.seconds.items()):
        ordered = sorted(times)
        print(
            f"{name:<10} {method:<7} {len(times) / seconds:7.1f}/s  "
            f"p50 {percentile(ordered, 0.5) * 1e3:6.1f} ms  "
            f"p99 {percentile(ordered, 0.99) * 1e3:7.1f} ms  max {ordered[-1] * 1e3:7.1f} ms"
        )


if __name__ == "__main__":
    sys.exit(main())

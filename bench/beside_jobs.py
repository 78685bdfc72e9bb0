# SPDX-License-Identifier: Apache-2.0
"""The latency of small requests while replicator and auditor run, beside that without them.

    .venv/bin/python bench/beside_jobs.py [--rounds 7] [--objects 3000]

A cluster of its own, with three replicas. In each round clients write objects and read others, once
without jobs and once beside them. The jobs are the object replicator and the object auditor of each
node, with default settings. The order changes from round to round. The auditor reads all that is
stored, and starts again with each round. The replicator finds all in sync. The table has medians
over the rounds. The last column is the median of the ratios in the same round.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from load import Load, percentile, run
from own_cluster import login, must, own_cluster

from martlet.service.programs import find_object_server

JOBS = ("replicate", "audit")
STATUSES = {"PUT": 201, "GET": 200}
SIZE_BYTES = 4096
#: Objects that are stored before, for the auditor to read.
STORED = 20_000


class Cluster:
    """A running cluster with its objects."""

    def __init__(self, home: Path, clients: int) -> None:
        self._home = home
        self._clients = clients
        self._port = int(json.loads((home / "cluster.json").read_text())["proxy_port"])
        self._token, self._account = login(self._port)
        must(self._port, "PUT", f"{self._account}/bench", self._token, 201)
        self.send("PUT", "stored-", list(range(STORED)))

    def send(self, method: str, prefix: str, numbers: list[int]) -> dict[str, float]:
        """Send requests, which must all succeed; return their latencies in ms."""
        path = f"{self._account}/bench/{prefix}"
        status = STATUSES[method]
        load = Load(self._port, self._token, method, path, numbers, SIZE_BYTES, status)
        outcome = run(load, self._clients, 2)
        if outcome.failures:
            raise SystemExit(f"{outcome.failures} failed: {outcome.first_failure}")
        latencies = outcome.latencies_ms
        return {"p50": percentile(latencies, 0.5), "p99": percentile(latencies, 0.99)}

    @contextmanager
    def jobs(self) -> Iterator[None]:
        """Run the jobs of all nodes."""
        program = find_object_server()
        with (self._home / "jobs.log").open("ab") as log:
            running = [
                subprocess.Popen([program, job, str(conf)], stdout=log, stderr=log)
                for conf in sorted(self._home.glob("etc/**/object-server.conf"))
                for job in JOBS
            ]
            try:
                yield
                if ended := [job.args for job in running if job.poll() is not None]:
                    said = Path(log.name).read_text()[-2000:]
                    raise SystemExit(f"jobs have ended: {ended}\n{said}")
            finally:
                for job in running:
                    job.terminate()
                for job in running:
                    job.wait(30)


def main() -> None:
    """Measure and print."""
    given = _parse()
    found: dict[str, dict[str, list[dict[str, float]]]] = {
        method: {"without": [], "with": []} for method in STATUSES
    }
    with own_cluster() as home:
        cluster = Cluster(home, given.clients)
        for number in range(given.rounds):
            order = ["without", "with"] if number % 2 else ["with", "without"]
            for side in order:
                if side == "with":
                    with cluster.jobs():
                        _measure(cluster, found, side, number, given.objects)
                else:
                    _measure(cluster, found, side, number, given.objects)
    print(json.dumps(found) if given.json else _table(given, found))


def _measure(
    cluster: Cluster,
    found: dict[str, dict[str, list[dict[str, float]]]],
    side: str,
    number: int,
    objects: int,
) -> None:
    numbers = list(range(objects))
    found["PUT"][side].append(cluster.send("PUT", f"{number}-{side}-", numbers))
    chosen = random.Random(number).sample(range(STORED), min(objects, STORED))
    found["GET"][side].append(cluster.send("GET", "stored-", chosen))


def _table(given: argparse.Namespace, found: dict[str, dict[str, list[dict[str, float]]]]) -> str:
    lines = [
        f"{given.rounds} rounds of {given.objects} objects of {SIZE_BYTES} bytes, "
        f"{given.clients} clients",
        f"{'':10}{'without ms':>12}{'with ms':>12}{'ratio':>8}",
    ]
    for method, sides in found.items():
        for name in ("p50", "p99"):
            idle, busy = ([each[name] for each in sides[side]] for side in ("without", "with"))
            ratio = statistics.median(b / i for b, i in zip(busy, idle, strict=True))
            lines.append(
                f"{method + ' ' + name:10}{statistics.median(idle):>12.2f}"
                f"{statistics.median(busy):>12.2f}{ratio:>8.2f}"
            )
    return "\n".join(lines)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--objects", type=int, default=3000, help="in each round and method")
    parser.add_argument("--clients", type=int, default=8, help="parallel connections")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""The CPU of GETs of small public objects with nginx as a cache in front, and without.

    .venv/bin/python bench/cache_in_front.py [--objects 20000] [--rounds 3]

nginx is the one of PATH, with etc/nginx-cache.conf. A cluster of its own has a container that is
readable without credentials. In each round new objects are read once directly, once through nginx,
and once more through nginx, which then has them. With ``half`` each object is read twice in one
pass through nginx, so half of the requests are hits. CPU is user and system time of all processes
of the cluster, and of nginx, for each GET, from /proc.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from load import HOST, Load, run
from own_cluster import free_port, login, must, own_cluster
from processes import tree_cpu_ms, usage

SAMPLE = Path(__file__).resolve().parent.parent / "etc" / "nginx-cache.conf"
CLIENTS, PROCESSES, SIZE_BYTES = 32, 2, 4096
PASSES = ("direct", "miss", "half", "hit")


@contextmanager
def nginx(proxy_port: int) -> Iterator[tuple[int, int]]:
    """Run nginx with the sample; yield its port and its process id."""
    program = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if program is None:
        raise SystemExit("nginx is not installed")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="martlet-nginx-") as name:
        directory = Path(name)
        sample = SAMPLE.read_text()
        for old, new in [
            ("/var/cache/nginx/martlet", str(directory / "cache")),
            ("127.0.0.1:8080", f"127.0.0.1:{proxy_port}"),
            ("listen 8088", f"listen 127.0.0.1:{port}"),
        ]:
            if old not in sample:
                raise SystemExit(f"{SAMPLE} lacks {old}")
            sample = sample.replace(old, new)
        conf = directory / "nginx.conf"
        conf.write_text(
            f"daemon off;\nuser root;\nworker_processes 2;\npid {directory}/pid;\n"
            f"error_log {directory}/error.log;\nevents {{ worker_connections 1024; }}\n"
            f"http {{\naccess_log off;\nkeepalive_requests 1000000;\n{sample}\n}}\n"
        )
        process = subprocess.Popen([program, "-c", str(conf), "-p", name])
        try:
            while not (directory / "pid").exists() or not (directory / "pid").read_text():
                if process.poll() is not None:
                    raise SystemExit("nginx did not start")
                time.sleep(0.05)
            yield port, process.pid
        finally:
            process.terminate()
            process.wait(30)


def check_private(cache_port: int, account: str, token: str) -> None:
    """Stop if a client gets what the cache has got for another one."""
    key = "X-Amz-Server-Side-Encryption-Customer-Key"
    for given in [
        {"X-Auth-Token": token},
        {"X-Storage-Token": token},
        {"X-Auth-Token": token, "X-Service-Token": token},
        {"X-Auth-Token": token, "Cookie": "session=1"},
        {"X-Auth-Token": token, "Authorization": "none"},
    ]:
        must(cache_port, "GET", f"{account}/private/o", "", 200, headers=given)
        must(cache_port, "GET", f"{account}/private/o", "", 401)
    referrer = {"Referer": "http://example.com/page"}
    must(cache_port, "GET", f"{account}/referred/o", "", 200, headers=referrer)
    must(cache_port, "GET", f"{account}/referred/o", "", 401)
    for given in [{key: "k"}, {"Range": "bytes=0-1"}, {"Origin": "http://example.com"}]:
        must(cache_port, "GET", f"{account}/cached/o", "", 200)
        connection = http.client.HTTPConnection(HOST, cache_port, timeout=30)
        connection.request("GET", f"{account}/cached/o", headers=given)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        if answer.headers["X-Cache-Status"] != "BYPASS":
            raise SystemExit(f"{given}: {answer.headers['X-Cache-Status']}")


@dataclass
class Bench:
    """The cluster and nginx, and what was measured: CPU us of both, and GETs a second."""

    home: Path
    proxy_port: int
    cache_port: int
    nginx_pid: int
    token: str
    spent: dict[str, list[tuple[float, float, float]]]

    def round(self, prefix: str, count: int, number: int) -> None:
        """All passes, with new objects."""
        names = list(range(count))
        half = [n for n in names[: count // 2] for _ in range(2)]
        random.Random(number).shuffle(half)
        self._send(self.proxy_port, "PUT", prefix, names)
        self._send(self.proxy_port, "PUT", f"{prefix}half-", names[: count // 2])
        self._measure("direct", self.proxy_port, prefix, names)
        self._measure("miss", self.cache_port, prefix, names)
        self._measure("hit", self.cache_port, prefix, names)
        self._measure("half", self.cache_port, f"{prefix}half-", half)

    def _measure(self, name: str, port: int, prefix: str, names: list[int]) -> None:
        time.sleep(0.5)  # what a service does after its answers belongs to its own pass
        before = self._cpu_ms()
        seconds = self._send(port, "GET", prefix, names)
        after = self._cpu_ms()
        cluster, cache = ((b - a) * 1000 / len(names) for a, b in zip(before, after, strict=True))
        self.spent[name].append((cluster, cache, len(names) / seconds))

    def _send(self, port: int, method: str, prefix: str, names: list[int]) -> float:
        token, status = (self.token, 201) if method == "PUT" else ("", 200)
        load = Load(port, token, method, prefix, names, SIZE_BYTES, status)
        outcome = run(load, CLIENTS, PROCESSES)
        if outcome.failures:
            raise SystemExit(f"{outcome.failures} failed: {outcome.first_failure}")
        return outcome.seconds

    def _cpu_ms(self) -> tuple[float, float]:
        cluster = sum(used.cpu_ms for used in usage(self.home).values())
        return cluster, tree_cpu_ms(self.nginx_pid)


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--objects", type=int, default=20000, help="in each pass")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    spent: dict[str, list[tuple[float, float, float]]] = {name: [] for name in PASSES}
    with own_cluster() as home:
        port = int(json.loads((home / "cluster.json").read_text())["proxy_port"])
        token, account = login(port)
        container = f"{account}/cached"
        must(port, "PUT", container, token, 201, headers={"X-Container-Read": ".r:*"})
        must(port, "PUT", f"{account}/private", token, 201)
        referrers = {"X-Container-Read": ".r:example.com"}
        must(port, "PUT", f"{account}/referred", token, 201, headers=referrers)
        for name in ("cached", "private", "referred"):
            must(port, "PUT", f"{account}/{name}/o", token, 201, b"x" * SIZE_BYTES)
        with nginx(port) as (cache_port, nginx_pid):
            check_private(cache_port, account, token)
            bench = Bench(home, port, cache_port, nginx_pid, token, spent)
            for number in range(given.rounds):
                bench.round(f"{container}/{number}-", given.objects, number)
    rows = {
        name: [statistics.median(values) for values in zip(*spent[name], strict=True)]
        for name in PASSES
    }
    heads = "cluster us", "nginx us", "GET/s"
    if given.json:
        print(json.dumps({n: dict(zip(heads, row, strict=True)) for n, row in rows.items()}))
        return 0
    print(f"{given.rounds} rounds of {given.objects} GETs of {SIZE_BYTES} bytes, {CLIENTS} clients")
    print("        " + "".join(f"{head:>12}" for head in heads))
    for name, row in rows.items():
        print(f"{name:8}" + "".join(f"{value:>12.0f}" for value in row))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

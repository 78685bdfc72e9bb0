# SPDX-License-Identifier: Apache-2.0
"""The failures of requests while a proxy is started anew, and the cost of a scrape of metrics.

    .venv/bin/python bench/upkeep.py [--requests 10000] [--scrapes 500]

A cluster of its own. SIGHUP lets the proxy start its program anew, as an upgrade of the package
does, again and again. Meanwhile clients write and read objects: each over a connection that it
keeps, and each tenth request over a new one. A connection that is refused, one that ends, and an
answer with another status count as failures. Then each service answers GET /metrics. CPU is that
of all its processes, from /proc, in steps of 10 ms.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from load import HOST, TIMEOUT_SECONDS, content_of, percentile
from own_cluster import login, must, own_cluster
from processes import services, tree_cpu_ms

KINDS = ("proxy", "account", "container", "object")
SIZE_BYTES = 4096
#: Each so many requests goes over a new connection.
RECONNECT_EVERY = 10
_RELOADED = " listening ip="


@dataclass
class Seen:
    """The latencies and failures of the clients."""

    latencies_ms: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)


class Clients:
    """Clients that write an object and read it, until their numbers are used up."""

    def __init__(self, port: int, token: str, container: str, numbers: Iterator[int]) -> None:
        self.seen = Seen()
        self._port = port
        self._headers = {"X-Auth-Token": token}
        self._container = container
        self._numbers = numbers
        self._lock = threading.Lock()

    def start(self, count: int) -> list[threading.Thread]:
        """Start so many."""
        threads = [threading.Thread(target=self._work) for _ in range(count)]
        for thread in threads:
            thread.start()
        return threads

    def _work(self) -> None:
        connection = self._connection()
        for turn in range(1 << 60):
            with self._lock:
                number = next(self._numbers, None)
            if number is None:
                break
            path, body = f"{self._container}/{number}", content_of(number, SIZE_BYTES)
            for method, status, sent in (("PUT", 201, body), ("GET", 200, b"")):
                began = time.monotonic()
                try:
                    connection.request(method, path, sent or None, self._headers)
                    response = connection.getresponse()
                    content = response.read()
                    good = response.status == status and (method == "PUT" or content == body)
                    failure = "" if good else f"{method} answered {response.status}"
                except (OSError, http.client.HTTPException) as error:
                    connection.close()
                    failure = type(error).__name__
                with self._lock:
                    self.seen.latencies_ms.append((time.monotonic() - began) * 1000)
                    if failure:
                        self.seen.failures[failure] += 1
            if turn % (RECONNECT_EVERY // 2) == 0:
                connection.close()
        connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(HOST, self._port, timeout=TIMEOUT_SECONDS)


def start_anew(home: Path, threads: list[threading.Thread]) -> int:
    """Let the proxy start anew until the clients have ended; returns how often it has."""
    log, pid = home / "logs" / "proxy-server.log", services(home)["proxy-server"]
    done = 0
    before = log.read_text().count(_RELOADED)
    while any(thread.is_alive() for thread in threads):
        os.kill(pid, signal.SIGHUP)
        while log.read_text().count(_RELOADED) <= before + done:
            time.sleep(0.01)
        done += 1
        time.sleep(0.5)  # requests in the new program
    return done


def measure_restarts(home: Path, requests: int, clients: int) -> dict[str, Any]:
    """Failures and latencies of requests while the proxy starts anew."""
    port = int(json.loads((home / "cluster.json").read_text())["proxy_port"])
    token, account = login(port)
    container = f"{account}/upkeep"
    must(port, "PUT", container, token, 201)
    running = Clients(port, token, container, iter(range(requests // 2)))
    threads = running.start(clients)
    starts = start_anew(home, threads)
    for thread in threads:
        thread.join()
    latencies = sorted(running.seen.latencies_ms)
    return {
        "requests": len(latencies),
        "starts": starts,
        "refused": running.seen.failures["ConnectionRefusedError"],
        "failed": running.seen.failures.total(),
        "failures": dict(running.seen.failures),
        "p50_ms": percentile(latencies, 0.5),
        "p99_ms": percentile(latencies, 0.99),
        "max_ms": latencies[-1],
    }


def measure_scrapes(home: Path, scrapes: int) -> dict[str, float]:
    """CPU of a scrape of each service, ms."""
    layout = json.loads((home / "cluster.json").read_text())
    ports = {**layout["nodes"][0]["ports"], "proxy": layout["proxy_port"]}
    return {
        kind: _scrape_ms(ports[kind], services(home)[f"{kind}-server"], scrapes) for kind in KINDS
    }


def _scrape_ms(port: int, pid: int, scrapes: int) -> float:
    def scrape() -> None:
        for _ in range(scrapes):
            must(port, "GET", "/metrics", "", 200)

    scrape()
    idle = _cpu_ms_during(pid, lambda: time.sleep(2.0)) / 2.0
    began = time.monotonic()
    spent = _cpu_ms_during(pid, scrape)
    return max(0.0, spent - idle * (time.monotonic() - began)) / scrapes


def _cpu_ms_during(pid: int, work: Callable[[], object]) -> float:
    before = tree_cpu_ms(pid)
    work()
    return tree_cpu_ms(pid) - before


def main() -> None:
    """Measure and print."""
    given = _parse()
    with own_cluster() as home:
        restarts = measure_restarts(home, given.requests, given.clients)
        scrapes = measure_scrapes(home, given.scrapes)
    if given.json:
        print(json.dumps({"restarts": restarts, "scrape_cpu_ms": scrapes}))
        return
    print(
        "{requests} requests while the proxy started anew {starts} times: {refused} refused, "
        "{failed} failed; p50 {p50_ms:.1f} ms, p99 {p99_ms:.1f} ms, longest {max_ms:.0f} ms".format(
            **restarts
        )
    )
    if restarts["failures"]:
        print(f"failures: {restarts['failures']}")
    for kind, spent in scrapes.items():
        print(f"a scrape of the {kind} server: {spent:.2f} ms of CPU")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=10_000, help="half PUTs, half GETs")
    parser.add_argument("--clients", type=int, default=16, help="parallel connections")
    parser.add_argument("--scrapes", type=int, default=500, help="of each service")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


if __name__ == "__main__":
    main()

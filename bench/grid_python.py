# SPDX-License-Identifier: Apache-2.0
"""CPU of small requests over the grid, beside HTTP over kept connections, from green threads.

    .venv/bin/python bench/grid_python.py [--seconds 3] [--rounds 3] [--size 4096]

Three servers in processes of their own answer with the payload. The clients are green threads of
one process. A fan-out sends to all three servers and waits for all answers. CPU is user and system
time of the client's process and of the servers, for each request or fan-out. The ways take turns in
each round; the table has the median of the rounds.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from processes import cpu_ms

SERVICE = Path(__file__).resolve().parent.parent / "test" / "support" / "grid_service.py"
SECRET = "a secret of the benchmark, not of a cluster"
SERVERS = 3
WARM_UP_SECONDS = 0.3

Way = Callable[[], None]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=4096, help="bytes of request and answer")
    parser.add_argument("--threads", type=int, default=32, help="green threads")
    parser.add_argument("--checksum", action="store_true")
    options = parser.parse_args()
    from martlet.service.green import patch_standard_library

    patch_standard_library()
    arguments = ["--secret", SECRET, *(["--checksum"] if options.checksum else [])]
    command = [sys.executable, str(SERVICE), *arguments]
    servers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(SERVERS)]
    try:
        ports = [int(server.stdout.readline()) for server in servers if server.stdout]
        report(options, ports, [server.pid for server in servers])
    finally:
        for server in servers:
            server.kill()
            server.wait()
    return 0


def report(options: argparse.Namespace, ports: list[int], pids: list[int]) -> None:
    ways = make_ways([("127.0.0.1", port) for port in ports], bytes(options.size))
    figures: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, way in ways.items():
            drive(way, options.threads, WARM_UP_SECONDS)
            figures[name].append(measure(way, options, pids))
    print(f"{'us for each':28} {'client CPU':>11} {'servers CPU':>11} {'calls/s':>9}")
    for name, rounds in figures.items():
        client, served, rate = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"{name:28} {client:11.1f} {served:11.1f} {rate:9.0f}")


def measure(way: Way, options: argparse.Namespace, pids: list[int]) -> tuple[float, float, float]:
    """CPU of the client and of the servers for each call, in us, and calls per second."""
    before, served_before = own_cpu(), sum(cpu_ms(pid, is_parent=False) for pid in pids)
    count = drive(way, options.threads, options.seconds)
    client = own_cpu() - before
    served = sum(cpu_ms(pid, is_parent=False) for pid in pids) - served_before
    return client / count * 1e6, served / count * 1e3, count / options.seconds


def own_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def drive(way: Way, threads: int, seconds: float) -> int:
    """Call the way in green threads; the number of calls."""
    import eventlet

    end = time.monotonic() + seconds
    count = 0

    def work() -> None:
        nonlocal count
        while time.monotonic() < end:
            way()
            count += 1

    pool = eventlet.GreenPool(threads)
    for _ in range(threads):
        pool.spawn_n(work)
    pool.waitall()
    return count


def make_ways(addresses: list[tuple[str, int]], payload: bytes) -> dict[str, Way]:
    from martlet.grid.client import FanOut, GridClient
    from martlet.grid.secrets import Secrets
    from martlet.http.backend_client import BackendClient, encode_headers

    grid = GridClient(Secrets.parse(SECRET), conn_timeout=5.0, handshake_timeout=5.0)
    http = BackendClient(conn_timeout=5.0)
    headers = encode_headers({"X-Timestamp": "1700000000.00000", "Content-Type": "text/plain"})

    def request_by_http() -> None:
        if http.request(addresses[0], "PUT", "/a", headers, payload).body() != payload:
            raise RuntimeError("a wrong answer")

    def request_by_grid() -> None:
        if grid.request(addresses[0], "echo", payload) != payload:
            raise RuntimeError("a wrong answer")

    def fan_out_by_http() -> None:
        exchanges = [http.start(one, "PUT", "/a", headers, payload) for one in addresses]
        if any(exchange.response().body() != payload for exchange in exchanges):
            raise RuntimeError("a wrong answer")

    def fan_out_by_grid() -> None:
        fan_out = FanOut(grid)
        for address in addresses:
            fan_out.send(address, "echo", payload)
        if any(call.answer != payload for call in fan_out.wait(len(addresses))):
            raise RuntimeError("a wrong answer")

    return {
        "request over HTTP": request_by_http,
        "request over the grid": request_by_grid,
        "fan-out of 3 over HTTP": fan_out_by_http,
        "fan-out of 3 over the grid": fan_out_by_grid,
    }


if __name__ == "__main__":
    sys.exit(main())

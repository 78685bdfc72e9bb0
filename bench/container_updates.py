# SPDX-License-Identifier: Apache-2.0
"""The cost of object rows for a container server: CPU per row and per UPDATE, commits per second.

    .venv/bin/python bench/container_updates.py [--rows 1 8 64] [--clients 8] [--containers 4]

It starts its own container server on a free port, with its devices in a temporary directory. The
CPU time of the server's processes is read from /proc. The rows are new names in random order. They
go over HTTP and over the grid in turns; the figures are those of the median round.
"""

from __future__ import annotations

import argparse
import http.client
import json
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
from processes import tree_cpu_ms

from martlet.grid.client import GridClient
from martlet.grid.secrets import Secrets
from martlet.http.backend_client import Address

#: Sends rows to a container: its number, the rows, and the end of their names.
Update = Callable[[int, list[list[Any]], str], None]
#: Makes the connection of one client.
Way = Callable[[], Update]

CONF = """
[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
devices = {home}/devices
mount_check = false
swift_dir = {home}
log_level = ERROR
[pipeline:main]
pipeline = container-server
[app:container-server]
use = egg:martlet#container
sweep_interval = 3600
account_suppression_time = 3600
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[64], help="rows in one UPDATE")
    parser.add_argument("--clients", type=int, default=8, help="parallel requests")
    parser.add_argument("--containers", type=int, default=4, help="databases written to")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each kind")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a round")
    parser.add_argument("--same", action="store_true", help="send the same names again and again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        home, port = Path(name), free_port()
        (home / "devices" / "d1").mkdir(parents=True)
        (home / "martlet.conf").write_text(
            "[grid]\ngrid_secret = none\n[swift-hash]\nswift_hash_path_suffix = bench\n"
        )
        (home / "container-server.conf").write_text(CONF.format(port=port, home=home))
        command = [sys.executable, "-m", "container.server", str(home / "container-server.conf")]
        server = subprocess.Popen(command)
        try:
            measure(options, port, server.pid)
        finally:
            server.terminate()
            server.wait()
    return 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def measure(options: argparse.Namespace, port: int, pid: int) -> None:
    wait_until_up(port)
    for container in range(options.containers):
        send(http.client.HTTPConnection("127.0.0.1", port), "PUT", container, b"", 201)
    client = GridClient(Secrets.parse("none"), conn_timeout=10.0, node_timeout=60.0)
    ways: dict[str, Way] = {
        "HTTP": lambda: over_http(http.client.HTTPConnection("127.0.0.1", port)),
        "grid": lambda: over_grid(client, ("127.0.0.1", port)),
    }
    print("rows  way   rows/s  UPDATE/s  CPU per row, us  CPU per UPDATE, us")
    for rows in options.rows:
        rounds: dict[str, list[tuple[float, int]]] = {way: [] for way in ways}
        for number in range(options.rounds):
            for way, connect in ways.items():
                rounds[way].append(one_round(options, rows, connect, f"{way}{number}", pid))
        for way, found in rounds.items():
            cpu_us, updates = sorted(found, key=lambda one: one[0] / one[1])[len(found) // 2]
            rate, each = updates / options.seconds, cpu_us / updates
            print(
                f"{rows:4}  {way} {rate * rows:8.0f} {rate:9.0f} {each / rows:16.1f} {each:19.1f}"
            )
    client.close()


def one_round(
    options: argparse.Namespace, rows: int, connect: Way, name: str, pid: int
) -> tuple[float, int]:
    """CPU time in microseconds, and the number of UPDATEs."""
    counts = [0] * options.clients
    cpu_ms = tree_cpu_ms(pid)
    end = time.monotonic() + options.seconds
    batches = [[row() for _ in range(rows)] for _ in range(1 if options.same else 16)]

    def drive(index: int) -> None:
        update = connect()
        while time.monotonic() < end:
            sent = counts[index]
            prefix = "" if options.same else f"{name}-{index}-{sent}"
            container = (index + sent) % options.containers
            update(container, batches[sent % len(batches)], prefix)
            counts[index] += 1

    threads = [threading.Thread(target=drive, args=(index,)) for index in range(options.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (tree_cpu_ms(pid) - cpu_ms) * 1e3, sum(counts)


def row() -> list[Any]:
    """A row of ``container.update``, without the end of its name."""
    name, stamp = secrets.token_hex(8), f"{time.time():.5f}"
    return [name, stamp, 4096, "application/octet-stream", secrets.token_hex(16), 0]


def over_http(connection: http.client.HTTPConnection) -> Update:
    columns = ("name", "created_at", "size", "content_type", "etag", "deleted")

    def update(container: int, rows: list[list[Any]], end: str) -> None:
        items = [dict(zip(columns, row, strict=True)) for row in rows]
        for item in items:
            item["name"] += end
            item["storage_policy_index"] = 0
        send(connection, "UPDATE", container, json.dumps(items).encode(), 202)

    return update


def over_grid(client: GridClient, address: Address) -> Update:
    def update(container: int, rows: list[list[Any]], end: str) -> None:
        named = [[row[0] + end, *row[1:]] for row in rows]
        elements = ["d1", 0, "AUTH_bench", f"c{container}", 0, f"{time.time():.5f}", named]
        answer = client.request(address, "container.update", msgpack.packb(elements), timeout=60.0)
        if msgpack.unpackb(answer)[0] != 202:
            raise RuntimeError(f"container.update answered {msgpack.unpackb(answer)}")

    return update


def send(
    connection: http.client.HTTPConnection, method: str, container: int, data: bytes, status: int
) -> None:
    headers = {"X-Timestamp": f"{time.time():.5f}"}
    connection.request(method, f"/d1/0/AUTH_bench/c{container}", data, headers)
    response = connection.getresponse()
    response.read()
    if response.status != status:
        raise RuntimeError(f"{method} answered {response.status}")


def wait_until_up(port: int) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())

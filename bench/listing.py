# SPDX-License-Identifier: Apache-2.0
"""Listings of a large container, compared with those of OpenStack Swift's container server.

    .venv/bin/python bench/listing.py [--names 1000000] [--page 10000] [--rounds 3]

It creates the same container twice in a temporary directory, with the database code of each side.
Then it starts a container server of each side, one process, and lists the whole container in JSON,
page by page, in turns. Rates are pages a second for a client that reads and discards the body. CPU
is user and system time of the server's process. Swift is that of PyPI (`pip install '.[test]'`).
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path
from typing import Any
from urllib.parse import quote

from load import HOST
from own_cluster import free_port
from processes import tree_cpu_ms

ACCOUNT, CONTAINER, DEVICE, PARTITION = "AUTH_bench", "listing", "d1", 0
SALT = "bench"
PUT_AT = "1700000000.00000"
ROWS_AT_ONCE = 10_000
START_SECONDS_MAX = 30.0
CONF = """
[DEFAULT]
bind_ip = {host}
bind_port = {port}
devices = {home}/devices
mount_check = false
workers = 0
swift_dir = {home}
log_level = ERROR
[pipeline:main]
pipeline = container-server
[app:container-server]
use = egg:{package}#container
"""


@dataclass(frozen=True)
class Server:
    """A running container server."""

    name: str
    port: int
    pid: int


def main() -> int:
    """Print a line for each server."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--names", type=int, default=1_000_000, help="objects in the container")
    parser.add_argument("--page", type=int, default=10_000, help="names in a page")
    parser.add_argument("--rounds", type=int, default=3, help="whole listings by each server")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    names = [f"photos/2026/{n // 1000:06d}/IMG_{n:08d}.jpg" for n in range(options.names)]
    makers: dict[str, Callable[[Path, list[dict[str, Any]]], None]] = {
        "martlet": _fill_ours,
        "swift": _fill_swifts,
    }
    with tempfile.TemporaryDirectory(prefix="martlet-bench-") as scratch, ExitStack() as stack:
        servers = []
        for package, fill in makers.items():
            home = Path(scratch) / package
            _make(home, fill, names)
            servers.append(stack.enter_context(_server(package, home)))
        report = measure(servers, names, options)
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0


def _make(home: Path, fill: Callable[[Path, list[dict[str, Any]]], None], names: list[str]) -> None:
    (home / "devices" / DEVICE).mkdir(parents=True)
    for name in ("martlet.conf", "swift.conf"):
        (home / name).write_text(
            f"[grid]\ngrid_secret = none\n[swift-hash]\nswift_hash_path_suffix = {SALT}\n"
        )
    # Uploaded in random order, as by many clients.
    shuffled = random.Random(1).sample(names, len(names))
    started = time.monotonic()
    fill(home, [_row(number, name) for number, name in enumerate(shuffled)])
    print(f"{home.name}: {len(names)} rows in {time.monotonic() - started:.0f} s", file=sys.stderr)


def _row(number: int, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "created_at": f"{1700000000 + number // 100}.{number % 100000:05d}",
        "size": 4096 + number % 1000,
        "content_type": "image/jpeg",
        "etag": md5(name.encode(), usedforsecurity=False).hexdigest(),
        "deleted": 0,
        "storage_policy_index": 0,
        "ctype_timestamp": None,
        "meta_timestamp": None,
    }


def _fill_ours(home: Path, rows: list[dict[str, Any]]) -> None:
    from container.database import ContainerDatabase
    from container.record import parse_record
    from storage.database_files import database_path

    digest = md5(f"/{ACCOUNT}/{CONTAINER}{SALT}".encode(), usedforsecurity=False).hexdigest()
    path = database_path(str(home / "devices" / DEVICE), "containers", str(PARTITION), digest)
    database = ContainerDatabase(path)
    database.create(ACCOUNT, CONTAINER, PUT_AT, 0, {})
    for start in range(0, len(rows), ROWS_AT_ONCE):
        database.merge([parse_record(row) for row in rows[start : start + ROWS_AT_ONCE]])
    database.close()


def _fill_swifts(home: Path, rows: list[dict[str, Any]]) -> None:
    from swift.common.utils import hash_path, set_swift_dir, storage_directory
    from swift.container.backend import ContainerBroker

    set_swift_dir(str(home))
    digest = hash_path(ACCOUNT, CONTAINER)
    folder = home / "devices" / DEVICE / storage_directory("containers", PARTITION, digest)
    broker = ContainerBroker(str(folder / f"{digest}.db"), account=ACCOUNT, container=CONTAINER)
    broker.initialize(PUT_AT, 0)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        broker.merge_items(rows[start : start + ROWS_AT_ONCE])


@contextmanager
def _server(package: str, home: Path) -> Iterator[Server]:
    port = free_port()
    conf = home / "container-server.conf"
    conf.write_text(CONF.format(host=HOST, port=port, home=home, package=package))
    script = "martlet-container-server" if package == "martlet" else "swift-container-server"
    program = shutil.which(script, path=sysconfig.get_path("scripts"))
    if program is None:
        raise SystemExit(f"{script} is not installed: pip install '.[test]'")
    with (home / "log").open("wb") as log:
        process = subprocess.Popen([program, str(conf)], stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + START_SECONDS_MAX
            while not _answers(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"{script} did not start:\n{(home / 'log').read_text()}")
                time.sleep(0.05)
            yield Server(package, port, process.pid)
        finally:
            process.terminate()
            process.wait(30)


def _answers(port: int) -> bool:
    try:
        _get(http.client.HTTPConnection(HOST, port, timeout=5), "/")
    except OSError:
        return False
    return True


def _get(connection: http.client.HTTPConnection, path: str) -> tuple[int, bytes]:
    connection.request("GET", path, headers={"X-Timestamp": PUT_AT})
    response = connection.getresponse()
    return response.status, response.read()


def measure(
    servers: list[Server], names: list[str], options: argparse.Namespace
) -> dict[str, dict[str, Any]]:
    """The pages a second of each round, CPU a page, and the rate as a multiple of Swift's."""
    for server in servers:
        _check(server, names, options.page)
    rates: dict[str, list[float]] = {server.name: [] for server in servers}
    cpu: dict[str, list[float]] = {server.name: [] for server in servers}
    for number in range(options.rounds):
        for server in servers if number % 2 else reversed(servers):
            cpu_before, started = tree_cpu_ms(server.pid), time.monotonic()
            pages = sum(1 for _ in _pages(server, names, options.page))
            rates[server.name].append(pages / (time.monotonic() - started))
            cpu[server.name].append((tree_cpu_ms(server.pid) - cpu_before) / pages)
    return {
        name: {
            "pages_per_second": [round(rate, 2) for rate in rates[name]],
            "cpu_ms_per_page": [round(ms, 1) for ms in cpu[name]],
            "times_swifts": round(
                statistics.median(
                    rate / swift for rate, swift in zip(rates[name], rates["swift"], strict=True)
                ),
                2,
            ),
        }
        for name in rates
    }


def _pages(server: Server, names: list[str], size: int) -> Iterator[bytes]:
    """Yield the pages of the whole listing."""
    connection = http.client.HTTPConnection(HOST, server.port, timeout=60)
    for start in range(0, len(names), size):
        marker = names[start - 1] if start else ""
        query = f"format=json&limit={size}&marker={quote(marker)}"
        path = f"/{DEVICE}/{PARTITION}/{ACCOUNT}/{CONTAINER}?{query}"
        status, body = _get(connection, path)
        if status != 200:
            raise SystemExit(f"{server.name} answered {status}: {body[:200]!r}")
        yield body
    connection.close()


def _check(server: Server, names: list[str], size: int) -> None:
    """Check that a server lists the right names; afterwards the pages are in memory."""
    found = [row["name"] for body in _pages(server, names, size) for row in json.loads(body)]
    if found != names:
        raise SystemExit(f"{server.name} lists other names than were stored")


def table(report: dict[str, dict[str, Any]]) -> str:
    """The figures as text."""
    lines = [f"{'':<10} {'pages/s':>10} {'CPU ms/page':>12} {'x Swift':>8}"]
    for name, figures in report.items():
        rate = statistics.median(figures["pages_per_second"])
        ms = statistics.median(figures["cpu_ms_per_page"])
        lines.append(f"{name:<10} {rate:10.2f} {ms:12.1f} {figures['times_swifts']:8.2f}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

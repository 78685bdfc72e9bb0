# SPDX-License-Identifier: Apache-2.0
"""The cost of object rows for a container server: CPU per row and per UPDATE, commits per second.

    .venv/bin/python bench/container_updates.py [--rows 50] [--clients 8] [--containers 4]

It starts its own container server on a free port, with its devices in a temporary directory. The
CPU time of the server's processes is read from /proc. The rows are new names in random order.
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
from pathlib import Path

from processes import tree_cpu_ms

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
    parser.add_argument("--rows", type=int, default=50, help="rows in one UPDATE")
    parser.add_argument("--clients", type=int, default=8, help="parallel connections")
    parser.add_argument("--containers", type=int, default=4, help="databases written to")
    parser.add_argument("--seconds", type=float, default=5.0)
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
    end = time.monotonic() + options.seconds
    counts = [0] * options.clients
    cpu_ms = tree_cpu_ms(pid)
    threads = [
        threading.Thread(target=drive, args=(options, port, index, end, counts))
        for index in range(options.clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cpu_ms = tree_cpu_ms(pid) - cpu_ms
    batches = sum(counts)
    rows = batches * options.rows
    print(f"rows/s             {rows / options.seconds:10.0f}")
    print(f"updates/s          {batches / options.seconds:10.0f}")
    print(f"CPU per row, us    {cpu_ms / rows * 1e3:10.1f}")
    print(f"CPU per update, us {cpu_ms / batches * 1e3:10.1f}")


def drive(
    options: argparse.Namespace, port: int, index: int, end: float, counts: list[int]
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    sent = 0
    bodies = [body(options.rows) for _ in range(1 if options.same else 64)]
    while time.monotonic() < end:
        # prepared before and made unique by a cheap replacement, as the client shares the cores
        data = bodies[sent % len(bodies)].replace(b"@@", b"%x-%x" % (index, sent))
        send(connection, "UPDATE", (index + sent) % options.containers, data, 202)
        sent += 1
    counts[index] = sent


def body(rows: int) -> bytes:
    stamp = f"{time.time():.5f}"
    return json.dumps(
        [
            {
                "name": f"{secrets.token_hex(8)}/@@",
                "created_at": stamp,
                "size": 4096,
                "content_type": "application/octet-stream",
                "etag": secrets.token_hex(16),
                "deleted": 0,
                "storage_policy_index": 0,
            }
            for _ in range(rows)
        ]
    ).encode()


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

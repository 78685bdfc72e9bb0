# SPDX-License-Identifier: Apache-2.0
"""Rows that object servers make again after all of them were killed: how many, how long, who waits.

    python bench/rows_after_crash.py --objects 100000            # peers are not known
    python bench/rows_after_crash.py --objects 100000 --replicate

A cluster of four nodes gets objects. While more are written, all object servers are killed at once.
Then this shows what the container servers are told again, and how long PUTs take meanwhile.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import signal
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from load import HOST, Load, run
from own_cluster import login, must, own_cluster
from processes import services, usage

CONTAINERS = 16
BODY_BYTES = 100
WRITERS = 4
#: Seconds of PUTs before the kill, and after the last row.
AROUND_SECONDS = 15.0
SECONDS_MAX = 1200.0
_SAID = re.compile(r"reported to containers again.*updates=(\d+)")


@dataclass
class Writers:
    """Clients that PUT one object after another. ``puts`` are begin, seconds and status."""

    port: int
    token: str
    path: str
    puts: list[tuple[float, float, int]] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator[None]:
        """PUT while the block runs."""
        stop = threading.Event()
        threads = [threading.Thread(target=self._put, args=(stop, n)) for n in range(WRITERS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def _put(self, stop: threading.Event, writer: int) -> None:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
        for number in count():
            if stop.is_set():
                return
            begin, status = time.monotonic(), 0
            path = f"{self.path}/c{number % CONTAINERS}/more-{writer}-{number}"
            try:
                connection.request("PUT", path, bytes(BODY_BYTES), {"X-Auth-Token": self.token})
                response = connection.getresponse()
                response.read()
                status = response.status
            except (OSError, http.client.HTTPException):
                connection.close()
            self.puts.append((begin, time.monotonic() - begin, status))

    def line(self, since: float, until: float) -> str:
        """The PUTs that began in a time."""
        found = [one for one in self.puts if since <= one[0] < until]
        took = sorted(seconds * 1000 for _, seconds, _ in found)
        if len(took) < 2:
            return "none"
        failed = sum(status != 201 for _, _, status in found)
        cut = statistics.quantiles(took, n=100)
        return (
            f"{len(took) / (until - since):.0f}/s median {cut[49]:.1f} ms p99 {cut[98]:.1f} ms "
            f"most {took[-1]:.0f} ms failed {failed}"
        )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=100_000)
    parser.add_argument("--replicate", action="store_true", help="with background jobs")
    arguments = parser.parse_args()
    options = ["--nodes", "4"] + ([] if arguments.replicate else ["--no-background"])
    with own_cluster(options=options) as home:
        _measure(home, arguments.objects)


def _measure(home: Path, objects: int) -> None:
    layout = json.loads((home / "cluster.json").read_text())
    port = layout["proxy_port"]
    token, path = login(port)
    prefixes = tuple(f"{path}/c{number}/o-" for number in range(CONTAINERS))
    for number in range(CONTAINERS):
        must(port, "PUT", f"{path}/c{number}", token, 201)
    numbers = list(range(objects))
    filled = run(Load(port, token, "PUT", "", numbers, BODY_BYTES, 201, prefixes), 16, 1)
    print(f"{objects} objects in {filled.seconds:.0f} s, {filled.failures} failures", flush=True)
    ports = [node["ports"]["object"] for node in layout["nodes"]]
    writers = Writers(port, token, path)
    with writers.running():
        begun = time.monotonic()
        time.sleep(AROUND_SECONDS)
        before = _cpu(home)
        killed = time.monotonic()
        for name, pid in services(home).items():
            if name.startswith("object-server"):
                os.kill(pid, signal.SIGKILL)
        most, ended = _await_rows(home, ports)
        after = _cpu(home)
        time.sleep(AROUND_SECONDS)
    rows = [int(found) for log in _logs(home) for found in _SAID.findall(log)]
    print(f"rows made again {sum(rows)} by {len(rows)} servers, most pending at once {most}")
    print(f"seconds until none is pending {ended - killed:.1f}")
    for kind in ("object", "container", "account", "proxy"):
        spent = sum(ms - before.get(name, 0.0) for name, ms in after.items() if kind in name)
        print(f"CPU of {kind} servers meanwhile {spent / 1000:.1f} s")
    print(f"PUT before    {writers.line(begun, killed)}")
    print(f"PUT meanwhile {writers.line(killed, ended)}")
    print(f"PUT after     {writers.line(ended, ended + AROUND_SECONDS)}")


def _cpu(home: Path) -> dict[str, float]:
    """CPU time by service and process: that of a new one began at zero."""
    pids, used = services(home), usage(home)
    return {f"{name} {pids[name]}": used[name].cpu_ms for name in pids}


def _await_rows(home: Path, ports: list[int]) -> tuple[int, float]:
    """Wait for all rows; return the most that were pending, and the time of the end."""
    deadline, most = time.monotonic() + SECONDS_MAX, 0
    while time.monotonic() < deadline:
        time.sleep(0.5)
        pending = [_pending(port) for port in ports]
        known = [one for one in pending if one is not None]
        most = max(most, sum(known))
        said = sum(len(_SAID.findall(log)) for log in _logs(home))
        if said >= len(ports) and len(known) == len(ports) and not sum(known):
            return most, time.monotonic()
    raise SystemExit("rows are still pending")


def _pending(port: int) -> int | None:
    connection = http.client.HTTPConnection(HOST, port, timeout=10)
    try:
        connection.request("GET", "/recon/async")
        return int(json.loads(connection.getresponse().read())["async_pending"])
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def _logs(home: Path) -> list[str]:
    return [path.read_text() for path in sorted((home / "logs").glob("object-server*"))]


if __name__ == "__main__":
    main()

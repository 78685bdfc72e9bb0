# SPDX-License-Identifier: Apache-2.0
"""The cost of the filters of the sample configuration: the proxy's CPU time per PUT and per GET.

    .venv/bin/python bench/pipeline.py [--requests 2000] [--rounds 5]

It starts its own cluster, and beside its proxy three more, each one process. The first has the
short pipeline (only the filters to log in, to list and to copy). The second has the whole pipeline
of etc/proxy-server.conf-sample. The third has keymaster and encryption as well. In each round they
write objects of 4 KiB and read them again, in turns. CPU is user and system time of the proxy's
process, from /proc.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from load import HOST, Load, run
from own_cluster import free_port, login, must, own_cluster
from processes import cpu_ms, process_tree

from martlet.conf.options import read_ini

SAMPLE = Path(__file__).parents[1] / "etc" / "proxy-server.conf-sample"
SHORT = (
    "catch_errors gatekeeper healthcheck proxy-logging cache listing_formats tempauth copy "
    "proxy-logging proxy-server"
)
SECRET = "c2VjcmV0IG9ubHkgZm9yIGEgYmVuY2htYXJrIGFuZCBub3RoaW5nIGVsc2U="
OBJECT_BYTES = 4096
START_SECONDS_MAX = 30.0
ENCRYPTING = "keymaster encryption"
LAST_FILTERS = "proxy-logging proxy-server"


@dataclass(frozen=True)
class Proxy:
    """A running proxy."""

    name: str
    port: int
    pid: int
    token: str
    account: str


def main() -> int:
    """Print a line for each pipeline."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=2000, help="of each kind in each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", type=int, default=16, help="parallel connections")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    sample = read_ini(SAMPLE)["pipeline:main"]["pipeline"]
    pipelines = {
        "short": SHORT,
        "sample": sample,
        "sample, encrypting": sample.replace(LAST_FILTERS, f"{ENCRYPTING} {LAST_FILTERS}"),
    }
    with own_cluster() as home, ExitStack() as stack:
        proxies = [stack.enter_context(_proxy(home, n, p)) for n, p in pipelines.items()]
        report = measure(proxies, options)
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0


@contextmanager
def _proxy(home: Path, name: str, pipeline: str) -> Iterator[Proxy]:
    port = free_port()
    parser = read_ini(SAMPLE)
    for option, value in {"bind_ip": HOST, "bind_port": port, "swift_dir": home / "etc"}.items():
        parser["DEFAULT"][option] = str(value)
    parser["pipeline:main"]["pipeline"] = pipeline
    parser["filter:tempauth"]["user_test_tester"] = "testing .admin"
    parser["app:proxy-server"]["internal_pipeline"] = "true"  # adds no filters
    parser["filter:keymaster"]["encryption_root_secret"] = SECRET
    conf = home / f"bench-{port}.conf"
    with conf.open("w") as stream:
        parser.write(stream)
    server = Path(sysconfig.get_path("scripts")) / "martlet-proxy-server"
    with (home / f"bench-{port}.log").open("w+") as log:
        process = subprocess.Popen([server, str(conf)], stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + START_SECONDS_MAX
            while not _listens(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"the proxy did not start:\n{Path(log.name).read_text()}")
                time.sleep(0.05)
            token, account = login(port)
            yield Proxy(name, port, process.pid, token, account)
        finally:
            process.terminate()
            process.wait(30)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def measure(proxies: list[Proxy], options: argparse.Namespace) -> dict[str, dict[str, object]]:
    """The CPU microseconds per request: the rounds of each pipeline and their median."""
    container = f"{proxies[0].account}/pipeline-{os.getpid()}"
    must(proxies[0].port, "PUT", container, proxies[0].token, 201)
    spent: dict[str, dict[str, list[float]]] = {p.name: {"PUT": [], "GET": []} for p in proxies}
    for number in range(-1, options.rounds):  # the first one is the warm-up
        # The order rotates, so that no proxy always has the same predecessor.
        order = proxies[number % len(proxies) :] + proxies[: number % len(proxies)]
        for proxy in order:
            prefix = f"{container}/{proxy.name.replace(', ', '-')}-{number}-"
            for method in ("PUT", "GET"):
                each = _cpu_us_each(proxy, method, prefix, options)
                if number >= 0:
                    spent[proxy.name][method].append(each)
    return {
        name: {
            method: {
                "rounds_us": [round(value, 1) for value in values],
                "median_us": round(statistics.median(values), 1),
                # Compared within each round, under the same conditions.
                "ratio": round(
                    statistics.median(
                        value / short
                        for value, short in zip(values, spent["short"][method], strict=True)
                    ),
                    3,
                ),
            }
            for method, values in of_method.items()
        }
        for name, of_method in spent.items()
    }


def _cpu_us_each(proxy: Proxy, method: str, prefix: str, options: argparse.Namespace) -> float:
    status = 201 if method == "PUT" else 200
    numbers = list(range(options.requests))
    load = Load(proxy.port, proxy.token, method, prefix, numbers, OBJECT_BYTES, status)
    before = _cpu_of(proxy)
    outcome = run(load, options.clients, 1)
    if outcome.failures:
        raise SystemExit(f"{proxy.name}: {outcome.failures} failures: {outcome.first_failure}")
    return (_cpu_of(proxy) - before) * 1000 / outcome.answers


def _cpu_of(proxy: Proxy) -> float:
    return sum(cpu_ms(pid, is_parent=True) for pid in process_tree(proxy.pid))


def table(report: dict[str, dict[str, object]]) -> str:
    """The figures as text."""
    lines = [f"{'CPU us of the proxy, median of rounds':<40} {'PUT':>16} {'GET':>16}"]
    for name, methods in report.items():
        cells = ""
        for method in ("PUT", "GET"):
            figures = methods[method]
            assert isinstance(figures, dict)
            cells += f" {figures['median_us']:8.0f} {figures['ratio']:6.2f}x"
        lines.append(f"{name:<40}{cells}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

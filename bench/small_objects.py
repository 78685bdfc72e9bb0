# SPDX-License-Identifier: Apache-2.0
"""The cost of a small object: inodes, flushes, CPU time of the whole cluster, and the rates.

It starts its own cluster in a temporary directory, or uses the running one of --home.
doc/benchmarks.md describes the measurements. Nothing is asserted: the figures are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from load import Load, Outcome, percentile, run
from own_cluster import login, must, own_cluster
from processes import FlushCount, Usage, count_inodes, services, usage

REPLICAS = 3
WARM_UP_OBJECTS = 256


def main() -> int:
    """Run the command line; return the exit status."""
    arguments = _parser().parse_args()
    if arguments.home:
        report = measure(arguments.home.absolute(), arguments)
    else:
        with own_cluster() as home:
            report = measure(home, arguments)
    print(json.dumps(report, indent=2) if arguments.json else table(report))
    return 1 if report["put"]["failures"] or report["get"]["failures"] else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="Example: .venv/bin/python bench/small_objects.py --objects 2000 --size 1024",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--objects", type=int, default=10_000, help="objects to write and to read")
    parser.add_argument("--size", type=int, default=4096, metavar="BYTES", help="of each object")
    parser.add_argument("--clients", type=int, default=64, help="parallel connections")
    parser.add_argument("--processes", type=int, default=2, help="client processes")
    parser.add_argument(
        "--flush-objects", type=int, default=2000, help="objects written while strace counts"
    )
    parser.add_argument("--home", type=Path, help="use the cluster that runs in this directory")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def measure(home: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the passes; return every figure that ``table`` shows."""
    port = int(json.loads((home / "cluster.json").read_text())["proxy_port"])
    token, account = login(port)
    container = f"{account}/bench-{time.time_ns()}"
    must(port, "PUT", container, token, 201)

    def send(method: str, prefix: str, numbers: list[int], status: int) -> Outcome:
        load = Load(port, token, method, container + prefix, numbers, arguments.size, status)
        return run(load, arguments.clients, arguments.processes)

    send("PUT", "/warm-", list(range(WARM_UP_OBJECTS)), 201)
    send("GET", "/warm-", list(range(WARM_UP_OBJECTS)), 200)
    numbers = list(range(arguments.objects))
    inodes_before, counters_before = count_inodes(home / "devices"), object_counters(home)
    put, put_cpu = _with_cpu(home, lambda: send("PUT", "/o-", numbers, 201))
    counters = _difference(object_counters(home), counters_before)
    inodes = count_inodes(home / "devices") - inodes_before
    random.Random(1).shuffle(numbers)
    get, get_cpu = _with_cpu(home, lambda: send("GET", "/o-", numbers, 200))
    memory = {name: used.resident_mib for name, used in usage(home).items()}
    flush_numbers = list(range(arguments.flush_objects))
    flushes = _count_flushes(home, lambda: send("PUT", "/f-", flush_numbers, 201))
    return {
        "objects": arguments.objects,
        "size_bytes": arguments.size,
        "clients": arguments.clients,
        "processors": len(os.sched_getaffinity(0)),
        "inodes_per_object_and_replica": inodes / (arguments.objects * REPLICAS),
        "object_server_counters": counters,
        "flush_pass": flushes,
        "put": _pass_report(put, put_cpu),
        "get": _pass_report(get, get_cpu),
        "resident_mib": memory,
    }


def _with_cpu(home: Path, work: Any) -> tuple[Outcome, dict[str, float]]:
    """Do the work; return its outcome and the CPU milliseconds of each service."""
    before = usage(home)
    outcome = work()
    after = usage(home)
    nothing = Usage(0.0, 0.0)
    return outcome, {n: u.cpu_ms - before.get(n, nothing).cpu_ms for n, u in after.items()}


def _count_flushes(home: Path, work: Any) -> dict[str, Any] | None:
    """Count the flushes of each service during the work; None if that is not possible."""
    if not FlushCount.is_possible():
        return None
    pids = services(home)
    del pids["supervisor"]  # its tree has the others
    with tempfile.TemporaryDirectory(prefix="martlet-bench-") as scratch:
        trace = FlushCount(pids, Path(scratch))
        trace.start()
        outcome = work()
        counts = trace.stop()
    per_put = {name: count / outcome.answers for name, count in counts.items()}
    return {
        "puts": outcome.answers,
        "failures": outcome.failures,
        "flushes_per_put": sum(per_put.values()),
        "by_service": per_put,
    }


def _pass_report(outcome: Outcome, cpu_ms: dict[str, float]) -> dict[str, Any]:
    answers = outcome.answers
    return {
        "answers": answers,
        "failures": outcome.failures,
        "first_failure": outcome.first_failure,
        "per_second": answers / outcome.seconds,
        "cpu_ms_each": sum(cpu_ms.values()) / answers,
        "cpu_ms_each_by_service": {name: ms / answers for name, ms in cpu_ms.items()},
        "latency_ms": {
            "median": percentile(outcome.latencies_ms, 0.5),
            "p99": percentile(outcome.latencies_ms, 0.99),
        },
    }


def object_counters(home: Path) -> dict[str, int]:
    """The sums of the object servers' own counters (/recon/bundles)."""
    totals: dict[str, int] = {}
    for node in json.loads((home / "cluster.json").read_text())["nodes"]:
        body = must(node["ports"]["object"], "GET", "/recon/bundles", "", 200)
        for device in json.loads(body):
            for name, value in device["stats"].items():
                totals[name] = totals.get(name, 0) + value
    return totals


def _difference(after: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {name: value - before.get(name, 0) for name, value in after.items()}


def table(report: dict[str, Any]) -> str:
    """The figures as text."""
    put, get, flushes = report["put"], report["get"], report["flush_pass"]
    lines = [
        f"{report['objects']} objects of {report['size_bytes']} bytes, "
        f"{report['clients']} clients, {REPLICAS} replicas, {report['processors']} processors",
        "",
        f"inodes per object and replica  {report['inodes_per_object_and_replica']:10.3f}",
    ]
    if flushes is None:
        lines.append("flushes per PUT                not counted: strace is not installed")
    else:
        lines.append(f"flushes per PUT (strace)       {flushes['flushes_per_put']:10.3f}")
        for name, value in sorted(flushes["by_service"].items()):
            lines.append(f"  {name:<28} {value:10.3f}")
    lines.append("object servers' own counters, per PUT")
    for name, value in sorted(report["object_server_counters"].items()):
        if value:
            lines.append(f"  {name:<28} {value / put['answers']:10.3f}")
    lines += ["", f"{'':<24} {'PUT':>10} {'GET':>10}"]
    lines.append(f"{'per second':<24} {put['per_second']:10.0f} {get['per_second']:10.0f}")
    for key in ("median", "p99"):
        row = f"{'latency ' + key + ', ms':<24}"
        lines.append(f"{row} {put['latency_ms'][key]:10.1f} {get['latency_ms'][key]:10.1f}")
    lines.append(f"{'failures':<24} {put['failures']:10} {get['failures']:10}")
    lines.append(f"{'CPU ms each':<24} {put['cpu_ms_each']:10.3f} {get['cpu_ms_each']:10.3f}")
    for name in sorted(put["cpu_ms_each_by_service"]):
        row = f"  {name:<22} {put['cpu_ms_each_by_service'][name]:10.3f}"
        row += f" {get['cpu_ms_each_by_service'].get(name, 0.0):10.3f}"
        lines.append(f"{row}   {report['resident_mib'].get(name, 0.0):7.1f} MiB resident")
    failure = put["first_failure"] or get["first_failure"]
    return "\n".join(lines + ([f"first failure: {failure}"] if failure else []))


if __name__ == "__main__":
    sys.exit(main())

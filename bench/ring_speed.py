# SPDX-License-Identifier: Apache-2.0
"""martlet's ring compared with OpenStack Swift's, in one run: placement, speed, memory.

    make bench-ring                                       # everything, some minutes
    .venv/bin/python bench/ring_speed.py clusters --clusters 200
    .venv/bin/python bench/ring_speed.py rebalance --part-power 18 --devices 1000
    .venv/bin/python bench/ring_speed.py read --part-power 20 --rounds 5

Times are CPU seconds of a separate process for each figure; both sides take turns.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from ring_clusters import compare, summary

SIDES = ("swift", "martlet")
NAMES = 20_000


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", nargs="?", choices=("clusters", "rebalance", "read", "all"))
    parser.add_argument("--clusters", type=int, default=200)
    parser.add_argument("--part-power", type=int)
    parser.add_argument("--devices", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--task", help=argparse.SUPPRESS)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        print(json.dumps(TASKS[options.task](options)))
        return 0
    what = options.what or "all"
    if what in ("clusters", "all"):
        print(f"{options.clusters} random clusters", flush=True)
        with ProcessPoolExecutor() as pool:  # this part measures no time
            found = list(pool.map(compare, range(options.clusters)))
        print("\n".join(summary(found)), flush=True)
    if what in ("rebalance", "all"):
        power = options.part_power or 18
        print(f"rebalance, part power {power}, {options.devices} devices: CPU seconds", flush=True)
        report(options, "rebalance", power)
    if what in ("read", "all"):
        for power in [options.part_power] if options.part_power else [16, 20]:
            print(f"a ring of part power {power}, {options.devices} devices", flush=True)
            with tempfile.TemporaryDirectory() as folder:
                options.path = f"{folder}/object.ring.gz"
                run(options, "martlet", "write", power)
                report(options, "read", power)
    return 0


def report(options: argparse.Namespace, task: str, power: int) -> None:
    """Run a task on both sides in turns and print medians."""
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for _ in range(options.rounds):
        for side in SIDES:
            found[side].append(run(options, side, task, power))
    for key in found["swift"][0]:
        swift, ours = (statistics.median(r[key] for r in found[side]) for side in SIDES)
        print(
            f"  {key:32} martlet {ours:9.3f}  Swift {swift:9.3f}  Swift/martlet {swift / ours:.2f}"
        )
    sys.stdout.flush()


def run(options: argparse.Namespace, side: str, task: str, power: int) -> dict[str, float]:
    """Run a task in a separate process."""
    command = [sys.executable, __file__, "--task", task, "--side", side]
    command += ["--part-power", str(power), "--devices", str(options.devices)]
    command += ["--path", options.path or ""]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def devices(count: int) -> Iterator[dict[str, Any]]:
    """Yield devices in two regions, ten zones and a hundred servers, with three weights."""
    for number in range(count):
        zone, server = number % 10, number // 10 % 10
        yield device(zone, server, f"sd{number // 100}", 100.0 + number % 3 * 50)


def device(zone: int, server: int, name: str, weight: float) -> dict[str, Any]:
    ip = f"10.{zone}.0.{server}"
    return {
        "region": 1 + zone % 2,
        "zone": zone,
        "ip": ip,
        "port": 6200,
        "replication_ip": ip,
        "replication_port": 6200,
        "device": name,
        "weight": weight,
        "meta": "",
    }


def rebalance(options: argparse.Namespace) -> dict[str, float]:
    """Measure a new ring, the addition of a rack of 20 devices, and the draining of a device."""
    builder = Side(options)
    for dev in devices(options.devices):
        builder.add(dev)
    figures = {"new ring": builder.rebalance()}
    for number in range(20):
        builder.add(device(4, 77, f"sd{number}", 100.0))
    figures["20 devices added"] = builder.rebalance()
    builder.set_weight(7, 0.0)
    figures["one device drained"] = builder.rebalance()
    return figures


class Side:
    """One of the two builders."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.is_ours = options.side == "martlet"
        self.builder: Any
        if self.is_ours:
            from ring.builder import RingBuilder

            self.builder = RingBuilder.create(options.part_power, 3, 1)
        else:
            from swift.common.ring import RingBuilder as SwiftRingBuilder

            self.builder = SwiftRingBuilder(options.part_power, 3, 1)

    def add(self, dev: dict[str, Any]) -> None:
        (self.builder.add_device if self.is_ours else self.builder.add_dev)(dev)

    def set_weight(self, dev_id: int, weight: float) -> None:
        change = self.builder.set_weight if self.is_ours else self.builder.set_dev_weight
        change(dev_id, weight)

    def rebalance(self) -> float:
        self.builder.pretend_min_part_hours_passed()
        start = time.process_time()
        self.builder.rebalance(seed="1")
        return time.process_time() - start


def write(options: argparse.Namespace) -> dict[str, float]:
    """Write the ring file that both sides read."""
    from ring.file_format import encode_ring

    side = Side(options)
    for dev in devices(options.devices):
        side.add(dev)
    side.rebalance()
    Path(options.path).write_bytes(encode_ring(side.builder.ring_data(), options.path))
    return {}


def read(options: argparse.Namespace) -> dict[str, float]:
    """Load the ring and look up names, each name twice."""
    ring: Any
    if options.side == "martlet":
        from ring.hashing import HashPath
        from ring.ring import Ring

        before, start = resident_mib(), time.process_time()
        ring = Ring(options.path, HashPath(b"prefix", b"suffix"))
    else:
        from swift.common import utils
        from swift.common.ring import Ring as SwiftRing

        utils.HASH_PATH_PREFIX, utils.HASH_PATH_SUFFIX = b"prefix", b"suffix"
        before, start = resident_mib(), time.process_time()
        ring = SwiftRing(options.path)
    figures = {"load, ms": 1e3 * (time.process_time() - start)}
    figures["memory of the loaded ring, MiB"] = resident_mib() - before
    rng = random.Random(1)
    names = [("AUTH_bench", f"c{rng.randrange(100)}", f"o{rng.random()}") for _ in range(NAMES)]
    for key in ("get_nodes, first time, us", "get_nodes, again, us"):
        start = time.process_time()
        for account, container, obj in names:
            ring.get_nodes(account, container, obj)
        figures[key] = 1e6 * (time.process_time() - start) / NAMES
    return figures


def resident_mib() -> float:
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * 4096 / 2**20


TASKS = {"rebalance": rebalance, "write": write, "read": read}

if __name__ == "__main__":
    sys.exit(main())

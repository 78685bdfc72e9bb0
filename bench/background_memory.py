# SPDX-License-Identifier: Apache-2.0
"""The memory of the background programs of an object server that holds many objects.

    .venv/bin/python bench/background_memory.py [--objects 10000000]

Three object servers have one device each, and a ring with three replicas. The first two devices
hold all objects, of 16 bytes; the third one is empty. All devices are in memory (/dev/shm): 10
million objects need 7 GB for two devices, and 3.5 GB for the third. These programs run one after
the other, with default settings:

- a pass of the replicator of the first node, which fills the third device;
- a pass that finds nothing to do;
- a fast pass of the auditor, and a full pass.

The figure is the most resident memory that the program ever had (VmHWM). That of the first and the
third server is printed beside it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from rebuild import MEMORY, PART_POWER, Cluster, ours

from martlet.service.programs import find_object_server

ROOT = Path(__file__).resolve().parent.parent
_POLL_SECONDS = 0.01


def main() -> None:
    """Measure and print."""
    arguments = _parse()
    found: dict[str, tuple[float, float]] = {}
    with ExitStack() as stack:
        directory = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="martlet-bench-", dir=MEMORY)
        )
        cluster = Cluster(ours(), Path(directory) / "martlet")
        stack.callback(cluster.close)
        for node in (1, 2):
            _fill(cluster.device(node), arguments.objects)
        for node in (1, 2, 3):
            cluster.start(node)
        for name, words in (
            ("replicator, rebuild", ("replicate", "--once")),
            ("replicator, all in sync", ("replicate", "--once")),
            ("auditor, fast pass", ("audit", "--once", "--fast")),
            ("auditor, full pass", ("audit", "--once")),
        ):
            found[name] = _run([find_object_server(), words[0], str(cluster.conf(1)), *words[1:]])
        if missing := cluster.missing(3, min(arguments.objects, 1000)):
            raise SystemExit(f"{missing} of the first 1000 objects are missing after the rebuild")
        servers = {f"server {node}": peak_mib(cluster.pid(node)) for node in (1, 3)}
    if arguments.json:
        print(json.dumps({"objects": arguments.objects, "programs": found, "servers": servers}))
        return
    print(f"{arguments.objects} objects")
    for name, (mib, seconds) in found.items():
        print(f"{name:24} {mib:7.0f} MiB {seconds:8.1f} s")
    for name, mib in servers.items():
        print(f"{name:24} {mib:7.0f} MiB")


def _fill(device: Path, objects: int) -> None:
    command = ["go", "run", "./bench/fill", "-device", str(device)]
    command += ["-part-power", str(PART_POWER), "-objects", str(objects)]
    subprocess.run(command, check=True, cwd=ROOT / "object-server")


def _run(command: list[str]) -> tuple[float, float]:
    """Run a program to its end; return its peak in MiB and its seconds."""
    began, peak = time.monotonic(), 0.0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as program:
        while program.poll() is None:
            peak = max(peak, peak_mib(program.pid))
            time.sleep(_POLL_SECONDS)
    if program.returncode:
        raise SystemExit(f"{command} failed")
    return peak, time.monotonic() - began


def peak_mib(pid: int) -> float:
    """The most resident memory that a process has had, in MiB; 0 when it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    sizes = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(sizes[0]) / 1024 if sizes else 0.0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--objects", type=int, default=10_000_000)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()

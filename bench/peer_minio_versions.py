# SPDX-License-Identifier: Apache-2.0
"""The cost of adding a version in MinIO: its own benchmark of xl.meta, run from its source.

It fetches the Go module of MinIO through the Go module proxy into the module cache, and copies it
to a temporary directory. There it runs AddVersion of BenchmarkXlMetaV2Shallow: load xl.meta, add
one version, serialize it. The disk is not measured. The first compilation takes minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

MODULE = "github.com/minio/minio"
VERSION = "v0.0.0-20260212201848-7aac2a2c5b7c"
BENCHMARK = "^BenchmarkXlMetaV2Shallow$/./^AddVersion$"
LINE = re.compile(
    r"^BenchmarkXlMetaV2Shallow/(?P<versions>\d+)-versions/AddVersion\S*\s+(?P<times>\d+)\s+"
    r"(?P<nanoseconds>[\d.]+) ns/op.*?(?P<bytes>\d+) B/op\s+(?P<allocations>\d+) allocs/op",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Cost:
    """The cost of adding one version to ``versions`` existing ones."""

    versions: int
    milliseconds: float
    bytes_allocated: int
    allocations: int


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: python bench/peer_minio_versions.py --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", default=VERSION, help="of the module, default %(default)s")
    parser.add_argument("--time", default="1s", help="that each size runs for (go test -benchtime)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    costs = measure(arguments.version, arguments.time)
    if arguments.json:
        print(json.dumps([asdict(cost) for cost in costs], indent=2))
        return 0
    print(f"MinIO {arguments.version}: adding one version to xl.meta in memory")
    print(f"{'versions':>9} {'ms each':>10} {'bytes allocated':>16} {'allocations':>12}")
    for cost in costs:
        row = f"{cost.versions:9,} {cost.milliseconds:10.4f} {cost.bytes_allocated:16,}"
        print(f"{row} {cost.allocations:12,}")
    return 0


def measure(version: str, benchtime: str) -> list[Cost]:
    """Run the benchmark; return one cost per number of versions."""
    with tempfile.TemporaryDirectory(prefix="martlet-bench-") as directory:
        source = Path(directory) / "minio"
        _copy(_fetch(version, Path(directory)), source)
        command = ["nice", "go", "test", "-run", "^$", "-bench", BENCHMARK, "-benchmem"]
        command += ["-benchtime", benchtime, "-timeout", "30m", "./cmd"]
        environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOWORK": "off"}
        done = subprocess.run(
            command, cwd=source, env=environment, stdout=subprocess.PIPE, text=True, check=False
        )
    costs = read_costs(done.stdout)
    if done.returncode or not costs:
        raise SystemExit(f"the benchmark ended with {done.returncode}:\n{done.stdout[-2000:]}")
    return costs


def _fetch(version: str, directory: Path) -> Path:
    command = ["go", "mod", "download", "-json", f"{MODULE}@{version}"]
    done = subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, text=True, check=False)
    told = json.loads(done.stdout)
    if done.returncode:
        raise SystemExit(f"{MODULE}@{version}: {told.get('Error')}")
    return Path(told["Dir"])


def _copy(module: Path, target: Path) -> None:
    """Make a writable copy of the module; the module cache is read-only."""
    shutil.copytree(module, target)
    for path in [target, *target.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)


def read_costs(output: str) -> list[Cost]:
    """Parse the costs in the output of ``go test``."""
    return [
        Cost(
            versions=int(match["versions"]),
            milliseconds=float(match["nanoseconds"]) / 1e6,
            bytes_allocated=int(match["bytes"]),
            allocations=int(match["allocations"]),
        )
        for match in LINE.finditer(output)
    ]


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""The storage engine by itself: memory, inodes, reads, rates, recovery, churn.

Builds object-server/bench/engine and runs it on a new file system in a loop device, or in --dir
where there can be none. What is measured, and how, is said in doc/benchmarks.md. Nothing is
asserted: the figures are printed beside what they are to reach.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from loopimage import MAKE, LoopUnavailableError, loop_image

MODULE = Path(__file__).resolve().parents[1] / "object-server"
# Flags of each benchmark for the sizes that the targets are set for; each list is one run.
FULL: dict[str, list[list[str]]] = {
    "ram": [["--objects", "1000000"], ["--objects", "10000000"]],
    "inodes": [["--objects", "1000000"]],
    "reads": [["--objects", "200000"]],
    "throughput": [["--objects", "20000", "--rounds", "9"]],
    "scan": [["--objects", "1000000"]],
    "recovery": [["--objects", "10000000"]],
    "churn": [["--objects", "250000"]],
}
PASSED_ON = ("objects", "size", "partitions", "writers", "rounds", "segment", "sync", "delay")
EXAMPLES = """examples:
  python bench/engine.py                              all, at a moderate size
  python bench/engine.py ram --objects 10000000
  python bench/engine.py throughput --fs ext4 --rounds 9
  python bench/engine.py recovery --full --json"""


def main() -> int:
    """The command line; returns the exit status."""
    arguments = _parser().parse_args()
    names = list(FULL) if arguments.benchmark == "all" else [arguments.benchmark]
    flags = []
    for name in PASSED_ON:
        if (value := getattr(arguments, name)) is not None:
            flags += [f"--{name}", str(value)]
    if arguments.profile:
        flags += ["--profile", str(arguments.profile.absolute())]
    reports = []
    with tempfile.TemporaryDirectory(prefix="martlet-bench-", dir=arguments.dir) as directory:
        scratch = Path(directory)
        program = build(scratch)
        for name in names:
            for size in FULL[name] if arguments.full else [[]]:
                report = run(program, name, [*size, *flags], scratch, arguments)
                reports.append(report)
                if not arguments.json:
                    print(table(report), flush=True)
    if arguments.json:
        print(json.dumps(reports, indent=2))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("benchmark", nargs="?", default="all", choices=["all", *FULL])
    parser.add_argument("--full", action="store_true", help="at the size the targets are set for")
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), help="work here")
    parser.add_argument(
        "--fs", choices=[*MAKE, "none"], default="xfs", help="file system to make; none: use --dir"
    )
    parser.add_argument("--image", type=int, default=24, metavar="GIB", help="its size (sparse)")
    parser.add_argument("--objects", type=int, help="objects, or operations of a round")
    parser.add_argument("--size", type=int, metavar="BYTES", help="of each object")
    parser.add_argument("--partitions", type=int, help="a power of two, default 1024")
    parser.add_argument("--writers", type=int, help="goroutines, default 64")
    parser.add_argument("--rounds", type=int, help="of throughput and scan, default 5")
    parser.add_argument("--segment", type=int, metavar="BYTES", help="size limit of a segment")
    parser.add_argument("--sync", metavar="METHOD", help="bundle_sync_method")
    parser.add_argument("--delay", metavar="TIME", help="bundle_commit_delay, for example 1ms")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="write a CPU profile (pprof)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def build(scratch: Path) -> Path:
    """Compile the Go program."""
    program = scratch / "engine"
    subprocess.run(["go", "build", "-o", program, "./bench/engine"], cwd=MODULE, check=True)
    return program


def run(
    program: Path, name: str, flags: list[str], scratch: Path, arguments: argparse.Namespace
) -> dict[str, Any]:
    """One benchmark on a file system of its own; what it reports."""
    with _place(scratch, arguments) as (directory, notes):
        command = [str(program), name, "--dir", str(directory), "--json", *flags]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
        if done.returncode:
            raise SystemExit(f"engine {name} ended with {done.returncode}")
    report: dict[str, Any] = json.loads(done.stdout)
    report["notes"] = notes + report.get("notes", [])
    return report


@contextmanager
def _place(scratch: Path, arguments: argparse.Namespace) -> Iterator[tuple[Path, list[str]]]:
    """A directory to work in, and what is to be said of it."""
    if arguments.fs == "none":
        yield scratch, [f"in {arguments.dir}, on a file system that others may use"]
        return
    with ExitStack() as stack:
        image = loop_image(scratch, arguments.fs, arguments.image << 30)
        try:
            place = stack.enter_context(image), [f"{arguments.fs} on a loop device"]
        except LoopUnavailableError as error:
            notes = [f"no {arguments.fs} image, in {arguments.dir} instead: {error}"]
            place = scratch, notes
        yield place


def table(report: dict[str, Any]) -> str:
    """The figures of one benchmark for a person."""
    lines = [f"{report['benchmark']}: {report['settings']}"]
    for figure in report["figures"]:
        digits = ",.0f" if abs(figure["value"]) >= 10_000 else ",.4g"
        measured = f"{figure['value']:{digits}} {figure.get('unit', '')}"
        line = f"{figure['name']:<50} | {measured:<15} | {figure.get('to_reach', '')}"
        lines.append(line.rstrip(" |"))
    return "\n".join([*lines, *(f"({note})" for note in report["notes"]), ""])


if __name__ == "__main__":
    sys.exit(main())

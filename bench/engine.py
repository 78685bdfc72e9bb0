# SPDX-License-Identifier: Apache-2.0
"""The storage engine alone: memory, inodes, reads, rates, versions, recovery, churn.

It builds object-server/bench/engine, or object-server/bench/commit for "bytes". The program runs on
a new file system in a loop device, or in --dir if that is not possible. doc/benchmarks.md describes
the measurements. Nothing is asserted: the figures are printed beside their targets.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from loopimage import MAKE, LoopUnavailableError, loop_image

MODULE = Path(__file__).resolve().parents[1] / "object-server"
# The most device bytes per byte of an object, for each bundle_sync_method.
BYTES_TO_REACH = {"auto": "<= 1.3", "journal": "<= 2.3"}
# Flags of each benchmark at the sizes of the targets; each list is one run.
FULL: dict[str, list[list[str]]] = {
    "ram": [["--objects", "1000000"], ["--objects", "10000000"]],
    "inodes": [["--objects", "1000000"]],
    "bytes": [["--objects", "200000"]],
    "reads": [["--objects", "200000"]],
    "throughput": [["--objects", "20000", "--rounds", "9"]],
    "scan": [["--objects", "1000000"]],
    "recovery": [["--objects", "10000000"]],
    "versions": [["--objects", "100000", "--rounds", "61"]],
    "churn": [["--objects", "250000"]],
}
PASSED_ON = ("objects", "size", "partitions", "writers", "rounds", "segment", "sync", "delay")
EXAMPLES = """examples:
  python bench/engine.py                              all, at a moderate size
  python bench/engine.py ram --objects 10000000
  python bench/engine.py throughput --fs ext4 --rounds 9
  python bench/engine.py recovery --full --json"""


def main() -> int:
    """Run the command line; return the exit status."""
    arguments = _parser().parse_args()
    # SIGTERM, too, ends the program and unmounts the file system.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    names = list(FULL) if arguments.benchmark == "all" else [arguments.benchmark]
    flags = []
    for name in PASSED_ON:
        if (value := getattr(arguments, name)) is not None:
            flags += [f"--{name}", str(value)]
    if arguments.disk:
        flags.append("--disk")
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
    parser.add_argument("--full", action="store_true", help="use the sizes of the targets")
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
    parser.add_argument("--disk", action="store_true", help="bundle_index = disk")
    parser.add_argument("--delay", metavar="TIME", help="bundle_commit_delay, for example 1ms")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="write a CPU profile (pprof)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def build(scratch: Path) -> Path:
    """Compile the Go programs; return the path of the first one."""
    command = ["go", "build", "-o", f"{scratch}/", "./bench/engine", "./bench/commit"]
    subprocess.run(command, cwd=MODULE, check=True)
    return scratch / "engine"


def run(
    program: Path, name: str, flags: list[str], scratch: Path, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Run one benchmark on its own file system; return its report."""
    if name == "bytes":
        return _bytes(program.with_name("commit"), flags, scratch, arguments)
    with _place(scratch, arguments) as (directory, notes):
        report = _json_of(str(program), name, "--dir", str(directory), "--json", *flags)
    report["notes"] = notes + report.get("notes", [])
    return report


def _json_of(*command: str) -> dict[str, Any]:
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _bytes(
    program: Path, flags: list[str], scratch: Path, arguments: argparse.Namespace
) -> dict[str, Any]:
    """The device bytes of a PUT, for each method on its own file system."""
    parser = argparse.ArgumentParser()
    for name in ("objects", "size", "partitions", "writers", "delay"):
        parser.add_argument(f"--{name}")
    own = vars(parser.parse_known_args(flags)[0])
    own["puts"] = own.pop("objects")
    passed = [word for n, value in own.items() if value for word in (f"-{n}", value)]
    figures: list[dict[str, Any]] = []
    said: list[str] = []
    load: dict[str, Any] = {}
    for method in [arguments.sync] if arguments.sync else BYTES_TO_REACH:
        with _place(scratch, arguments) as (directory, notes):
            said = notes
            device = directory / "device"
            device.mkdir()
            load = _json_of(
                str(program), "-device", str(device), "-method", method, "-json", *passed
            )
        to_reach = BYTES_TO_REACH.get(method, "")
        figures += [
            _figure(
                f"device bytes per byte stored, {method}", load["device_bytes_per_byte"], to_reach
            ),
            _figure(f"device flushes per PUT, {method}", load["device_flushes_per_put"], "<= 0.05"),
            _figure("  device writes per PUT", load["device_writes_per_put"]),
            _figure("  PUTs per batch", load["puts_per_batch"]),
        ]
    settings = (
        f"{load['puts']} objects of {load['size']} bytes, {load['partitions']} partitions, "
        f"{load['writers']} writers, commit delay {load['commit_delay_seconds']} s"
    )
    return {"benchmark": "bytes", "settings": settings, "figures": figures, "notes": said}


def _figure(name: str, value: float, to_reach: str = "") -> dict[str, Any]:
    return {"name": name, "value": value, "to_reach": to_reach}


@contextmanager
def _place(scratch: Path, arguments: argparse.Namespace) -> Iterator[tuple[Path, list[str]]]:
    """A directory to work in, and notes about it."""
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
    """The figures of one benchmark as text."""
    lines = [f"{report['benchmark']}: {report['settings']}"]
    for figure in report["figures"]:
        digits = ",.0f" if abs(figure["value"]) >= 10_000 else ",.4g"
        measured = f"{figure['value']:{digits}} {figure.get('unit', '')}"
        line = f"{figure['name']:<50} | {measured:<15} | {figure.get('to_reach', '')}"
        lines.append(line.rstrip(" |"))
    return "\n".join([*lines, *(f"({note})" for note in report["notes"]), ""])


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Compares martlet with other object stores: CPU, rate and latency, with the same client.

Each peer gets a directory on the same file system. All run at the same time; each pass goes to one
of them. The order of the peers rotates from round to round. CPU is user and system time of all
processes of a peer, from /proc. OpenStack Swift comes from PyPI. The other peers are built once
from the Go module proxy, into a cache. doc/benchmarks.md describes the method.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from compare.build import PROGRAMS, default_cache
from compare.completion import Parts
from compare.machine import Meter, machine_facts
from compare.peers import PEERS
from compare.plot import svg
from compare.report import Result, markdown
from compare.session import Session, set_up
from compare.workload import OPERATIONS, Options

_EXAMPLES = """
examples:
  make bench-compare                                # the quick set, all peers
  make bench-compare BENCH_ARGS="--sizes 4K,64M --rounds 5 --json result.json"
  make bench-compare BENCH_ARGS="--peers martlet,minio-4 --binary minio=/opt/bin/minio"
  make bench-compare BENCH_ARGS="--operations PUT,GET --apis swift --peers martlet,swift"
  make bench-compare BENCH_ARGS="--sizes= --versions 10,100,1000,10000"
  make bench-compare BENCH_ARGS="--sizes= --parts 5x1G --peers martlet,minio-4,versitygw"
  make bench-compare BENCH_ARGS="--build-only"      # only sets up the peers
  make bench-compare BENCH_ARGS="--from result.json --plot doc/compare.svg"
"""
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_NAMES = tuple(peer.name for peer in PEERS)


def main() -> int:
    """Run the command line; return the exit status."""
    arguments = _parser().parse_args()
    if arguments.source:
        result = Result.from_json(json.loads(arguments.source.read_text()))
    else:
        measured = _measure(arguments)
        if measured is None:
            return 0
        result = measured
    print(markdown(result), end="")
    if arguments.plot:
        size = arguments.plot_size or min((one.size_bytes for one in result.samples), default=0)
        try:
            arguments.plot.write_text(svg(result, arguments.plot_api, size))
        except ValueError as error:
            raise SystemExit(str(error)) from None
    return 1 if any(one.errors for one in result.samples) else 0


def _measure(arguments: argparse.Namespace) -> Result | None:
    peers = [peer for peer in PEERS if peer.name in arguments.peers]
    programs = set_up(peers, dict(arguments.binary), arguments.cache)
    if arguments.build_only:
        return None
    if arguments.directory:
        tempfile.tempdir = str(arguments.directory)
    options = Options(
        arguments.objects, arguments.clients, arguments.processes, arguments.operations
    )
    with (
        tempfile.TemporaryDirectory(prefix="martlet-compare-") as name,
        ExitStack() as stack,
    ):
        home = Path(name)
        session = Session(home, options, stack)
        session.start(peers, programs)
        machine = machine_facts(home)
        meter = Meter(session.cpu_ms)
        session.measure(arguments.sizes, arguments.apis, arguments.rounds)
        session.measure_versions(arguments.versions)
        if arguments.parts:
            session.measure_completions(arguments.parts, arguments.rounds)
        sizes = {"objects": options.objects, "clients": options.clients}
        machine |= meter.facts() | sizes | {"rounds": arguments.rounds}
        result = Result(
            machine, session.facts(), session.samples, session.versions, session.completions
        )
        if arguments.json:  # before the peers are stopped, which may fail
            arguments.json.write_text(json.dumps(result.to_json(), indent=1) + "\n")
        return result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench-compare",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--peers", type=_among(_NAMES), default=_NAMES, help=f"of {','.join(_NAMES)}")
    add("--apis", type=_among(("s3", "swift")), default=("s3", "swift"), help="of s3,swift")
    add("--operations", type=_among(OPERATIONS), default=OPERATIONS, help=",".join(OPERATIONS))
    add("--sizes", type=_sizes, default=(4096, 131_072), help="default 4K,128K; as 1K,16K,1M,1G")
    add("--objects", type=_count, default=1000, help="of each size, fewer of large ones")
    add("--clients", type=_count, default=64, help="connections, default %(default)s")
    add("--processes", type=_count, default=2, help="of the client, default %(default)s")
    add("--rounds", type=_count, default=3, help="default %(default)s")
    add("--versions", type=_counts, default=(), help="measure one object with so many versions")
    add("--parts", type=_parts, help="complete an upload of so many parts, as 5x1G")
    add(
        "--binary",
        type=_binary,
        action="append",
        default=[],
        metavar="NAME=PATH",
        help=f"a program that is there, in place of a built one: {', '.join(PROGRAMS)}",
    )
    add("--cache", type=Path, default=default_cache(), help="of built peers, default %(default)s")
    add("--directory", type=Path, help="for all data, default that of temporary files")
    add("--build-only", action="store_true", help="set up the peers and stop")
    add("--from", dest="source", type=Path, help="show the result of an earlier --json")
    add("--json", type=Path, metavar="FILE", help="write the result there as well")
    add("--plot", type=Path, metavar="FILE", help="draw an SVG")
    add("--plot-size", type=_size, help="size of the objects in the plot, default the smallest")
    add("--plot-api", choices=("s3", "swift"), default="s3", help="default %(default)s")
    return parser


def _among(allowed: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        words = tuple(text.split(","))
        for word in words:
            if word not in allowed:
                raise argparse.ArgumentTypeError(f"{word!r} is none of {','.join(allowed)}")
        return words

    return parse


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1")
    return int(text)


def _counts(text: str) -> tuple[int, ...]:
    return tuple(_count(word) for word in text.split(",") if word)


def _size(text: str) -> int:
    unit = _UNITS.get(text[-1:].upper(), 1)
    return _count(text[:-1] if unit > 1 else text) * unit


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(_size(word) for word in text.split(",") if word)


def _parts(text: str) -> Parts:
    count, _, size = text.partition("x")
    return Parts(_count(count), _size(size))


def _binary(text: str) -> tuple[str, Path]:
    name, _, path = text.partition("=")
    if name not in PROGRAMS:
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(PROGRAMS)}")
    if not Path(path).is_file():
        raise argparse.ArgumentTypeError(f"{path!r} is no file")
    return name, Path(path)


if __name__ == "__main__":
    sys.exit(main())

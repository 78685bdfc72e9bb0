# SPDX-License-Identifier: Apache-2.0
"""The arguments that the commands of all jobs have."""

from __future__ import annotations

import argparse
import importlib.metadata
from pathlib import Path
from typing import Any


def job_parser(name: str, description: str, epilog: str, conf_help: str) -> argparse.ArgumentParser:
    """A parser with the conf, ``--once``, ``--json`` and ``--version``."""
    parser = argparse.ArgumentParser(
        prog=name,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("conf", type=Path, help=conf_help)
    parser.add_argument("word", nargs="?", choices=("once",), help="the same as --once")
    parser.add_argument("-o", "--once", action="store_true", help="run one pass, then exit")
    parser.add_argument(
        "--json", action="store_true", help="print the figures of the pass as JSON; with --once"
    )
    version = importlib.metadata.version("martlet")
    parser.add_argument("--version", action="version", version=f"%(prog)s {version}")
    return parser


def add_devices(parser: argparse.ArgumentParser) -> None:
    """Add ``--device``, for jobs that work on the devices of a host."""
    parser.add_argument(
        *("-d", "--device", "--devices"),
        dest="devices",
        type=lambda text: frozenset(filter(None, text.split(","))),
        default=frozenset(),
        metavar="NAMES",
        help="only these devices, separated by commas; with --once",
    )


def parse_job(parser: argparse.ArgumentParser, argv: list[str] | None, *of_once: str) -> Any:
    """Parse a command line; end the program on a usage error.

    :param of_once: the options that need ``--once``, beside ``--json``, by their long names.
    """
    arguments = parser.parse_args(argv)
    arguments.once = arguments.once or arguments.word is not None
    given = {"--json": arguments.json, **{f"--{n}": getattr(arguments, n) for n in of_once}}
    if not arguments.once and (wrong := [option for option, value in given.items() if value]):
        parser.error(f"{', '.join(wrong)} needs --once")
    return arguments

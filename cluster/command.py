# SPDX-License-Identifier: Apache-2.0
"""The command line of ``martlet``."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import sys
from pathlib import Path

from cluster.errors import ClusterError
from cluster.layout import Home
from cluster.status import down, status
from cluster.up import up

HOME_VARIABLE = "MARTLET_HOME"
PORT_VARIABLE = "MARTLET_PORT"
HOME_DEFAULT = "var"
PORT_DEFAULT = "8080"

_EPILOG = f"""\
environment:
  {HOME_VARIABLE}           rings, confs, devices and logs of the cluster (default ./{HOME_DEFAULT})
  {PORT_VARIABLE}           port of the proxy (default {PORT_DEFAULT}); the others are picked free
  MARTLET_OBJECT_SERVER  the object server's program, if it is not found by itself

examples:
  martlet up                                   a cluster of 4 devices in ./var, on port 8080
  MARTLET_HOME=/tmp/m MARTLET_PORT=8090 martlet up --nodes 4
                                               4 nodes with servers, devices and zones of their own
  martlet status --json                        what runs, for a program to read
  martlet down                                 stop it; its data stay
"""


def main(argv: list[str] | None = None) -> int:
    """Entry point of ``martlet``; returns the exit status."""
    arguments = _parser().parse_args(argv)
    try:
        home = _home()
        if arguments.command == "up":
            return up(home, _proxy_port(), arguments.nodes)
        if arguments.command == "down":
            return down(home)
        return status(home, arguments.json)
    except ClusterError as error:
        print(f"martlet: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="martlet",
        description="A whole martlet cluster on this machine.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    version = importlib.metadata.version("martlet")
    parser.add_argument("--version", action="version", version=f"martlet {version}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    start = commands.add_parser("up", help="start the cluster and run it until Ctrl-C")
    start.add_argument(
        "--nodes",
        type=int,
        metavar="N",
        help="storage nodes of a new cluster, each with its own servers, devices and zone "
        "(default: one node with 4 devices)",
    )
    commands.add_parser("down", help="stop the running cluster")
    show = commands.add_parser("status", help="show what runs")
    show.add_argument("--json", action="store_true", help="as JSON")
    return parser


def _home() -> Home:
    path = Path(os.environ.get(HOME_VARIABLE) or HOME_DEFAULT).absolute()
    # Confs hold this path, and PasteDeploy takes % and # in it for syntax of its own.
    if not str(path).isprintable() or "%" in str(path) or "#" in str(path):
        shown = ascii(str(path))
        raise ClusterError(f"{HOME_VARIABLE} may hold no %, # or unprintable character: {shown}")
    return Home(path)


def _proxy_port() -> int:
    text = os.environ.get(PORT_VARIABLE) or PORT_DEFAULT
    if not re.fullmatch("[0-9]{1,5}", text) or not 0 < int(text) < 65536:
        raise ClusterError(f"{PORT_VARIABLE} must be a port from 1 to 65535, not {text!r}")
    return int(text)

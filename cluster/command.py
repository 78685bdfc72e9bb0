# SPDX-License-Identifier: Apache-2.0
"""The command line of ``martlet``."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from cluster import (
    account_audit,
    device_command,
    dispersion_command,
    get_nodes,
    ring_command,
    shards,
)
from cluster.check import command as check_command
from cluster.deploy import command as deploy_command
from cluster.errors import ClusterError
from cluster.layout import Home
from cluster.object_info import Question, as_text, object_info
from cluster.policies import parse_wanted
from cluster.ports import PORTS_VARIABLE
from cluster.recon import command as recon_command
from cluster.status import down, status
from cluster.up import up
from martlet.closed_pipe import end_with_reader

HOME_VARIABLE = "MARTLET_HOME"
PORT_VARIABLE = "MARTLET_PORT"
HOME_DEFAULT = "var"
PORT_DEFAULT = "8080"

_EPILOG = f"""\
environment:
  {HOME_VARIABLE}           rings, confs, devices and logs of the cluster (default ./{HOME_DEFAULT})
  {PORT_VARIABLE}           port of the proxy (default {PORT_DEFAULT})
  {PORTS_VARIABLE}          range of all other ports, as LOW-HIGH (default: from 10240, free ones)
  MARTLET_OBJECT_SERVER  the object server's program, if it is not found automatically

examples:
  martlet up                                   a cluster of 4 devices in ./var, on port 8080
  MARTLET_HOME=/tmp/m MARTLET_PORT=8090 martlet up --nodes 4
                                               4 nodes, each with its own servers, devices and zone
  martlet up --policy gold --policy silver:2   two storage policies; gold is the default
  martlet status --json                        the running services, as JSON
  martlet down                                 stop the cluster; its data stay
  martlet recon                                how each storage server is
  martlet deploy DIR --host a=192.0.2.11 --device d1
                                               the files of a new cluster of several hosts
  martlet check                                what is wrong with this host, before a start
  martlet get-nodes AUTH_test photos cat.jpg   the devices of an object
  martlet object-info FILE                     the contents of a file with objects
  martlet shards AUTH_test photos              the shards of a container
  martlet ring show var/etc/object.ring.gz     the devices and their shares, as a tree
"""

_OBJECT_INFO_EPILOG = """\
PATH is a large file (large/<id>.data), a segment of a bundle (*.bundle), or a .data, .meta or .ts
file of OpenStack Swift. The exit status is 1 if something is damaged.

examples:
  martlet object-info srv/sda/bundles/12/large/8c0f2e1d3b4a5967.data
                                               name, times, headers; checks size and ETag
  martlet object-info srv/sda/bundles/12/00000001-0000.bundle
                                               one line for each record
  martlet object-info --name /AUTH_test/c/o srv/sda/bundles/12/00000001-0000.bundle
                                               the newest record of a name
  martlet object-info --json -d /etc/swift srv/sdb/objects/7/a83/3f...a83/1700000000.12345.data
                                               with the nodes from the ring, as JSON
"""


#: Commands in a module of their own that look at the cluster in the home, or at another one.
_WITH_HOME: dict[str, Any] = {
    "device": device_command,
    "recon": recon_command,
    "check": check_command,
    "deploy": deploy_command,
    "get-nodes": get_nodes,
    "dispersion": dispersion_command,
    "audit-account": account_audit,
    "shards": shards,
}


def main(argv: list[str] | None = None) -> int:
    """Run ``martlet``; return the exit status."""
    return end_with_reader(lambda: _main(argv))


def _main(argv: list[str] | None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        home = _home()
        if arguments.command == "up":
            wanted = [parse_wanted(text) for text in arguments.policy]
            return up(home, _proxy_port(), arguments.nodes, wanted, not arguments.no_background)
        if arguments.command == "down":
            return down(home)
        if arguments.command == "object-info":
            return _object_info(arguments)
        if arguments.command == "ring":
            return ring_command.run(arguments)
        if arguments.command in _WITH_HOME:
            exit_status: int = _WITH_HOME[arguments.command].run(arguments, home)
            return exit_status
        return status(home, arguments.json)
    except ClusterError as error:
        print(f"martlet: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="martlet",
        description="A whole martlet cluster on this machine, and views of any cluster.",
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
    start.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="NAME[:REPLICAS]",
        help="a storage policy; may be repeated. In a new cluster the first one is the default. "
        "To an existing cluster missing ones are added (default: Policy-0; 3 replicas)",
    )
    start.add_argument(
        "--no-background",
        action="store_true",
        help="run no background job, such as the replicators, until the next start",
    )
    commands.add_parser("down", help="stop the running cluster")
    show = commands.add_parser("status", help="show the running services")
    show.add_argument("--json", action="store_true", help="as JSON")
    ring_command.add_parser(commands)
    for command in _WITH_HOME.values():
        command.add_parser(commands)
    _add_object_info(
        commands.add_parser(
            "object-info",
            help="show the contents of a file with objects",
            epilog=_OBJECT_INFO_EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )
    return parser


def _add_object_info(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="PATH", help="the file")
    parser.add_argument(
        "-n", "--no-check-etag", action="store_true", help="do not read the object's bytes"
    )
    parser.add_argument(
        "-d", "--swift-dir", type=Path, metavar="DIR", help="show the nodes from the ring in DIR"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--offset", type=int, metavar="N", help="the record of a segment at byte N")
    which.add_argument("--name", metavar="/A/C/O", help="the newest record of a name in a segment")
    parser.add_argument("--json", action="store_true", help="as JSON")


def _object_info(arguments: argparse.Namespace) -> int:
    """Print the report; return the exit status 0, or 1 if the file is damaged."""
    report, is_right = object_info(
        Question(
            path=arguments.path,
            check_bytes=not arguments.no_check_etag,
            swift_dir=arguments.swift_dir,
            offset=arguments.offset,
            name=arguments.name,
        )
    )
    print(json.dumps(report, indent=2) if arguments.json else as_text(report))
    return 0 if is_right else 1


def _home() -> Home:
    path = Path(os.environ.get(HOME_VARIABLE) or HOME_DEFAULT).absolute()
    # Confs contain this path, and PasteDeploy would read % and # in it as syntax.
    if not str(path).isprintable() or "%" in str(path) or "#" in str(path):
        shown = ascii(str(path))
        raise ClusterError(f"{HOME_VARIABLE} may have no %, # or unprintable character: {shown}")
    return Home(path)


def _proxy_port() -> int:
    text = os.environ.get(PORT_VARIABLE) or PORT_DEFAULT
    if not re.fullmatch("[0-9]{1,5}", text) or not 0 < int(text) < 65536:
        raise ClusterError(f"{PORT_VARIABLE} must be a port from 1 to 65535, not {text!r}")
    return int(text)

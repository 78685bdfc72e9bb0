# SPDX-License-Identifier: Apache-2.0
"""The command line of ``martlet``."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cluster.errors import ClusterError
from cluster.layout import Home
from cluster.ports import PORT_DEFAULT, PORT_VARIABLE, PORTS_VARIABLE
from martlet.closed_pipe import end_with_reader
from martlet.service.green import patch_standard_library

HOME_VARIABLE = "MARTLET_HOME"
HOME_DEFAULT = "var"

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

#: The commands, and the module of each with its ``add_parser`` and its ``run``.
COMMANDS = {
    "up": "cluster.up_command",
    "down": "cluster.down_command",
    "status": "cluster.status_command",
    "ring": "cluster.ring_command",
    "device": "cluster.device_command",
    "recon": "cluster.recon.command",
    "check": "cluster.check.command",
    "deploy": "cluster.deploy.command",
    "get-nodes": "cluster.get_nodes",
    "dispersion": "cluster.dispersion_command",
    "audit-account": "cluster.account_audit",
    "shards": "cluster.shards",
    "object-info": "cluster.object_info_command",
}


def main(argv: list[str] | None = None) -> int:
    """Run ``martlet``; return the exit status."""
    return end_with_reader(lambda: _main(argv))


def _main(argv: list[str] | None) -> int:
    words = sys.argv[1:] if argv is None else argv
    # To load the modules of all commands takes twice the time of a command.
    named = [words[0]] if words and words[0] in COMMANDS else list(COMMANDS)
    if named == ["up"] and argv is None:  # else this is part of another program
        patch_standard_library()  # its services are forks, and must find nothing that is unpatched
    modules = {name: importlib.import_module(COMMANDS[name]) for name in named}
    arguments = _parser(modules.values()).parse_args(words)
    try:
        status: int = modules[arguments.command].run(arguments, _home())
        return status
    except ClusterError as error:
        print(f"martlet: {error}", file=sys.stderr)
        return 1


class _Version(argparse.Action):
    """Prints the version, which is only then looked up."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version

        print(f"martlet {version('martlet')}")
        parser.exit()


def _parser(modules: Iterable[Any]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="martlet",
        description="A whole martlet cluster on this machine, and views of any cluster.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    text = "show program's version number and exit"
    parser.add_argument("--version", action=_Version, nargs=0, help=text)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in modules:
        module.add_parser(commands)
    return parser


def _home() -> Home:
    path = Path(os.environ.get(HOME_VARIABLE) or HOME_DEFAULT).absolute()
    # Confs contain this path, and PasteDeploy would read % and # in it as syntax.
    if not str(path).isprintable() or "%" in str(path) or "#" in str(path):
        shown = ascii(str(path))
        raise ClusterError(f"{HOME_VARIABLE} may have no %, # or unprintable character: {shown}")
    return Home(path)

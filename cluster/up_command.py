# SPDX-License-Identifier: Apache-2.0
"""The command ``martlet up``."""

from __future__ import annotations

import argparse
import os
import re

from cluster.errors import ClusterError
from cluster.layout import Home
from cluster.policies import parse_wanted
from cluster.ports import PORT_DEFAULT, PORT_VARIABLE
from cluster.up import up


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``up`` to the commands of ``martlet``."""
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


def run(arguments: argparse.Namespace, home: Home) -> int:
    """Run the cluster until it is stopped; return the exit status.

    :raises ClusterError: it cannot be started.
    """
    wanted = [parse_wanted(text) for text in arguments.policy]
    return up(home, _proxy_port(), arguments.nodes, wanted, not arguments.no_background)


def _proxy_port() -> int:
    text = os.environ.get(PORT_VARIABLE) or PORT_DEFAULT
    if not re.fullmatch("[0-9]{1,5}", text) or not 0 < int(text) < 65536:
        raise ClusterError(f"{PORT_VARIABLE} must be a port from 1 to 65535, not {text!r}")
    return int(text)

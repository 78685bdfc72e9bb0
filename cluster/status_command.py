# SPDX-License-Identifier: Apache-2.0
"""The command ``martlet status``."""

from __future__ import annotations

import argparse

from cluster.layout import Home
from cluster.status import status


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``status`` to the commands of ``martlet``."""
    parser = commands.add_parser("status", help="show the running services")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace, home: Home) -> int:
    """Print the services; return 0 if all are well, 3 if no cluster is running, else 1.

    :raises ClusterError: the home cannot be read.
    """
    return status(home, arguments.json)

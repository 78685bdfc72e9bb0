# SPDX-License-Identifier: Apache-2.0
"""The command ``martlet down``."""

from __future__ import annotations

import argparse

from cluster.layout import Home
from cluster.status import down


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``down`` to the commands of ``martlet``."""
    commands.add_parser("down", help="stop the running cluster")


def run(arguments: argparse.Namespace, home: Home) -> int:
    """Stop the cluster; return the exit status.

    :raises ClusterError: it may not be stopped, or does not stop.
    """
    return down(home)

# SPDX-License-Identifier: Apache-2.0
"""The command line that the container daemons have in common, which is that of Swift's."""

from __future__ import annotations

import argparse
import importlib.metadata
from pathlib import Path
from typing import Any


def daemon_arguments(
    argv: list[str] | None, name: str, description: str, conf_help: str, example_conf: str
) -> Any:
    """``conf`` as a path, and whether to work ``once``; ends the program on a wrong word."""
    parser = argparse.ArgumentParser(
        prog=name, description=description, epilog=f"Example: {name} {example_conf} --once"
    )
    parser.add_argument("conf", type=Path, help=conf_help)
    parser.add_argument("word", nargs="?", choices=("once",), help="the same as --once")
    parser.add_argument("-o", "--once", action="store_true", help="one pass, then end")
    version = importlib.metadata.version("martlet")
    parser.add_argument("--version", action="version", version=f"%(prog)s {version}")
    arguments = parser.parse_args(argv)
    arguments.once = arguments.once or arguments.word is not None
    return arguments

# SPDX-License-Identifier: Apache-2.0
"""The common command line of the container daemons, as in Swift."""

from __future__ import annotations

import argparse
import importlib.metadata
from pathlib import Path
from typing import Any


def daemon_arguments(
    argv: list[str] | None, name: str, description: str, conf_help: str, example_conf: str
) -> Any:
    """Parse ``conf``, a path, and ``once``; end the program on a usage error."""
    parser = argparse.ArgumentParser(
        prog=name, description=description, epilog=f"Example: {name} {example_conf} --once"
    )
    parser.add_argument("conf", type=Path, help=conf_help)
    parser.add_argument("word", nargs="?", choices=("once",), help="the same as --once")
    parser.add_argument("-o", "--once", action="store_true", help="run one pass, then exit")
    version = importlib.metadata.version("martlet")
    parser.add_argument("--version", action="version", version=f"%(prog)s {version}")
    arguments = parser.parse_args(argv)
    arguments.once = arguments.once or arguments.word is not None
    return arguments

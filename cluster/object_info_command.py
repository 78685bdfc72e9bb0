# SPDX-License-Identifier: Apache-2.0
"""The command ``martlet object-info``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from cluster.layout import Home
from cluster.object_info import Question, as_text, object_info

_EPILOG = """\
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


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``object-info`` to the commands of ``martlet``."""
    parser = commands.add_parser(
        "object-info",
        help="show the contents of a file with objects",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
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


def run(arguments: argparse.Namespace, home: Home) -> int:
    """Print the report; return the exit status 0, or 1 if the file is damaged.

    :raises ClusterError: the file cannot be read, or is of no known kind.
    """
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

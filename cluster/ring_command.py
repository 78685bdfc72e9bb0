# SPDX-License-Identifier: Apache-2.0
"""``martlet ring show`` draws a ring; ``martlet ring plan`` shows the moves of a rebalance."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from cluster.layout import Home
from ring import preview, tree
from ring.builder_file import load_builder
from ring.errors import RingError
from ring.files import replace_file
from ring.progress import ProgressBar
from ring.svg import as_svg

EXIT_ERROR = 2

_EPILOG = """\
examples:
  martlet ring show object.ring.gz             regions, zones, servers, devices as a tree
  martlet ring show --svg ring.svg object.builder
                                               the same as a picture
  martlet ring plan object.builder             the moves that a rebalance would make now
  martlet ring plan --usage used.json object.builder
                                               with bytes; used.json: {"10.0.0.1:6200/sda": bytes}
                                               or {"10.0.0.1:6200": the answer of /recon/diskusage}
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``ring`` with its two commands."""
    ring = commands.add_parser(
        "ring",
        help="draw a ring, or show the moves of a rebalance",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = ring.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser("show", help="draw the cluster of a ring or builder file")
    show.add_argument("path", type=Path, metavar="RING")
    show.add_argument("--svg", type=Path, metavar="FILE", help="write a picture to FILE")
    plan = actions.add_parser("plan", help="show the moves of a rebalance; nothing is written")
    plan.add_argument("path", type=Path, metavar="BUILDER")
    plan.add_argument("--seed", help="the seed of the later rebalance, for the same moves")
    plan.add_argument("--usage", type=Path, metavar="FILE", help="bytes on each device, as JSON")
    for action in (show, plan):
        action.add_argument("--json", action="store_true", help="as JSON")


def run(arguments: argparse.Namespace, home: Home) -> int:
    """Run the command; return 0, or 2 after a sentence on standard error."""
    try:
        return _show(arguments) if arguments.action == "show" else _plan(arguments)
    except RingError as error:
        print(f"martlet: {error}", file=sys.stderr)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"martlet: {error.filename or arguments.path}: {error.strerror}", file=sys.stderr)
    return EXIT_ERROR


def _show(arguments: argparse.Namespace) -> int:
    picture = tree.load_picture(arguments.path)
    if arguments.svg:
        replace_file(arguments.svg, as_svg(picture).encode())
    if arguments.json:
        print(json.dumps(picture.as_json(), indent=2))
    elif not arguments.svg:
        print(tree.as_text(picture))
    return 0


def _plan(arguments: argparse.Namespace) -> int:
    builder = load_builder(arguments.path)
    usage = preview.read_usage(arguments.usage, builder) if arguments.usage else None
    bar = ProgressBar(sys.stderr, "Planning")
    try:
        found = preview.preview(builder, arguments.seed, usage, bar)
    finally:
        bar.close()
    print(
        json.dumps(preview.as_json(found), indent=2) if arguments.json else preview.as_text(found)
    )
    return 0

# SPDX-License-Identifier: Apache-2.0
"""martlet-ring-builder: builds rings from the command line, with swift-ring-builder's commands.

Exit status: 0 done; 1 done or not needed, read the output; 2 refused, nothing changed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from martlet.closed_pipe import end_with_reader
from ring import device_commands, ring_commands, setting_commands
from ring.arguments import CommandParser
from ring.builder import RingBuilder
from ring.builder_file import load_builder, locked, save_builder
from ring.errors import BuilderFileError, RingError
from ring.ring_commands import EXIT_ERROR, EXIT_SUCCESS
from ring.show import as_json, as_text

# They change devices, or nothing if one device is invalid.
_DEVICE_COMMANDS: dict[str, Callable[[argparse.Namespace, RingBuilder], list[str]]] = {
    "add": device_commands.add,
    "remove": device_commands.remove,
    "set_weight": device_commands.set_weight,
    "set_region": device_commands.set_region,
    "set_zone": device_commands.set_zone,
    "set_info": device_commands.set_info,
}
_READING_COMMANDS: dict[str, Callable[[argparse.Namespace, RingBuilder], list[str]]] = {
    name: getattr(device_commands, name) for name in device_commands.READING_COMMANDS
}
_SETTING_COMMANDS: dict[str, Callable[[argparse.Namespace, RingBuilder], tuple[list[str], int]]] = {
    name: getattr(setting_commands, name)
    for name in (
        "set_min_part_hours",
        "set_replicas",
        "set_overload",
        "pretend_min_part_hours_passed",
        "prepare_increase_partition_power",
        "increase_partition_power",
        "cancel_increase_partition_power",
        "finish_increase_partition_power",
        "validate",
        "dispersion",
    )
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return end_with_reader(lambda: _main(words))


def _main(words: list[str]) -> int:
    parser = CommandParser()
    if not words:
        parser.print_help()
        return EXIT_SUCCESS
    # argparse needs positional arguments in one piece, but --yes may stand anywhere.
    words.sort(key=lambda word: word in ("-y", "--yes"))
    parser.refuse_unknown_command(words)
    options = parser.parse_args(words)
    builder_path, ring_path = _paths(options)
    try:
        return _run(options, builder_path, ring_path)
    except (RingError, ValueError) as error:
        return _fail(str(error))
    except BrokenPipeError:
        raise
    except OSError as error:
        return _fail(f"{error.filename or builder_path}: {error.strerror}")


def _fail(message: str) -> int:
    print(f"martlet-ring-builder: {message}", file=sys.stderr)
    return EXIT_ERROR


def _paths(options: argparse.Namespace) -> tuple[Path, Path]:
    """The builder file and the ring file; the argument may be either of them."""
    given = options.builder_file
    stem = given.removesuffix(".ring.gz") if given.endswith(".ring.gz") else given
    if stem != given:
        builder_path = Path(f"{stem}.builder")
        if options.command not in ("write_builder", "version"):
            print(f"Note: using {builder_path} instead of {given} as builder file", file=sys.stderr)
        return builder_path, Path(given)
    return Path(given), Path(f"{given.removesuffix('.builder')}.ring.gz")


def _run(options: argparse.Namespace, builder_path: Path, ring_path: Path) -> int:
    command = options.command
    if command == "version":
        return ring_commands.version(ring_path)
    if command in ("show", "default"):
        return _show(options, load_builder(builder_path), builder_path, ring_path)
    if reading := _READING_COMMANDS.get(command):
        print("\n".join(reading(options, load_builder(builder_path))))
        return EXIT_SUCCESS
    if command == "validate" or (command == "dispersion" and not options.recalculate):
        return _print(*_SETTING_COMMANDS[command](options, load_builder(builder_path)))
    if command not in ("create", "write_builder") and not builder_path.exists():
        raise BuilderFileError(f"{builder_path}: No such file or directory")
    with locked(builder_path):
        return _change(options, builder_path, ring_path)


def _change(options: argparse.Namespace, builder_path: Path, ring_path: Path) -> int:
    """Run a command that writes; the builder file is locked."""
    command = options.command
    if command == "create":
        return ring_commands.create(options, builder_path)
    if command == "write_builder":
        return ring_commands.write_builder(options, builder_path, ring_path)
    builder = load_builder(builder_path)
    if command == "rebalance":
        return ring_commands.rebalance(options, builder, builder_path, ring_path)
    if command == "write_ring":
        return ring_commands.write_ring(options, builder, ring_path)
    if change := _DEVICE_COMMANDS.get(command):
        lines, status = change(options, builder), EXIT_SUCCESS
    else:
        lines, status = _SETTING_COMMANDS[command](options, builder)
    save_builder(builder, builder_path)
    return _print(lines, status)


def _print(lines: Sequence[str], status: int) -> int:
    for line in lines:
        print(line)
    return status


def _show(
    options: argparse.Namespace, builder: RingBuilder, builder_path: Path, ring_path: Path
) -> int:
    if options.json:
        print(json.dumps(as_json(builder, builder_path, ring_path), indent=2, sort_keys=True))
    else:
        print(as_text(builder, builder_path, ring_path))
    return EXIT_SUCCESS


if __name__ == "__main__":
    sys.exit(main())

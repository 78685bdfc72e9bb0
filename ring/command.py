# SPDX-License-Identifier: Apache-2.0
"""martlet-ring-builder: builds rings from the command line, with swift-ring-builder's words.

Exit status: 0 done; 1 done or not needed, but look at what was printed; 2 refused, nothing changed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from ring.arguments import CommandParser, devices_and_weights, search_groups, weight_changes
from ring.builder import BALANCE_MAX, RebalanceResult, RingBuilder
from ring.builder_file import encode_builder, load_builder, locked, save_builder
from ring.devices import Device, format_device
from ring.errors import BuilderError, BuilderFileError, RingError
from ring.file_format import encode_ring
from ring.files import replace_file
from ring.show import as_json, as_text

EXIT_SUCCESS, EXIT_WARNING, EXIT_ERROR = 0, 1, 2
# Percent that balance or dispersion must change for a rebalance to be worth a new ring.
WORTHWHILE_PERCENT = 1.0
# Percent of imbalance above which another rebalance, after min_part_hours, is advised.
TOLERABLE_BALANCE_PERCENT = 5.0


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit status."""
    options = CommandParser().parse_args(arguments)
    builder_path, ring_path = _paths(options.builder_file)
    try:
        return _run(options, builder_path, ring_path)
    except (RingError, ValueError) as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"{error.filename or builder_path}: {error.strerror}")


def _fail(message: str) -> int:
    print(f"martlet-ring-builder: {message}", file=sys.stderr)
    return EXIT_ERROR


def _paths(given: str) -> tuple[Path, Path]:
    """The builder file and the ring file; either may be given."""
    stem = given.removesuffix(".ring.gz") if given.endswith(".ring.gz") else given
    if stem != given:
        builder_path = Path(f"{stem}.builder")
        print(f"Note: using {builder_path} instead of {given} as builder file", file=sys.stderr)
        return builder_path, Path(given)
    return Path(given), Path(f"{given.removesuffix('.builder')}.ring.gz")


def _run(options: argparse.Namespace, builder_path: Path, ring_path: Path) -> int:
    if options.command == "show":
        return _show(options, load_builder(builder_path), builder_path, ring_path)
    if options.command != "create" and not builder_path.exists():
        raise BuilderFileError(f"{builder_path}: No such file or directory")
    with locked(builder_path):
        if options.command == "create":
            return _create(options, builder_path)
        builder = load_builder(builder_path)
        if options.command == "rebalance":
            return _rebalance(options, builder, builder_path, ring_path)
        if options.command == "write_ring":
            return _write_ring(options, builder, ring_path)
        change = {"add": _add, "remove": _remove, "set_weight": _set_weight}[options.command]
        lines = change(options, builder)
        save_builder(builder, builder_path)
        print("\n".join(lines))
        return EXIT_SUCCESS


def _create(options: argparse.Namespace, builder_path: Path) -> int:
    if builder_path.exists():
        raise BuilderError(f"{builder_path} exists already: remove it first if it is not needed")
    builder = RingBuilder.create(options.part_power, options.replicas, options.min_part_hours)
    _keep_backup(builder_path, encode_builder(builder))
    save_builder(builder, builder_path)
    return EXIT_SUCCESS


def _show(
    options: argparse.Namespace, builder: RingBuilder, builder_path: Path, ring_path: Path
) -> int:
    if options.json:
        print(json.dumps(as_json(builder, builder_path, ring_path), indent=2, sort_keys=True))
    else:
        print(as_text(builder, builder_path, ring_path))
    return EXIT_SUCCESS


def _add(options: argparse.Namespace, builder: RingBuilder) -> list[str]:
    lines = []
    for fields in devices_and_weights(options):
        if options.devices and "region" not in fields:
            print("WARNING: no region given, region 1 is used", file=sys.stderr)
            fields["region"] = 1
        device = builder.add_device(fields)
        lines.append(
            f"Device {format_device(device)} with {device['weight']} weight got id {device['id']}"
        )
    return lines


def _remove(options: argparse.Namespace, builder: RingBuilder) -> list[str]:
    found: dict[int, Device] = {}
    for wanted in search_groups(options):
        found |= {device["id"]: device for device in _search(builder, wanted)}
    _confirm(list(found.values()), "remove", options.yes)
    lines = []
    for dev_id, device in found.items():
        builder.remove_device(dev_id)
        lines.append(
            f"{format_device(device)} marked for removal and will be removed next rebalance."
        )
    return lines


def _set_weight(options: argparse.Namespace, builder: RingBuilder) -> list[str]:
    lines = []
    for wanted, weight in weight_changes(options):
        found = _search(builder, wanted)
        _confirm(found, "change the weight of", options.yes)
        for device in found:
            builder.set_weight(device["id"], weight)
            lines.append(f"{format_device(device)} weight set to {device['weight']}")
    return lines


def _search(builder: RingBuilder, wanted: dict[str, Any]) -> list[Device]:
    found = builder.search(wanted)
    if not found:
        what = ", ".join(f"{key} {value}" for key, value in wanted.items())
        raise BuilderError(f"no device has {what}; nothing was changed")
    return found


def _confirm(devices: list[Device], what: str, is_yes: bool) -> None:
    """Asks before several devices are changed at once."""
    if len(devices) < 2 or is_yes:
        return
    print("Matched more than one device:")
    for device in devices:
        print(f"    {format_device(device)}")
    try:
        answer = input(f"Are you sure you want to {what} these {len(devices)} devices? (y/N) ")
    except EOFError:
        answer = ""
        print()
    if answer.strip().lower() not in ("y", "yes"):
        raise BuilderError("not confirmed (answer y, or use --yes); nothing was changed")


def _rebalance(
    options: argparse.Namespace, builder: RingBuilder, builder_path: Path, ring_path: Path
) -> int:
    devs_changed = builder.devs_changed
    before = (builder.balance(), builder.dispersion)
    wait_seconds = builder.seconds_until_move()
    result = builder.rebalance(seed=options.seed or options.seed_argument)
    if not (result.moved_partitions or result.removed_devices or options.force):
        print("No partitions could be reassigned.")
        if wait_seconds:
            print(
                "The time between rebalances must be at least min_part_hours: "
                f"{builder.min_part_hours} hours ({timedelta(seconds=wait_seconds)} remaining)"
            )
        else:
            print("There is no need to do so at this time")
        return EXIT_WARNING
    if not (options.force or devs_changed or _is_worthwhile(before, result)):
        print("Not saved: it did not change at least 1% (--force saves it).")
        return EXIT_WARNING
    builder.validate()
    ring = encode_ring(builder.ring_data(), ring_path.name, options.format_version)
    _keep_backup(ring_path, ring)
    _keep_backup(builder_path, encode_builder(builder))
    # The builder first: a ring can be written from it again, but not the other way round.
    save_builder(builder, builder_path)
    replace_file(ring_path, ring)
    print(
        f"Reassigned {result.moved_partitions} "
        f"({100.0 * result.moved_partitions / builder.partitions:.2f}%) partitions. "
        f"Balance is now {result.balance:.2f}.  Dispersion is now {result.dispersion:.2f}"
    )
    return _advice(builder, result)


def _is_worthwhile(before: tuple[float, float | None], result: RebalanceResult) -> bool:
    balance, dispersion = before
    return (
        abs(balance - result.balance) >= WORTHWHILE_PERCENT
        or balance == result.balance == BALANCE_MAX
        or dispersion is None
        or abs(dispersion - result.dispersion) >= WORTHWHILE_PERCENT
    )


def _advice(builder: RingBuilder, result: RebalanceResult) -> int:
    """What to do about a ring that is not as it should be."""
    status = EXIT_SUCCESS
    if builder.overload:
        print(f"NOTE: the overload factor {builder.overload:g} is kept, but not yet made use of.")
    if result.dispersion > 0:
        print(
            f"NOTE: Dispersion of {result.dispersion:.6f} indicates some parts are not optimally "
            "dispersed: the weights do not allow it, or partitions may not move yet."
        )
        status = EXIT_WARNING
    elif result.balance > TOLERABLE_BALANCE_PERCENT:
        print(
            f"NOTE: Balance of {result.balance:.2f} indicates you should push this ring, wait at "
            f"least {builder.min_part_hours} hours, and rebalance/repush."
        )
        status = EXIT_WARNING
    return status


def _write_ring(options: argparse.Namespace, builder: RingBuilder, ring_path: Path) -> int:
    builder.validate()
    ring = encode_ring(builder.ring_data(), ring_path.name, options.format_version)
    _keep_backup(ring_path, ring)
    replace_file(ring_path, ring)
    return EXIT_SUCCESS


def _keep_backup(path: Path, content: bytes) -> None:
    """Keeps what is about to be written in backups/, under the time and its name."""
    folder = path.parent / "backups"
    folder.mkdir(exist_ok=True)
    replace_file(folder / f"{time.time():.6f}.{path.name}", content)


if __name__ == "__main__":
    sys.exit(main())

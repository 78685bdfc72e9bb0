# SPDX-License-Identifier: Apache-2.0
"""The commands of martlet-ring-builder that change or search devices; each returns its output."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from ring.arguments import (
    devices_and_weights,
    info_changes,
    search_and_value,
    search_groups,
    whole_number,
)
from ring.builder import RingBuilder
from ring.devices import Device, format_device, parse_weight
from ring.errors import BuilderError
from ring.show import search_table

READING_COMMANDS = ("search", "list_parts")


def add(options: argparse.Namespace, builder: RingBuilder) -> list[str]:
    """Add devices; return the lines to print."""
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


def remove(options: argparse.Namespace, builder: RingBuilder) -> list[str]:
    """Mark devices for removal; return the lines to print."""
    devices = _search_all(options, builder)
    _confirm(devices, "remove", options.yes)
    lines = []
    for device in devices:
        builder.remove_device(device["id"])
        lines.append(
            f"{format_device(device)} marked for removal and will be removed next rebalance."
        )
    return lines


def set_weight(options: argparse.Namespace, builder: RingBuilder) -> list[str]:
    """Change weights; return the lines to print."""

    def change(device: Device, value: str) -> float:
        builder.set_weight(device["id"], parse_weight(value))
        return device["weight"]

    return _set(options, builder, "weight", change)


def set_region(options: argparse.Namespace, builder: RingBuilder) -> list[str]:
    """Change regions; return the lines to print."""

    def change(device: Device, value: str) -> int:
        builder.set_place(device["id"], region=whole_number(value, "region"))
        return device["region"]

    return _set(options, builder, "region", change)


def set_zone(options: argparse.Namespace, builder: RingBuilder) -> list[str]:
    """Change zones; return the lines to print."""

    def change(device: Device, value: str) -> int:
        builder.set_place(device["id"], zone=whole_number(value, "zone"))
        return device["zone"]

    return _set(options, builder, "zone", change)


def set_info(options: argparse.Namespace, builder: RingBuilder) -> list[str]:
    """Change addresses, names or texts; return the lines to print."""
    lines = []
    for wanted, changes in info_changes(options):
        found = _search(options, builder, wanted)
        _confirm(found, "change the info of", options.yes)
        for device in found:
            before = format_device(device)
            builder.set_info(device["id"], changes)
            lines.append(f"Device {before} is now {format_device(device)}")
    return lines


def search(options: argparse.Namespace, builder: RingBuilder) -> list[str]:
    """Find devices; return the lines to print."""
    return search_table(builder, _search_all(options, builder))


def list_parts(options: argparse.Namespace, builder: RingBuilder) -> list[str]:
    """List the partitions of the devices, most matches first; return the lines to print."""
    if not builder.table:
        raise BuilderError("no partition is assigned yet: rebalance first")
    wanted = {device["id"] for device in _search_all(options, builder)}
    matches: Counter[int] = Counter()
    for row in builder.table:
        matches.update(partition for partition, dev_id in enumerate(row) if dev_id in wanted)
    if not matches:
        raise BuilderError("No matching devices found: they have no partitions")
    return ["Partition   Matches"] + [
        f"{partition:9d}   {count:7d}" for partition, count in matches.most_common()
    ]


def _set(
    options: argparse.Namespace,
    builder: RingBuilder,
    what: str,
    change: Callable[[Device, str], float],
) -> list[str]:
    lines = []
    for wanted, value in search_and_value(options):
        found = _search(options, builder, wanted)
        _confirm(found, f"change the {what} of", options.yes)
        for device in found:
            new = change(device, value)
            lines.append(f"{format_device(device)} {what} set to {new}")
    return lines


def _search_all(options: argparse.Namespace, builder: RingBuilder) -> list[Device]:
    """The devices that match any of the searches, each once."""
    found: dict[int, Device] = {}
    for wanted in search_groups(options):
        found |= {device["id"]: device for device in _search(options, builder, wanted)}
    return list(found.values())


def _search(
    options: argparse.Namespace, builder: RingBuilder, wanted: dict[str, Any]
) -> list[Device]:
    found = builder.search(wanted)
    if not found:
        what = ", ".join(f"{key} {value}" for key, value in wanted.items())
        changes = options.command not in READING_COMMANDS
        raise BuilderError(f"no device has {what}" + "; nothing was changed" * changes)
    return found


def _confirm(devices: list[Device], what: str, is_yes: bool) -> None:
    """List the devices and ask for confirmation, before several devices are changed."""
    if len(devices) < 2:
        return
    print("Matched more than one device:")
    for device in devices:
        print(f"    {format_device(device)}")
    if is_yes:
        return
    try:
        answer = input(f"Are you sure you want to {what} these {len(devices)} devices? (y/N) ")
    except EOFError:
        answer = ""
        print()
    if answer.strip().lower() not in ("y", "yes"):
        raise BuilderError("not confirmed (answer y, or use --yes); nothing was changed")

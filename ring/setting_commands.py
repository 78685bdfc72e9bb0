# SPDX-License-Identifier: Apache-2.0
"""The commands of martlet-ring-builder that change the ring as a whole, or measure it.

Each returns the lines to print and the exit status.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from ring import part_power
from ring.builder import RingBuilder
from ring.dispersion import measure
from ring.errors import BuilderError
from ring.ring_commands import EXIT_SUCCESS, EXIT_WARNING
from ring.show import dispersion_table, worst_tier

_AFTER_WRITE_RING = "The change will take effect after the next write_ring."


def set_min_part_hours(options: argparse.Namespace, builder: RingBuilder) -> tuple[list[str], int]:
    """Set the least hours between two moves of a partition."""
    builder.set_min_part_hours(options.hours)
    line = "The minimum number of hours before a partition can be reassigned is now set to "
    return [f"{line}{builder.min_part_hours}"], EXIT_SUCCESS


def set_replicas(options: argparse.Namespace, builder: RingBuilder) -> tuple[list[str], int]:
    """Set the number of replicas, which may have a fraction."""
    builder.set_replicas(options.replicas)
    return [
        f"The replica count is now {builder.replicas:.6f}.",
        "The change will take effect after the next rebalance.",
    ], EXIT_SUCCESS


def set_overload(options: argparse.Namespace, builder: RingBuilder) -> tuple[list[str], int]:
    """Set the overload, a factor or a percentage with ``%``; warn about a factor above 1."""
    text = options.overload
    try:
        overload = float(text.removesuffix("%")) * (0.01 if text.endswith("%") else 1)
    except ValueError:
        raise BuilderError(f"{text!r} is not an overload, such as 0.1 or 10%") from None
    builder.set_overload(overload)
    lines = [
        f"The overload factor is now {builder.overload * 100:.2f}% ({builder.overload:.6f})",
        "The change will take effect after the next rebalance.",
    ]
    if overload > 1 and not text.endswith("%"):
        return ["!?! Warning overload is greater than 100% !?!", *lines], EXIT_WARNING
    return lines, EXIT_SUCCESS


def pretend_min_part_hours_passed(
    options: argparse.Namespace, builder: RingBuilder
) -> tuple[list[str], int]:
    """Let all partitions move at the next rebalance."""
    builder.pretend_min_part_hours_passed()
    return [], EXIT_SUCCESS


def prepare_increase_partition_power(
    options: argparse.Namespace, builder: RingBuilder
) -> tuple[list[str], int]:
    """Prepare an increase, for object rings only: databases cannot be linked to new places."""
    if "object" not in Path(options.builder_file).name:
        raise BuilderError("Partition power increase is only supported for object rings.")
    part_power.prepare_increase(builder)
    return [
        f"The next partition power is now {builder.next_part_power}.",
        _AFTER_WRITE_RING,
        "Copy that ring to every server, and before the increase run on every object server:",
        "martlet-object-relinker relink",
    ], EXIT_SUCCESS


def increase_partition_power(
    options: argparse.Namespace, builder: RingBuilder
) -> tuple[list[str], int]:
    """Double the partitions."""
    part_power.increase(builder)
    return [f"The partition power is now {builder.part_power}.", _AFTER_WRITE_RING], EXIT_SUCCESS


def cancel_increase_partition_power(
    options: argparse.Namespace, builder: RingBuilder
) -> tuple[list[str], int]:
    """Cancel a prepared increase, before it is done."""
    part_power.cancel_increase(builder)
    return [
        f"The next partition power is now {builder.next_part_power}.",
        _AFTER_WRITE_RING,
        "Copy that ring to every server, and run on every object server:",
        "martlet-object-relinker cleanup",
    ], EXIT_SUCCESS


def finish_increase_partition_power(
    options: argparse.Namespace, builder: RingBuilder
) -> tuple[list[str], int]:
    """End an increase or its cancellation."""
    part_power.finish_increase(builder)
    return [_AFTER_WRITE_RING], EXIT_SUCCESS


def validate(options: argparse.Namespace, builder: RingBuilder) -> tuple[list[str], int]:
    """Check the assignments; raise an error if they are invalid."""
    builder.validate()
    return [], EXIT_SUCCESS


def dispersion(options: argparse.Namespace, builder: RingBuilder) -> tuple[list[str], int]:
    """Show the dispersion; warn if a tier holds more replicas of a partition than it should."""
    if not builder.table:
        raise BuilderError("no partition is assigned yet: rebalance first")
    try:
        wanted = re.compile(options.filter or "")
    except re.error as error:
        raise BuilderError(f"{options.filter!r} is not a regular expression: {error}") from None
    if options.recalculate or not builder.dispersion_graph:
        builder.dispersion, builder.dispersion_graph = measure(
            list(builder.devices()), builder.table, builder.partitions
        )
    lines = [
        f"Dispersion is {builder.dispersion or 0:.6f}, Balance is {builder.balance():.6f}, "
        f"Overload is {builder.overload * 100:.2f}%",
        f"Required overload is {builder.required_overload() * 100:.6f}%",
    ]
    status = EXIT_SUCCESS
    if worst := worst_tier(builder, wanted):
        status = EXIT_WARNING
        lines.append(f"Worst tier is {worst[1]:.6f} ({worst[0]})")
    if options.verbose:
        lines += dispersion_table(builder, wanted)
    return lines, status

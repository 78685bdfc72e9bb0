# SPDX-License-Identifier: Apache-2.0
"""Raising the partition power: every partition becomes two, on the same devices.

prepare   servers learn the next power and link their data to its new places as well
increase  the ring has twice the partitions; the old places are still searched
finish    the old places are removed
cancel    reverts a prepared increase; a finish ends that, too
"""

from __future__ import annotations

from array import array

from ring.builder import RingBuilder
from ring.errors import BuilderError
from ring.file_format import PART_POWER_MAX


def prepare_increase(builder: RingBuilder) -> None:
    """Announce the next partition power.

    :raises BuilderError: an increase is running, or the power is the highest possible.
    """
    if builder.next_part_power is not None:
        raise BuilderError("Ring is already prepared for partition power increase.")
    if builder.part_power == PART_POWER_MAX:
        raise BuilderError(f"the partition power is {PART_POWER_MAX}, the highest possible")
    builder.next_part_power = builder.part_power + 1
    builder.version += 1


def increase(builder: RingBuilder) -> None:
    """Double the partitions.

    :raises BuilderError: the increase is not prepared, or done already.
    """
    if builder.next_part_power != builder.part_power + 1:
        raise BuilderError(
            "Ring partition power cannot be increased: the ring is not prepared for it, "
            "or it has been done already"
        )
    builder.table = [_doubled(row) for row in builder.table]
    builder.hours_since_move = bytearray(_doubled(array("B", builder.hours_since_move)))
    for device in builder.devices():
        device["parts"] = device.get("parts", 0) * 2
        device["parts_wanted"] = device.get("parts_wanted", 0) * 2
    builder.dispersion_graph = {
        tier: [2 * count for count in counts] for tier, counts in builder.dispersion_graph.items()
    }
    builder.part_power += 1
    builder.version += 1


def cancel_increase(builder: RingBuilder) -> None:
    """Revert a prepared increase.

    :raises BuilderError: nothing is prepared, or the increase is done.
    """
    if builder.next_part_power != builder.part_power + 1:
        raise BuilderError("Ring partition power increase cannot be canceled.")
    builder.next_part_power = builder.part_power
    builder.version += 1


def finish_increase(builder: RingBuilder) -> None:
    """End an increase or its cancellation.

    :raises BuilderError: there was neither.
    """
    if builder.next_part_power is None or builder.next_part_power != builder.part_power:
        raise BuilderError("Ring partition power increase cannot be finished.")
    builder.next_part_power = None
    builder.version += 1


def _doubled(row: array[int]) -> array[int]:
    """The row with each item twice."""
    twice = array(row.typecode, bytes(2 * len(row) * row.itemsize))
    twice[0::2] = row
    twice[1::2] = row
    return twice

# SPDX-License-Identifier: Apache-2.0
"""Hours since each partition last moved, one byte for each.

A partition may move again after ``min_part_hours``.
"""

from __future__ import annotations

HOURS_MAX = 255
SECONDS_PER_HOUR = 3600


def never_moved(partitions: int) -> bytearray:
    """Ages with which every partition may move."""
    return bytearray([HOURS_MAX]) * partitions


def aged(ages: bytearray, hours: int) -> bytearray:
    """The ages some hours later."""
    return ages.translate(bytes(min(HOURS_MAX, age + hours) for age in range(HOURS_MAX + 1)))


def may_move(ages: bytearray, min_part_hours: int) -> bytes:
    """For each partition 1 if it may move, else 0."""
    return bytes(ages.translate(bytes(age >= min_part_hours for age in range(HOURS_MAX + 1))))

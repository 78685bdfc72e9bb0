# SPDX-License-Identifier: Apache-2.0
"""The table of a ring: ``table[replica][partition]`` is a device id. The last row may be short."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from operator import ne

Table = list["array[int]"]
TYPE_CODES = {2: "H", 4: "I"}  # bytes of a device id -> array type


def id_bytes(highest_id: int) -> int:
    """Bytes for ids up to ``highest_id``. The highest number of each width means no device."""
    return 2 if highest_id < 2**16 - 1 else 4


def no_device(width: int) -> int:
    """The id that means no device, in a table whose ids have ``width`` bytes."""
    return int(2 ** (8 * width)) - 1


def resized(table: Table, lengths: Sequence[int], width: int) -> Table:
    """The table with rows of these lengths and ids of ``width`` bytes.

    New places have no device.
    """
    rows = []
    for number, length in enumerate(lengths):
        row = array(TYPE_CODES[width], table[number] if number < len(table) else ())
        del row[length:]
        row.extend([no_device(width)] * (length - len(row)))
        rows.append(row)
    return rows


def remove_devices(table: Table, ids: Collection[int], no_device_id: int) -> None:
    """Put ``no_device_id`` in the place of these devices."""
    for number, row in enumerate(table if ids else ()):
        left = (no_device_id if dev_id in ids else dev_id for dev_id in row)
        table[number] = array(row.typecode, left)


def count_differences(before: Table, after: Table) -> int:
    """Places of the table that hold another device than before."""
    changed = 0
    for number, row in enumerate(after):
        old = before[number] if number < len(before) else row[:0]
        changed += sum(map(ne, old, row)) + max(0, len(row) - len(old))
    return changed

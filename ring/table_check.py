# SPDX-License-Identifier: Apache-2.0
"""Checks that a table agrees with the devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ring.devices import Device
from ring.dispersion import shares_a_place
from ring.errors import BuilderError
from ring.table import Table


def check_table(table: Table, devices: Mapping[int, Device]) -> None:
    """Check that each partition has its replicas on as many different devices.

    :raises BuilderError: names the first partition that has not.
    """
    if not table:
        raise BuilderError("no partition is assigned yet: rebalance first")
    for row in table:
        if unknown := set(row) - devices.keys():
            partition = next(p for p, dev_id in enumerate(row) if dev_id in unknown)
            raise BuilderError(
                f"partition {partition} is on a device that is not there: {row[partition]}"
            )
    if shares_a_place(table):
        partition, ids = next(
            (p, ids) for p, ids in enumerate(_ids_by_partition(table)) if len({*ids}) < len(ids)
        )
        raise BuilderError(f"partition {partition} is on one device twice: {ids}")
    counted = sum(device.get("parts", 0) for device in devices.values())
    held = sum(map(len, table))
    if counted != held:
        raise BuilderError(f"devices count {counted} replicas, {held} are assigned to them")


def _ids_by_partition(table: Table) -> Iterator[list[int]]:
    for partition in range(len(table[0])):
        yield [row[partition] for row in table if partition < len(row)]

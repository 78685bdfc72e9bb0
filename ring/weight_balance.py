# SPDX-License-Identifier: Apache-2.0
"""Distance of each device from the share of its weight: operators call the figure balance."""

from __future__ import annotations

from collections.abc import Sequence

from ring.devices import Device

#: The balance of a device that has no weight and still holds partitions.
BALANCE_MAX = 999.99


def balance_by_device(
    devices: Sequence[Device], partitions: int, replicas: float
) -> dict[int, float]:
    """Percent that each device holds over the share of its weight; negative if under it."""
    total = sum(device["weight"] for device in devices)
    per_weight = partitions * replicas / total if total else 0.0
    result = {}
    for device in devices:
        if device["weight"] > 0:
            share = device["weight"] * per_weight
            result[device["id"]] = 100.0 * device.get("parts", 0) / share - 100.0
        else:
            result[device["id"]] = BALANCE_MAX if device.get("parts", 0) else 0.0
    return result

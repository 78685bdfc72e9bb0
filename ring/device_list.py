# SPDX-License-Identifier: Apache-2.0
"""The list of a ring's devices: ``devs[id]`` is that device, or None if it was removed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from ring.devices import Device, format_device
from ring.errors import BuilderError

DeviceList = list[Device | None]


def present(devs: DeviceList) -> Iterator[Device]:
    """The devices by id, without the gaps."""
    return (device for device in devs if device is not None)


def device_of(devs: DeviceList, dev_id: int) -> Device:
    """The device with this id.

    :raises BuilderError: there is none.
    """
    device = devs[dev_id] if 0 <= dev_id < len(devs) else None
    if device is None:
        raise BuilderError(f"there is no device {dev_id}")
    return device


def insert(devs: DeviceList, device: Device) -> None:
    """Put a device at its id. With a negative id it gets the lowest free one.

    :raises BuilderError: the id, or the address, port and name, are taken.
    """
    check_unique(devs, device)
    if device["id"] < 0:
        device["id"] = devs.index(None) if None in devs else len(devs)
    dev_id = device["id"]
    if dev_id < len(devs) and devs[dev_id] is not None:
        raise BuilderError(f"device id {dev_id} is taken")
    devs += [None] * (dev_id + 1 - len(devs))
    devs[dev_id] = device


def check_unique(devs: DeviceList, device: Device) -> None:
    """
    :raises BuilderError: another device has this address, port and name.
    """
    for other in present(devs):
        if other["id"] != device["id"] and _identity(other) == _identity(device):
            raise BuilderError(
                f"Device {other['id']} already uses {other['ip']}:{other['port']}/{other['device']}"
            )


def check_others_have_weight(devs: DeviceList, dev_id: int) -> None:
    """Check before a device loses its weight: a ring without any could never be balanced again.

    :raises BuilderError: no other device has weight.
    """
    weighted = [device["id"] for device in present(devs) if device["weight"] > 0]
    if weighted == [dev_id]:
        raise BuilderError(
            f"{format_device(device_of(devs, dev_id))} is the last device with weight: "
            "add others first"
        )


def check_enough(devs: DeviceList, replicas: float) -> None:
    """
    :raises BuilderError: there are fewer devices with weight than replicas.
    """
    needed = math.ceil(replicas)
    usable = sum(1 for device in present(devs) if device["weight"] > 0)
    if usable < needed:
        raise BuilderError(
            f"{replicas:g} replicas need at least {needed} devices with weight, "
            f"there {'is' if usable == 1 else 'are'} {usable}"
        )


def matching(devs: DeviceList, wanted: Mapping[str, object]) -> list[Device]:
    """Devices whose fields equal the wanted values; ``meta`` need only contain it."""

    def matches(device: Mapping[str, Any]) -> bool:
        return all(
            value in device[key] if key == "meta" else device.get(key) == value
            for key, value in wanted.items()
        )

    return [device for device in present(devs) if matches(device)]


def _identity(device: Device) -> tuple[str, int, str]:
    return device["ip"], device["port"], device["device"]

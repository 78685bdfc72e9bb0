# SPDX-License-Identifier: Apache-2.0
"""A device of the ring: its fields, their legal values, and its place in the failure domains."""

from __future__ import annotations

import math
import re
import socket
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict, cast

from ring.errors import DeviceError

# (), (region,), (region, zone), (region, zone, ip) or (region, zone, ip, device id).
Tier = tuple[int | str, ...]
DEVICE_TIER_LENGTH = 4

PORT_MAX = 65535
NAME_BYTES_MAX = 255
NUMBER_MAX = 2**31 - 1
_HOST_LABEL = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)\Z")


class Device(TypedDict):
    """One device, with the keys of the ring file. ``weight`` is relative; ``meta`` is free text."""

    id: int
    region: int
    zone: int
    ip: str
    port: int
    device: str
    weight: float
    replication_ip: str
    replication_port: int
    meta: str
    parts: NotRequired[int]  # builder only: the partition replicas that it holds
    parts_wanted: NotRequired[int]  # builder only: the replicas that it should get


_BUILDER_ONLY_KEYS = ("parts", "parts_wanted")


def without_builder_keys(device: Device) -> Device:
    """The device in the form of a ring file."""
    return cast(Device, {k: v for k, v in device.items() if k not in _BUILDER_ONLY_KEYS})


def tiers_of(device: Mapping[str, Any]) -> tuple[Tier, Tier, Tier, Tier]:
    """The failure domains that hold a device, the widest first, the device itself last."""
    region, zone, ip = device["region"], device["zone"], device["ip"]
    return ((region,), (region, zone), (region, zone, ip), (region, zone, ip, device["id"]))


def normal_address(address: str) -> str:
    """An IPv4 or IPv6 address or a host name in its canonical spelling.

    :raises DeviceError: it is none of the three.
    """
    bare = address[1:-1] if address.startswith("[") and address.endswith("]") else address
    lower = bare.lower()
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            return socket.inet_ntop(family, socket.inet_pton(family, lower))
        except (OSError, ValueError):
            continue
    if bare is address and _is_host_name(lower):
        return lower
    raise DeviceError(f"{address!r} is not an IP address or a host name")


def _is_host_name(name: str) -> bool:
    labels = name.removesuffix(".").split(".")
    # A last label of only digits is a mistyped IPv4 address, never a name (RFC 1123, 2.1).
    return (
        len(name) <= NAME_BYTES_MAX
        and all(_HOST_LABEL.match(label) for label in labels)
        and not labels[-1].isdigit()
    )


def parse_weight(text: str) -> float:
    """Parse a weight.

    :raises DeviceError: not a finite number of at least 0.
    """
    try:
        weight = float(text)
    except ValueError:
        raise DeviceError(f"{text!r} is not a weight: a number is needed") from None
    return _checked_weight(weight)


def _checked_weight(weight: float) -> float:
    if not (math.isfinite(weight) and weight >= 0):
        raise DeviceError(f"{weight} is not a weight: it must be finite and not negative")
    return weight


def checked_device(raw: Mapping[str, Any]) -> Device:
    """Check every field of a device and fill in the replication address; ``id`` may be -1.

    Unknown fields are kept: they belong to the program that wrote them.

    :raises DeviceError: with the field and the error in the message.
    """
    device = {"id": -1, "meta": "", **raw}
    missing = [
        key for key in ("region", "zone", "ip", "port", "device", "weight") if key not in raw
    ]
    if missing:
        raise DeviceError(f"a device needs {', '.join(missing)}")
    for key, default in (("replication_ip", "ip"), ("replication_port", "port")):
        if device.get(key) is None:
            device[key] = device[default]
    for key in ("ip", "replication_ip", "device", "meta"):
        if not isinstance(device[key], str):
            raise DeviceError(f"{key} of a device must be text, not {device[key]!r}")
    for key, lowest, highest in (
        ("id", -1, 2**32 - 2),
        ("region", 0, NUMBER_MAX),
        ("zone", 0, NUMBER_MAX),
        ("port", 1, PORT_MAX),
        ("replication_port", 1, PORT_MAX),
    ):
        value = device[key]
        if type(value) is not int or not lowest <= value <= highest:
            raise DeviceError(f"{key} must be a whole number {lowest} to {highest}, not {value!r}")
    if isinstance(device["weight"], bool) or not isinstance(device["weight"], int | float):
        raise DeviceError(f"weight must be a number, not {device['weight']!r}")
    device["weight"] = _checked_weight(float(device["weight"]))
    check_device_name(device["device"])
    return cast(Device, device)


def check_device_name(name: str) -> None:
    """Check a device name, which is a folder name below the server's ``devices`` folder.

    :raises DeviceError: it is empty, too long, or not one plain folder name.
    """
    bad = not name or name != name.strip() or name in (".", "..") or "/" in name
    if bad or not name.isprintable() or len(name.encode(errors="replace")) > NAME_BYTES_MAX:
        raise DeviceError(f"{name!r} is not a device name: one plain folder name is needed")


def format_device(device: Device) -> str:
    """Format as ``d0r1z2-10.0.0.1:6200R10.0.0.1:6200/sdb1_"meta"``, like swift-ring-builder."""
    return (
        f"d{device['id']}r{device['region']}z{device['zone']}"
        f"-{bracketed(device['ip'])}:{device['port']}"
        f"R{bracketed(device['replication_ip'])}:{device['replication_port']}"
        f'/{device["device"]}_"{device["meta"]}"'
    )


def bracketed(ip: str) -> str:
    """An address in the form used before ``:port``."""
    return f"[{ip}]" if ":" in ip else ip

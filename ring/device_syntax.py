# SPDX-License-Identifier: Apache-2.0
"""The notation of devices and searches on the command line, as in swift-ring-builder.

add:     [r<region>]z<zone>-<ip>:<port>[R<r_ip>:<r_port>]/<device>[_<meta>]
search:  [d<id>][r<region>][z<zone>][-][<ip>][:<port>][R[<r_ip>][:<r_port>]][/<device>][_<meta>]
change:  [<ip>][:<port>][R[<r_ip>][:<r_port>]][/<device>][_<meta>]
"""

from __future__ import annotations

import re
from typing import Any

from ring.devices import normal_address
from ring.errors import DeviceError

# An IPv4 address, or an IPv6 address in brackets.
_IP = r"[0-9.]+|\[[^\]]*\]"
_ADD = re.compile(
    r"(?:r(?P<region>\d+))?z(?P<zone>\d+)-"
    rf"(?P<ip>{_IP}|[^/R\[]*):(?P<port>\d+)"
    rf"(?:R(?P<replication_ip>{_IP}|[^/\[]*):(?P<replication_port>\d+))?"
    r"/(?P<device>[^_]*)(?:_(?P<meta>.*))?",
    re.DOTALL,
)
_SEARCH = re.compile(
    r"(?:d(?P<id>\d+))?(?:r(?P<region>\d+))?(?:z(?P<zone>\d+))?-?"
    rf"(?P<ip>{_IP})?(?::(?P<port>\d+))?"
    rf"(?:R(?P<replication_ip>{_IP})?(?::(?P<replication_port>\d+))?)?"
    r"(?:/(?P<device>[^_]*))?(?:_(?P<meta>.*))?",
    re.DOTALL,
)
_CHANGE = re.compile(
    rf"(?P<ip>{_IP})?(?::(?P<port>\d+))?"
    rf"(?:R(?P<replication_ip>{_IP})?(?::(?P<replication_port>\d+))?)?"
    r"(?:/(?P<device>[^_]*))?(?:_(?P<meta>.*))?",
    re.DOTALL,
)
_NUMBERS = ("id", "region", "zone", "port", "replication_port")
_ADDRESSES = ("ip", "replication_ip")
_DIGITS_MAX = 10


def parse_add_value(text: str) -> dict[str, Any]:
    """Parse a device to add; ``region`` is absent if it was left out.

    :raises DeviceError: the text does not have this form, or its address is not an IP address.
    """
    match = _ADD.fullmatch(text)
    if match is None:
        raise DeviceError(
            f"{text!r} is not [r<region>]z<zone>-<ip>:<port>[R<r_ip>:<r_port>]/<device>[_<meta>]"
        )
    return _fields(match)


def parse_search_value(text: str) -> dict[str, Any]:
    """Parse a search into the fields that a device must have.

    :raises DeviceError: the text does not have this form or is empty.
    """
    match = _SEARCH.fullmatch(text)
    fields = _fields(match) if match else {}
    if not fields:
        raise DeviceError(
            f"{text!r} is not a search value: d<id>r<region>z<zone>-<ip>:<port>"
            "R<r_ip>:<r_port>/<device>_<meta>, each part optional, at least one"
        )
    return fields


def parse_change_value(text: str) -> dict[str, Any]:
    """Parse the new fields of a device, in the notation of a search without id, region and zone.

    :raises DeviceError: the text does not have this form or changes nothing.
    """
    match = _CHANGE.fullmatch(text)
    fields = _fields(match) if match else {}
    if not fields:
        raise DeviceError(
            f"{text!r} is not a change: <ip>:<port>R<r_ip>:<r_port>/<device>_<meta>, "
            "each part optional, at least one"
        )
    return fields


def _fields(match: re.Match[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, value in match.groupdict().items():
        if value is None:
            continue
        if key in _NUMBERS:
            if len(value) > _DIGITS_MAX:
                raise DeviceError(f"{key} {value} is out of range")
            fields[key] = int(value)
        elif key in _ADDRESSES:
            fields[key] = _ip_address(value)
        else:
            fields[key] = value
    return fields


def _ip_address(text: str) -> str:
    """The address, which must be an IP address in this notation; --ip takes host names."""
    address = normal_address(text)
    if ":" not in address and not address.replace(".", "").isdigit():
        raise DeviceError(f"{text!r} is not an IP address (use --ip for a host name)")
    return address

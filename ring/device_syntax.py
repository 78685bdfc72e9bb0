# SPDX-License-Identifier: Apache-2.0
"""How devices are written and searched for on the command line; swift-ring-builder's spelling.

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
    """The fields of a device to add; ``region`` is absent if it was left out.

    :raises DeviceError: the text is not of this form, or the address in it is no IP address.
    """
    match = _ADD.fullmatch(text)
    if match is None:
        raise DeviceError(
            f"{text!r} is not [r<region>]z<zone>-<ip>:<port>[R<r_ip>:<r_port>]/<device>[_<meta>]"
        )
    return _fields(match)


def parse_search_value(text: str) -> dict[str, Any]:
    """The fields that a device must have to be found.

    :raises DeviceError: the text is not of this form or asks for nothing.
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
    """The fields of a device to change, in the notation of a search without id, region and zone.

    :raises DeviceError: the text is not of this form or changes nothing.
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
    """An address in this notation is an IP address; host names go with --ip."""
    address = normal_address(text)
    if ":" not in address and not address.replace(".", "").isdigit():
        raise DeviceError(f"{text!r} is not an IP address (a host name goes with --ip)")
    return address

# SPDX-License-Identifier: Apache-2.0
"""The addresses of servers that speak OpenStack Swift's protocol alone: they need no proof."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

#: Results that are kept; a cluster has far fewer addresses.
_KNOWN_MAX = 10_000


class PlainHttp:
    """The value of ``grid_plain_http``: IP addresses and networks; ``ip in it`` asks for one."""

    def __init__(self, texts: Iterable[str] = (), option: str = "grid_plain_http") -> None:
        """:raises ValueError: a text is neither an address nor a network; it names the option."""
        self._networks = tuple(_network(text, option) for text in texts)
        self._known: dict[str, bool] = {}

    def __contains__(self, ip: str) -> bool:
        if not self._networks:
            return False
        found = self._known.get(ip)
        if found is None:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            found = self._known[ip] = self._has(ip)
        return found

    def _has(self, ip: str) -> bool:
        address = _address(ip)
        return address is not None and any(address in network for network in self._networks)


def _network(text: str, option: str) -> _Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None


def _address(ip: str) -> _Address | None:
    """The address; None for the name of a host. A socket of IPv6 shows IPv4 as ``::ffff:…``."""
    try:
        address = ipaddress.ip_address(ip.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address

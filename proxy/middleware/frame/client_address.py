# SPDX-License-Identifier: Apache-2.0
"""The address and the scheme of a client behind a TLS terminator or a load balancer.

Every client can send X-Forwarded-For and X-Forwarded-Proto. So they count only on connections from
addresses that the conf names.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from functools import lru_cache

from martlet.http.environ import Environ

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def networks_of(texts: Iterable[str]) -> tuple[Network, ...]:
    """The networks that addresses and networks name.

    :raises ValueError: a text is neither.
    """
    return tuple(ipaddress.ip_network(text) for text in texts)


def see_client(environ: Environ, trusted: Sequence[Network]) -> None:
    """Replace the address of a trusted proxy by that of its client, and the scheme likewise.

    The client is the last address that no trusted proxy has. What cannot be read changes nothing.
    """
    address = _address_of(environ.get("REMOTE_ADDR", ""))
    if address is None or not _is_in(address, trusted):
        return
    scheme = environ.get("HTTP_X_FORWARDED_PROTO", "").strip().lower()
    if scheme in ("http", "https"):
        environ["wsgi.url_scheme"] = scheme
    for text in reversed(environ.get("HTTP_X_FORWARDED_FOR", "").split(",")):
        address = _address_of(text.strip())
        if address is None:
            return
        environ["REMOTE_ADDR"] = str(address)
        if not _is_in(address, trusted):
            return


@lru_cache(1024)  # bounded: clients choose some of the texts
def _address_of(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _is_in(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)

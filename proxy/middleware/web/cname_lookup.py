# SPDX-License-Identifier: Apache-2.0
"""Customers' own domains: hosts that are DNS aliases (CNAME) of hosts of the cluster.

The filter replaces the Host header by the target of the alias, so that domain_remap finds account
and container in it. DNS answers are cached for their time to live. Place the filter right of cache
and left of domain_remap.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import dns.exception
import dns.resolver

from martlet.conf.options import option
from martlet.filters.filter_options import load_filter_options
from martlet.http.environ import Environ, HeaderList, StartResponse, WSGIApp
from martlet.http.response import error_response
from martlet.log import get_logger
from proxy.cache.interface import Cache
from proxy.info_registry import register_info
from proxy.middleware.web.storage_domains import dotted, host_of

log = get_logger("proxy.cname_lookup")

_DNS_PORT = 53
_LIFETIME_SECONDS = 5.0
#: How long the cache keeps the answer that a host is not an alias.
_NO_ALIAS_SECONDS = 60.0

#: Host name -> the name that it is an alias of or None, and the time to live in seconds.
LookUp = Callable[[str], tuple[str | None, float]]


@dataclass(frozen=True)
class CnameLookupOptions:
    """``[filter:cname_lookup]``."""

    storage_domain: list[str] = option(["example.com"], "Domains of the cluster")
    lookup_depth: int = option(1, "Longest chain of aliases to follow")
    nameservers: list[str] = option(
        [], "DNS servers to ask, with or without port ([::1]:5353); empty: the system's"
    )

    def __post_init__(self) -> None:
        if self.lookup_depth < 1:
            raise ValueError("lookup_depth must be at least 1")
        for server in self.nameservers:
            parse_nameserver(server)


def parse_nameserver(text: str) -> tuple[str, int]:
    """Return address and port.

    :raises ValueError: it is not an address.
    """
    try:
        address = urlsplit(f"//{text}")
        return str(ipaddress.ip_address(address.hostname or "")), address.port or _DNS_PORT
    except ValueError:
        raise ValueError(f"nameservers: {text!r} is not an address of a DNS server") from None


def dns_lookup(nameservers: Iterable[str]) -> LookUp:
    """Return a function that queries DNS."""
    servers = [parse_nameserver(server) for server in nameservers]
    resolver = dns.resolver.Resolver(configure=not servers)
    resolver.lifetime = _LIFETIME_SECONDS
    if servers:
        resolver.nameservers = [address for address, _ in servers]
        resolver.nameserver_ports = dict(servers)

    def look_up(name: str) -> tuple[str | None, float]:
        try:
            answer = resolver.resolve(name, "CNAME")
        except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
            return None, _NO_ALIAS_SECONDS
        except dns.exception.DNSException as error:
            log.warning("event=dns_failed name=%s error=%r", ascii(name), str(error))
            return None, 0.0
        ttl = answer.rrset.ttl if answer.rrset is not None else 0
        return str(answer[0].target).rstrip(".").lower(), float(ttl)

    return look_up


class CnameLookup:
    """The filter."""

    def __init__(self, app: WSGIApp, options: CnameLookupOptions, look_up: LookUp) -> None:
        self._app = app
        self._domains = dotted(options.storage_domain)
        self._depth = options.lookup_depth
        self._look_up = look_up

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Return 400 for a host that is neither the cluster's nor an alias; pass addresses on."""
        host, port = host_of(environ)
        if self._is_ours(host) or _is_address(environ.get("HTTP_HOST", ""), host):
            return self._app(environ, start_response)
        cache: Cache | None = environ.get("swift.cache")
        name: str | None = host.lower()
        for _ in range(self._depth):
            name = self._alias_of(cache, name or "")
            if not name:
                text = "CNAME lookup failed to resolve to a valid domain"
                return error_response(400, text)(environ, start_response)
            if self._is_ours(name):
                mapped = _MappedBack(start_response, name + port, environ["HTTP_HOST"])
                environ["HTTP_HOST"] = name + port
                return self._app(environ, mapped)
        text = f"CNAME lookup failed after {self._depth} tries"
        return error_response(400, text)(environ, start_response)

    def _is_ours(self, host: str) -> bool:
        return f".{host.lower()}".endswith(tuple(self._domains))

    def _alias_of(self, cache: Cache | None, name: str) -> str | None:
        key = f"cname-{name}"
        known = cache.get(key) if cache is not None else None
        if known is not None:
            cached: str | None = known["cname"]
            return cached
        found, seconds = self._look_up(name)
        if found == name:
            found = None
        if cache is not None and seconds > 0:
            cache.set(key, {"cname": found}, time=seconds)
        return found


def _is_address(header: str, host: str) -> bool:
    try:
        ipaddress.ip_address(urlsplit(f"//{header}").hostname or host)
    except ValueError:
        return False
    return True


class _MappedBack:
    """A start_response that puts the client's own host into a Location."""

    def __init__(self, start_response: StartResponse, ours: str, theirs: str) -> None:
        self._start_response = start_response
        self._ours = ours
        self._theirs = theirs

    def __call__(self, status: str, headers: HeaderList, exc_info: Any = None) -> Any:
        mapped = [(n, self._mapped(v) if n.lower() == "location" else v) for n, v in headers]
        return self._start_response(status, mapped, exc_info)

    def _mapped(self, location: str) -> str:
        for scheme in ("http", "https"):
            origin = f"{scheme}://{self._ours}"
            if f"{location}/".startswith(f"{origin}/"):
                return f"{scheme}://{self._theirs}{location.removeprefix(origin)}"
        return location


def filter_factory(
    global_conf: dict[str, str], **local_conf: str
) -> Callable[[WSGIApp], CnameLookup]:
    """PasteDeploy's entry point."""
    options = load_filter_options(CnameLookupOptions, "cname_lookup", global_conf, local_conf)
    register_info("cname_lookup", lookup_depth=options.lookup_depth)
    look_up = dns_lookup(options.nameservers)
    return lambda app: CnameLookup(app, options, look_up)

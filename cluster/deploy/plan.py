# SPDX-License-Identifier: Apache-2.0
"""The plan of a new cluster: hosts, devices and secrets."""

from __future__ import annotations

import ipaddress
import re
import secrets
from dataclasses import dataclass, field

from cluster.errors import ClusterError

REPLICAS = 3
PORTS = {"account": 6202, "container": 6201, "object": 6200}
PROXY_PORT = 8080
CACHE_PORT = 11211

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*", re.ASCII).fullmatch
_DEVICE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*", re.ASCII).fullmatch
_USER = re.compile(r"([A-Za-z0-9.-]+):([A-Za-z0-9.-]+)", re.ASCII).fullmatch


def _secret() -> str:
    return secrets.token_hex(32)


@dataclass(frozen=True)
class Host:
    """A host, which is a zone of its own."""

    name: str
    ip: str
    zone: int


@dataclass(frozen=True)
class Plan:
    """Everything that decides the files; the secrets are new for each plan."""

    hosts: tuple[Host, ...]
    devices: tuple[str, ...]
    account: str
    user: str
    part_power: int
    readers: tuple[str, ...] = ()  # addresses that may read the metrics of the proxies
    hash_suffix: str = field(default_factory=_secret)
    grid_secret: str = field(default_factory=_secret)
    token_secret: str = field(default_factory=_secret)
    user_key: str = field(default_factory=_secret)

    @property
    def replicas(self) -> int:
        """As many as there are devices, and three at most."""
        return min(REPLICAS, len(self.hosts) * len(self.devices))


def make_plan(
    hosts: list[str], devices: list[str], user: str, part_power: int, readers: list[str]
) -> Plan:
    """Check the words of the command line.

    :raises ClusterError: one of them cannot be used.
    """
    planned = tuple(_host(text, zone) for zone, text in enumerate(hosts, 1))
    for what, values in (("name", [h.name for h in planned]), ("address", [h.ip for h in planned])):
        if len(set(values)) < len(values):
            raise ClusterError(f"two hosts have the same {what}")
    if not devices or len(set(devices)) < len(devices) or not all(map(_DEVICE, devices)):
        raise ClusterError("--device needs a name such as d1, another one for each device")
    named = _USER(user)
    if named is None:
        raise ClusterError(f"--user needs ACCOUNT:USER, not {user!r}")
    if not 1 <= part_power <= 24:
        raise ClusterError("--part-power needs a number from 1 to 24")
    for reader in readers:
        _address(reader)
    return Plan(planned, tuple(devices), named[1], named[2], part_power, tuple(readers))


def _host(text: str, zone: int) -> Host:
    name, _, ip = text.partition("=")
    if not _NAME(name) or not ip:
        raise ClusterError(f"--host needs NAME=ADDRESS, not {text!r}")
    return Host(name, _address(ip), zone)


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError as error:
        raise ClusterError(str(error)) from None

# SPDX-License-Identifier: Apache-2.0
"""The rings, and the devices of this host in them."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

from cluster.check.finding import Finding, error, warning
from cluster.check.services import Service
from martlet.conf.cluster import ClusterConf, HashOptions
from martlet.conf.options import ConfigError
from martlet.http.backend_client import Address
from martlet.service.addresses import is_local
from ring.device_marker import MARKER_NAME, cluster_of, read_marker
from ring.devices import Device
from ring.errors import RingError
from ring.file_format import read_ring


def ring_names(conf: ClusterConf, kind: str) -> list[str]:
    """The rings that a server reads; an object server sends updates to container servers."""
    objects = ["object" if p.index == 0 else f"object-{p.index}" for p in conf.policies]
    if kind == "proxy":
        return ["account", "container", *objects]
    if kind == "object":
        return ["container", *objects]
    return [kind] if kind == "account" else ["account", "container"]


class RingCheck:
    """The rings of a directory, each read once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: dict[str, list[Device]] = {}
        self.findings: list[Finding] = []

    def devices(self, name: str) -> list[Device]:
        """The devices of a ring; none if it cannot be used, which is then among the findings."""
        if name not in self._known:
            path = self._directory / f"{name}.ring.gz"
            self._known[name] = []
            if not path.exists():
                self._note(path, "is missing: copy it from the host with the builders")
                return []
            try:
                found = read_ring(path)
                self._known[name] = [device for device in found.devs if device is not None]
            except (RingError, OSError, ValueError) as problem:
                self._note(path, str(problem).removeprefix(f"{path}: "))
        return self._known[name]

    def others(self) -> set[Address]:
        """The servers of other hosts, in the rings that were read."""
        places = {(one["ip"], one["port"]) for found in self._known.values() for one in found}
        return {place for place in places if not is_local(place[0])}

    def _note(self, path: Path, sentence: str) -> None:
        self.findings.append(error(path, sentence))


def check_devices(service: Service, rings: RingCheck, user: str | None) -> Iterator[Finding]:
    """Each device that the ring gives to this server can be used by it.

    :param user: that of the services; None: the caller.
    """
    try:
        conf = ClusterConf.load(service.swift_dir)
    except (ConfigError, ValueError, OSError):
        return  # the service has said so
    found = {name: rings.devices(name) for name in ring_names(conf, service.kind)}
    wanted: set[str] = set()
    for name, devices in found.items():
        if devices and name.startswith(service.kind):
            yield from _check_address(service, name, devices)
            wanted |= {one["device"] for one in devices if _is_of(one, service)}
    for name in sorted(wanted):
        yield from _check_device(service, service.devices / name, conf.hash, user)


def _is_of(device: Device, service: Service) -> bool:
    return device["port"] == service.port and is_local(device["ip"])


def _check_address(service: Service, ring: str, devices: list[Device]) -> Iterator[Finding]:
    here = [one for one in devices if is_local(one["ip"])]
    if not here:
        yield warning(service.conf, f"the {ring} ring has no device with an address of this host")
        return
    if not any(_is_of(one, service) for one in here):
        ports = ", ".join(sorted({str(one["port"]) for one in here}))
        yield error(
            service.conf,
            f"the {ring} ring has this host with port {ports}, bind_port is {service.port}",
        )
        return
    addresses = {one["ip"] for one in here if _is_of(one, service)}
    if service.ip not in ("0.0.0.0", "::") and service.ip not in addresses:  # noqa: S104
        shown = ", ".join(sorted(addresses))
        yield error(
            service.conf,
            f"the {ring} ring has this host as {shown}, but bind_ip is {service.ip}",
        )


def _check_device(
    service: Service, path: Path, salts: HashOptions, user: str | None
) -> Iterator[Finding]:
    if not path.is_dir():
        yield error(path, "is in the ring and is not there")
        return
    if service.mount_check and not os.path.ismount(path):
        yield error(path, "is not mounted (mount_check)")
        return
    owner = path.stat()
    expected = _id_of(user)
    if owner.st_uid != expected:
        name = user or "the caller"
        yield error(path, f"belongs to user {owner.st_uid}; chown it to {name} ({expected})")
    elif not os.access(path, os.W_OK | os.X_OK):
        yield error(path, "cannot be written: it may be mounted read-only")
    yield from _check_marker(path, salts)


def _check_marker(path: Path, salts: HashOptions) -> Iterator[Finding]:
    """Compare the marker; unlike a service, write none to a new device."""
    try:
        found = read_marker(str(path / MARKER_NAME))
    except OSError as problem:
        yield error(path, f"its marker cannot be read: {problem.strerror}")
        return
    if found is not None and found != (cluster_of(salts), path.name):
        yield error(
            path,
            f"is device {found.device} of cluster {found.cluster}: mount the right one, or run "
            "`martlet device adopt`",
        )


def _id_of(user: str | None) -> int:
    return os.geteuid() if user is None else pwd.getpwnam(user).pw_uid

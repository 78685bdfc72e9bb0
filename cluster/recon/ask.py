# SPDX-License-Identifier: Apache-2.0
"""The storage servers of the rings, and clients that ask them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cluster.errors import ClusterError
from cluster.swift_dir import ClusterFiles
from martlet.conf.options import ConfigError
from martlet.http.backend_client import BackendClient
from martlet.recon.ask import Server


@dataclass(frozen=True)
class Which:
    """The choice of servers."""

    kinds: Sequence[str]
    policy: int | None = None  # None: all policies
    region: int | None = None
    zone: int | None = None


def servers_of(files: ClusterFiles, which: Which) -> list[Server]:
    """The servers of the rings, each once, in order."""
    found: dict[tuple[str, str, int], set[str]] = {}
    for kind in which.kinds:
        policies: Iterable[int] = (0,)
        if kind == "object":
            policies = files.rings.objects if which.policy is None else (which.policy,)
        for policy in policies:
            for device in files.ring(kind, policy).devs:
                if (
                    device is not None
                    and which.region in (None, device["region"])
                    and which.zone in (None, device["zone"])
                ):
                    place = (kind, device["ip"], device["port"])
                    found.setdefault(place, set()).add(device["device"])
    return sorted(Server(*place, tuple(sorted(names))) for place, names in found.items())


def clients_of(files: ClusterFiles, timeout: float) -> Callable[[], BackendClient]:
    """Makes clients of the storage servers that need no proof of the secret.

    :raises ClusterError: the certificates of the authorities cannot be used.
    """
    try:
        secure = files.conf.grid.secure()
    except ConfigError as error:
        raise ClusterError(str(error)) from None
    return lambda: BackendClient(timeout, timeout, secure=secure)

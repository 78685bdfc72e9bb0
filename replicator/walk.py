# SPDX-License-Identifier: Apache-2.0
"""The devices of this host, and the databases on them."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from martlet.service.addresses import is_local
from martlet.service.disk_calls import on_disk
from ring.devices import Device
from ring.ring import Ring
from storage.database_files import entries, remove_empty_directories

_is_hash = re.compile(r"[0-9a-f]{32}", re.ASCII).fullmatch


class Held(NamedTuple):
    """A database on a device of this host; ``name`` is its hash."""

    path: str
    partition: int
    name: str
    device: Device


def local_devices(ring: Ring, port: int) -> list[Device]:
    """The devices of the ring that the server with this port on this host serves."""
    local: dict[str, bool] = {}

    def is_here(address: str) -> bool:
        if address not in local:
            local[address] = is_local(address)
        return local[address]

    return [
        device
        for device in ring.devs
        if device is not None
        and (
            (device["replication_port"] == port and is_here(device["replication_ip"]))
            or (device["port"] == port and is_here(device["ip"]))
        )
    ]


def databases_on(
    device_path: str, device: Device, kind: str, partitions: Collection[int] | None
) -> Iterator[Held]:
    """The databases of a device; ``kind`` is ``accounts`` or ``containers``.

    Empty directories, which moves, removals and crashes leave, are removed on the way.

    :param partitions: only these; None: all.
    :raises DiskStuck: the device does not answer.
    """
    top = f"{device_path}/{kind}"
    for partition in on_disk(device_path, entries, top):
        if not (partition.isascii() and partition.isdigit()):
            continue
        if partitions is not None and int(partition) not in partitions:
            continue
        for name in on_disk(device_path, _names_in, f"{top}/{partition}"):
            path = f"{top}/{partition}/{name[-3:]}/{name}/{name}.db"
            yield Held(path, int(partition), name, device)


def _names_in(partition: str) -> list[str]:
    """The hashes with a database."""
    found = []
    for suffix in entries(partition):
        names = entries(f"{partition}/{suffix}")
        for name in names:
            if not (_is_hash(name) and name[-3:] == suffix):
                continue
            if os.path.exists(f"{partition}/{suffix}/{name}/{name}.db"):
                found.append(name)
            else:
                remove_empty_directories(f"{partition}/{suffix}/{name}", 3)
        if not names:
            remove_empty_directories(f"{partition}/{suffix}", 2)
    if not found:
        remove_empty_directories(partition, 1)
    return found

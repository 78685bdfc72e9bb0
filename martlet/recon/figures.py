# SPDX-License-Identifier: Apache-2.0
"""Figures about this host and its devices, in the formats of OpenStack Swift's recon."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from martlet.service.disk_calls import DiskStuck, on_disk

T = TypeVar("T")

_PROC = Path("/proc")
_RING_NAME = re.compile(r"(account|container|object(-[0-9]+)?)\.ring\.gz").fullmatch
_POLICY_FOLDER = re.compile(r"objects(?:-([0-9]+))?").fullmatch
_HASHED_AT_A_TIME = 1 << 20


def memory() -> dict[str, str]:
    """The fields of /proc/meminfo."""
    lines = (_PROC / "meminfo").read_text().splitlines()
    pairs = (line.partition(":") for line in lines)
    return {name: value.strip() for name, _, value in pairs}


def load() -> dict[str, Any]:
    """Load averages, running and existing tasks, and the newest process id."""
    one, five, fifteen, tasks, newest = (_PROC / "loadavg").read_text().split()
    return {
        "1m": float(one),
        "5m": float(five),
        "15m": float(fifteen),
        "tasks": tasks,
        "processes": int(newest),
    }


def sockets() -> dict[str, int]:
    """TCP sockets of the host."""
    figures = {}
    words = _words_of("sockstat", "TCP:")
    for name, shown in (("inuse", "tcp_in_use"), ("orphan", "orphan"), ("tw", "time_wait")):
        figures[shown] = words.get(name, 0)
    figures["tcp_mem_allocated_bytes"] = words.get("mem", 0) * os.sysconf("SC_PAGE_SIZE")
    figures["tcp6_in_use"] = _words_of("sockstat6", "TCP6:").get("inuse", 0)
    return figures


def _words_of(name: str, label: str) -> dict[str, int]:
    try:
        lines = (_PROC / "net" / name).read_text().splitlines()
    except OSError:  # a host without IPv6
        return {}
    for line in lines:
        words = line.split()
        if words[:1] == [label]:
            return {k: int(v) for k, v in zip(words[1::2], words[2::2], strict=True)}
    return {}


def mounts() -> list[dict[str, str]]:
    """The mounted devices and their mount points."""
    lines = (_PROC / "mounts").read_text().splitlines()
    return [{"device": line.split()[0], "path": line.split()[1]} for line in lines]


class Devices:
    """The devices below a folder; with ``mount_check`` a device must be a mount point."""

    def __init__(self, folder: str, mount_check: bool) -> None:
        self.folder = folder
        self._mount_check = mount_check

    def names(self) -> list[str]:
        """The sorted names without hidden files; empty if the folder cannot be read."""
        return sorted(name for name in _entries(self.folder) if not name.startswith("."))

    def unmounted(self) -> list[dict[str, Any]]:
        """The devices that cannot be used."""
        return [
            {"device": name, "mounted": False}
            for name in self.names()
            if not self._of_device(name, self._is_there)
        ]

    def usage(self) -> list[dict[str, Any]]:
        """The size and use of each device, bytes; empty strings for an unusable device."""
        return [self._usage(name) for name in self.names()]

    def space(self, name: str) -> os.statvfs_result | None:
        """The space of a device; None if it cannot be used."""
        return self._of_device(
            name, lambda path: os.statvfs(path) if self._is_there(path) else None
        )

    def _usage(self, name: str) -> dict[str, Any]:
        state = self.space(name)
        if state is None:
            return {"device": name, "mounted": False, "size": "", "used": "", "avail": ""}
        size = state.f_blocks * state.f_frsize
        return {
            "device": name,
            "mounted": True,
            "size": size,
            "used": size - state.f_bfree * state.f_frsize,
            "avail": state.f_bavail * state.f_frsize,
        }

    def _is_there(self, path: str) -> bool:
        return os.path.ismount(path) if self._mount_check else os.path.isdir(path)

    def _of_device(self, name: str, look: Callable[[str], T]) -> T | None:
        """The figures of a device; None if it does not answer."""
        path = os.path.join(self.folder, name)
        try:
            return on_disk(path, look, path)
        except DiskStuck:
            return None

    def quarantined(self) -> dict[str, Any]:
        """The numbers of quarantined databases, and of quarantined objects by storage policy."""
        counts: dict[str, Any] = {"objects": 0, "containers": 0, "accounts": 0, "policies": {}}
        for name in self.names():
            for kind, count in (self._of_device(name, _quarantined) or {}).items():
                if kind in ("accounts", "containers"):
                    counts[kind] += count
                elif match := _POLICY_FOLDER(kind):
                    counts["objects"] += count
                    of_policy = counts["policies"].setdefault(match[1] or "0", {"objects": 0})
                    of_policy["objects"] += count
        return counts


def _quarantined(device: str) -> dict[str, int]:
    aside = os.path.join(device, "quarantined")
    return {kind: len(_entries(os.path.join(aside, kind))) for kind in _entries(aside)}


def _entries(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def ring_files(folder: str) -> list[str]:
    """The paths of the ring files, sorted."""
    return [os.path.join(folder, name) for name in sorted(_entries(folder)) if _RING_NAME(name)]


def ring_digests(folder: str) -> dict[str, str]:
    """The MD5 of every ring file, by path."""
    return {path: file_digest(path) for path in ring_files(folder)}


def file_digest(path: str) -> str:
    """The MD5 of a file in hex.

    :raises OSError: it cannot be read.
    """
    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as stream:
        while chunk := stream.read(_HASHED_AT_A_TIME):
            digest.update(chunk)
    return digest.hexdigest()

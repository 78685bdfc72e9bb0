# SPDX-License-Identifier: Apache-2.0
"""Whether a device can be used: it is there, it has room, it answers."""

from __future__ import annotations

import os
import re
import time
from typing import NamedTuple

from martlet.disk_calls import DiskStuck, ProcessStuck, on_disk
from martlet.http import http_error
from replicator.database_files import device_path_of, entries
from replicator.errors import DeviceMissing

#: How long what was seen of a device is taken as true, seconds. A look costs a switch of threads.
SEEN_SECONDS = 1.0

_DEVICE_NAME = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9._~-]*", re.ASCII).fullmatch


class _Seen(NamedTuple):
    at: float  # monotonic
    is_there: bool
    has_room: bool


class DeviceCheck:
    """Looks at the devices below a directory."""

    def __init__(self, devices: str, mount_check: bool, fallocate_reserve: str) -> None:
        self._devices = devices
        self._mount_check = mount_check
        self._reserve, self._reserve_is_percent = parse_reserve(fallocate_reserve)
        self._seen: dict[str, _Seen] = {}

    def usable_path(self, device: str, for_writing: bool) -> str:
        """The directory of a device, which was usable a moment ago.

        :raises HTTPException: 507 if it is missing, not mounted, too full to write to, or does not
            answer; 503 if this process cannot reach it.
        """
        if _DEVICE_NAME(device) is None:
            raise http_error(507, "")
        path = f"{self._devices}/{device}"
        seen = self._seen.get(device)
        if seen is None or time.monotonic() - seen.at > SEEN_SECONDS:
            seen = self._look_again(device, path)
        if seen is None or not seen.is_there:
            raise http_error(507, f"{device} is not mounted" if self._mount_check else "")
        if for_writing and not seen.has_room:
            raise http_error(507, f"{device} is full")
        return path

    def assert_there(self, database_path: str) -> None:
        """Look now; for native threads.

        :raises DeviceMissing: a database that is not there may be on the device that is not there.
        """
        path = device_path_of(database_path)
        if not self._is_there(path):
            raise DeviceMissing(database_path, f"{os.path.basename(path)} is not there")

    def _look_again(self, device: str, path: str) -> _Seen | None:
        # A name that is no device's gets no threads. To list what is there touches no device.
        if device not in entries(self._devices):
            self._seen.pop(device, None)
            return None
        try:
            seen = self._seen[device] = on_disk(path, self._look, path)
        except ProcessStuck:
            raise http_error(503, "") from None
        except DiskStuck:
            raise http_error(507, f"{device} does not answer") from None
        return seen

    def _look(self, path: str) -> _Seen:
        is_there = self._is_there(path)
        has_room = is_there and (not self._reserve or self._has_room(path))
        return _Seen(time.monotonic(), is_there, has_room)

    def _is_there(self, path: str) -> bool:
        return os.path.ismount(path) if self._mount_check else os.path.isdir(path)

    def _has_room(self, path: str) -> bool:
        found = os.statvfs(path)
        free = found.f_frsize * found.f_bavail
        if self._reserve_is_percent:
            return free * 100 > found.f_frsize * found.f_blocks * self._reserve
        return free > self._reserve


def parse_reserve(text: str) -> tuple[float, bool]:
    """The space to keep free, and whether it is a percentage of the device.

    :raises ValueError: neither bytes nor a percentage from 0 to 100.
    """
    try:
        amount = float(text.removesuffix("%"))
    except ValueError:
        amount = -1.0
    is_percent = text.endswith("%")
    if amount < 0 or (is_percent and amount > 100):
        raise ValueError(f"fallocate_reserve = {text!r} is neither bytes nor a percentage")
    return amount, is_percent

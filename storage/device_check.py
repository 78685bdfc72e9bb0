# SPDX-License-Identifier: Apache-2.0
"""The check of a device: it is present and the right one, has space, and answers."""

from __future__ import annotations

import os
import re
import time
from typing import NamedTuple

from martlet.http.response import http_error
from martlet.log import fields, get_logger
from martlet.service.disk_calls import DiskStuck, ProcessStuck, on_disk
from ring.device_marker import MARKER_NAME, DeviceMarkers
from storage.database_files import device_path_of, entries
from storage.errors import DeviceMissing

#: How long the result of a check is cached, seconds. A check costs a switch of threads.
SEEN_SECONDS = 1.0

log = get_logger("martlet.device_check")

_DEVICE_NAME = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9._~-]*", re.ASCII).fullmatch


_FileIdentity = tuple[int, int, int, int]


class _Seen(NamedTuple):
    at: float  # monotonic
    problem: str  # empty: it can be used
    has_room: bool


class DeviceCheck:
    """The checks of the devices below a directory."""

    def __init__(
        self, devices: str, mount_check: bool, fallocate_reserve: str, markers: DeviceMarkers
    ) -> None:
        self._devices = devices
        self._markers = markers
        self._mount_check = mount_check
        self._reserve, self._reserve_is_percent = parse_reserve(fallocate_reserve)
        self._seen: dict[str, _Seen] = {}
        self._refused: dict[str, str] = {}  # device -> the reason that was logged
        # Path -> the marker of a device that was checked and is the right one. Native threads use
        # it, too.
        self._right: dict[str, _FileIdentity] = {}

    def usable_path(self, device: str, for_writing: bool) -> str:
        """The directory of a device that was usable at the last check.

        :raises HTTPException: 400 if no device can have that name; 507 if it is missing, not
            mounted, too full to write to, or does not answer; 503 if this process cannot reach it.
        """
        if _DEVICE_NAME(device) is None:
            raise http_error(400, "No device can have that name")
        path = f"{self._devices}/{device}"
        seen = self._seen.get(device)
        if seen is None or time.monotonic() - seen.at > SEEN_SECONDS:
            seen = self._look_again(device, path)
        if seen is None or seen.problem:
            raise http_error(507, f"{device} is not mounted" if self._mount_check else "")
        if for_writing and not seen.has_room:
            raise http_error(507, f"{device} is full")
        return path

    def assert_there(self, database_path: str) -> None:
        """Check the device of a database now; for native threads.

        :raises DeviceMissing: the device is missing, so the database may exist on it.
        """
        path = device_path_of(database_path)
        if problem := self._problem(path):
            raise DeviceMissing(database_path, f"{os.path.basename(path)} {problem}")

    def _look_again(self, device: str, path: str) -> _Seen | None:
        # Only a device gets threads. Listing the names of devices does not access the devices.
        if device not in entries(self._devices):
            if self._seen.pop(device, None) is not None:
                self._log_change(device, "is not there")
            return None
        try:
            seen = self._seen[device] = on_disk(path, self._look, path)
        except ProcessStuck:
            raise http_error(503, "") from None
        except DiskStuck:
            raise http_error(507, f"{device} does not answer") from None
        self._log_change(device, seen.problem)
        return seen

    def _log_change(self, device: str, problem: str) -> None:
        """Log why a device cannot be used, when the reason appears, changes or disappears."""
        if self._refused.get(device, "") == problem:
            return
        self._refused[device] = problem
        if problem:
            log.error("device cannot be used %s", fields(device=device, reason=problem))
        else:
            log.warning("device can be used again device=%s", device)

    def _look(self, path: str) -> _Seen:
        problem = self._problem(path)
        has_room = not problem and (not self._reserve or self._has_room(path))
        return _Seen(time.monotonic(), problem, has_room)

    def _problem(self, path: str) -> str:
        """The reason why a device cannot be used, or an empty string; for native threads."""
        is_there = os.path.ismount(path) if self._mount_check else os.path.isdir(path)
        if not is_there:
            return "is not mounted" if self._mount_check else "is not there"
        try:
            found = _identify(f"{path}/{MARKER_NAME}")
            if found is not None and self._right.get(path) == found:
                return ""
            problem = self._markers.problem(path) or _refusal_of_access(path)
        except OSError as error:
            return str(error)
        if not problem and found is not None:
            self._right[path] = found
        return problem

    def _has_room(self, path: str) -> bool:
        found = os.statvfs(path)
        free = found.f_frsize * found.f_bavail
        if self._reserve_is_percent:
            return free * 100 > found.f_frsize * found.f_blocks * self._reserve
        return free > self._reserve


def _identify(path: str) -> _FileIdentity | None:
    """The identity of a file, or None if it is missing.

    Times are part of it: a replaced disk may have the same device number and inode.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns


def _refusal_of_access(path: str) -> str:
    """The reason why this process may not write to a directory of the device, or an empty string.

    The directories may belong to another user, under which a service ran before.
    """
    for part in (path, *(f"{path}/{name}" for name in ("accounts", "containers", "tmp"))):
        if os.path.isdir(part) and not os.access(
            part, os.R_OK | os.W_OK | os.X_OK, effective_ids=True
        ):
            return f"{part}: user {os.geteuid()} may not write to it"
    return ""


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

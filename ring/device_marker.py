# SPDX-License-Identifier: Apache-2.0
"""The marker of a device: the file ``martlet-device`` in its root directory.

doc/formats/device-marker.md specifies the two files and their use. The object server has the same
rules in Go.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from martlet.conf.cluster import HashOptions
from ring.files import replace_file

MARKER_NAME = "martlet-device"
#: The folder, beside the devices, with a copy of each used device's marker.
KNOWN_FOLDER = ".martlet-devices"


class Marker(NamedTuple):
    """The content of both files."""

    cluster: str
    device: str

    def encode(self) -> bytes:
        """The text of the file."""
        return json.dumps(self._asdict(), separators=(",", ":")).encode() + b"\n"


class DeviceMarkers:
    """The check that directories are the devices of their names. Any thread may use it."""

    def __init__(self, salts: HashOptions, mount_check: bool) -> None:
        self._cluster = cluster_of(salts)
        self._mount_check = mount_check

    def problem(self, path: str) -> str | None:
        """Return why the device at ``path`` must not be used, or None; mark a new device.

        A crash leaves no marker or a whole one.
        """
        try:
            return self._problem(path)
        except OSError as error:
            return f"{error.filename or path}: {error.strerror}"

    def _problem(self, path: str) -> str | None:
        own, known_path = self._own(path)
        marker_path = os.path.join(path, MARKER_NAME)
        # Other services check in parallel. They write the marker first, so this reads the copy
        # first: if the copy exists, the marker has been written, too.
        is_known = not self._mount_check and _read_copy(known_path) == own
        found = read_marker(marker_path)
        if found is not None and found != own:
            return (
                f"it is device {found.device} of cluster {found.cluster}, not {own.device} of "
                f"{own.cluster}: mount the right one, or run `martlet device adopt {path}`"
            )
        if found is None:
            if is_known and not os.path.lexists(marker_path):
                return (
                    f"it was in use and has no {MARKER_NAME}: mount the device, or run "
                    f"`martlet device adopt {path}` if it is a new one"
                )
            try:
                _write(marker_path, own)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                return None  # reads and deletions work; a copy alone would refuse it later
        if not self._mount_check and not is_known:
            try:
                _write(known_path, own)
            except OSError:
                pass  # the object server, on the same devices, logs a warning
        return None

    def adopt(self, path: str) -> None:
        """Make a directory the device of its name, whatever device it was.

        Files that root writes get the owner of the directory, which is the user of the services.

        :raises OSError: the marker or its copy cannot be written.
        """
        own, known_path = self._own(path)
        owner = os.stat(path)
        for written in (os.path.join(path, MARKER_NAME), known_path):
            _write(written, own)
            if os.geteuid() == 0:
                for given in (written, os.path.dirname(written)):
                    os.chown(given, owner.st_uid, owner.st_gid)

    def _own(self, path: str) -> tuple[Marker, str]:
        folder, name = os.path.split(path)
        return Marker(self._cluster, name), os.path.join(folder, KNOWN_FOLDER, name)


def cluster_of(salts: HashOptions) -> str:
    """The name of a cluster: the same on all its hosts, without revealing the salts."""
    words = ("martlet cluster", salts.swift_hash_path_prefix, salts.swift_hash_path_suffix)
    return hashlib.sha256("\0".join(words).encode("latin-1")).hexdigest()[:32]


def read_marker(path: str) -> Marker | None:
    """Read the marker in a file; None if it is missing or invalid.

    :raises OSError: it cannot be read.
    """
    try:
        with open(path, "rb") as stream:
            found: Any = json.loads(stream.read(4096))
    except (FileNotFoundError, ValueError):
        return None
    cluster, device = (
        (found.get("cluster"), found.get("device")) if isinstance(found, dict) else (None, None)
    )
    if not (isinstance(cluster, str) and isinstance(device, str) and cluster and device):
        return None
    return Marker(cluster, device)


def _read_copy(path: str) -> Marker | None:
    try:
        return read_marker(path)
    except OSError:
        return None  # without a copy only an empty mount point is not detected


def _write(path: str, content: Marker) -> None:
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        with contextlib.suppress(FileExistsError):  # another service was faster
            os.mkdir(folder, 0o700)
    replace_file(Path(path), content.encode(), mode=0o600)

# SPDX-License-Identifier: Apache-2.0
"""Which device a directory is: the file ``martlet-device`` in its root.

doc/formats/device-marker.md rules the two files and what is done with them; the object server does
the same in Go.
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
#: Beside the devices: a copy of the marker of each that was in use.
KNOWN_FOLDER = ".martlet-devices"


class Marker(NamedTuple):
    """The text of both files."""

    cluster: str
    device: str

    def encode(self) -> bytes:
        """The text of the file."""
        return json.dumps(self._asdict(), separators=(",", ":")).encode() + b"\n"


class DeviceMarkers:
    """Checks that directories are the devices that their names say. May be used by any thread."""

    def __init__(self, salts: HashOptions, mount_check: bool) -> None:
        self._cluster = cluster_of(salts)
        self._mount_check = mount_check

    def problem(self, path: str) -> str | None:
        """Why the device at ``path`` must not be used; None if it may be. Marks a new one.

        A crash leaves no marker or a whole one.
        """
        try:
            return self._problem(path)
        except OSError as error:
            return f"{error.filename or path}: {error.strerror}"

    def _problem(self, path: str) -> str | None:
        own, known_path = self._own(path)
        marker_path = os.path.join(path, MARKER_NAME)
        # Other services check at the same time. They write the marker first: read in the other
        # order, a copy that is there says that the marker has been, too.
        is_known = not self._mount_check and _read_copy(known_path) == own
        found = read_marker(marker_path)
        if found is not None and found != own:
            return (
                f"it is device {found.device} of cluster {found.cluster}, not {own.device} of "
                f"{own.cluster}: mount the right one, or say `martlet device adopt {path}`"
            )
        if found is None:
            if is_known and not os.path.lexists(marker_path):
                return (
                    f"it was in use and has no {MARKER_NAME}: mount the device, or say "
                    f"`martlet device adopt {path}` if it is a new one"
                )
            try:
                _write(marker_path, own)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                return None  # it can be read, and emptied; a copy alone would refuse it later
        if not self._mount_check and not is_known:
            try:
                _write(known_path, own)
            except OSError:
                pass  # the object server, on the same devices, warns of it
        return None

    def adopt(self, path: str) -> None:
        """Make a directory the device that its name says, whatever it was.

        What root writes here belongs to the owner of the directory, as whom the services run.

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
    """The name of a cluster: the same on all its hosts, and it tells nothing of the salts."""
    words = ("martlet cluster", salts.swift_hash_path_prefix, salts.swift_hash_path_suffix)
    return hashlib.sha256("\0".join(words).encode("latin-1")).hexdigest()[:32]


def read_marker(path: str) -> Marker | None:
    """The marker in a file; None where there is none, or none that can be understood.

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
        return None  # without a copy only an empty mount point is not noticed


def _write(path: str, content: Marker) -> None:
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        with contextlib.suppress(FileExistsError):  # another service was faster
            os.mkdir(folder, 0o700)
    replace_file(Path(path), content.encode(), mode=0o600)

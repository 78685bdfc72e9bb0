# SPDX-License-Identifier: Apache-2.0
"""The inode cache of XFS, by device.

The kernel counts for each mounted file system in ``/sys/fs/xfs/DEVICE/stats/stats``. The line
``ig`` has the look-ups of inodes. A cluster of many files is slow when most of them miss.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from prometheus_client.core import Metric

from martlet.metrics.families import counter

_EVENTS = ("attempts", "found", "recycled", "missed", "duplicate", "reclaimed", "changed")


class XfsCollector:
    """Collects for the devices below a folder that are mounted file systems of XFS."""

    def __init__(
        self, folder: str, mounts: Path = Path("/proc/mounts"), stats: Path = Path("/sys/fs/xfs")
    ) -> None:
        self._folder = folder
        self._mounts = mounts
        self._stats = stats

    def collect(self, devices: Iterable[str]) -> Iterator[Metric]:
        """The metrics, in the form of prometheus_client."""
        sources = self._sources()
        if not sources:
            return
        family = counter("martlet_xfs_inode_cache_total")
        folder = os.path.realpath(self._folder)
        for device in devices:
            # The path of the device itself is not resolved: that would wait for one that hangs.
            source = sources.get(os.path.join(folder, device))
            for event, value in zip(_EVENTS, self._look_ups(source), strict=False):
                family.add_metric([device, event], value)
        yield family

    def _sources(self) -> dict[str, str]:
        """The name of the block device by the mount point."""
        found = {}
        for line in self._mounts.read_text(errors="surrogateescape").splitlines():
            source, point, kind = line.split()[:3]
            if kind == "xfs":
                found[point] = os.path.basename(os.path.realpath(source))
        return found

    def _look_ups(self, source: str | None) -> list[int]:
        if source is None:
            return []
        try:
            lines = (self._stats / source / "stats" / "stats").read_text().splitlines()
        except OSError:
            return []
        return next(([int(w) for w in line.split()[1:]] for line in lines if line[:3] == "ig "), [])

# SPDX-License-Identifier: Apache-2.0
"""The figures of the host that a service shows: rings, devices, quarantine, background jobs.

Reading a large file or a directory for each scrape would cost too much. A ring is read again when
its file has changed; directories of quarantine are read once a minute.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from prometheus_client.core import GaugeMetricFamily, Metric

from martlet.metrics.families import gauge
from martlet.metrics.xfs import XfsCollector
from martlet.recon.cache import read_figures
from martlet.recon.figures import Devices, file_digest, ring_files

T = TypeVar("T")

_QUARANTINE_SECONDS = 60.0
#: Job -> the file of figures, the keys of time, duration and counts in it.
_JOBS: dict[str, dict[str, tuple[str, str, str]]] = {
    "account": {
        "account-replicator": ("replication_last", "replication_time", "replication_stats"),
        "account-auditor": ("account_audits_since", "account_auditor_pass_completed", ""),
    },
    "container": {
        "container-replicator": ("replication_last", "replication_time", "replication_stats"),
        "container-auditor": ("container_audits_since", "container_auditor_pass_completed", ""),
        "container-sharder": ("sharding_last", "sharding_time", "sharding_stats"),
    },
}
#: Counts of a pass, as recon names them -> the label.
_RESULTS = {
    "attempted": "attempted",
    "in_sync": "in_sync",
    "failure": "failed",
    "handoffs": "handoffs",
}


@dataclass(frozen=True)
class HostFolders:
    """Places of the figures; ``kind`` is account, container or proxy."""

    kind: str
    swift_dir: str
    recon_cache: str


class HostCollector:
    """Collects the figures of one host. A proxy has no devices, and shows the rings alone."""

    def __init__(
        self,
        folders: HostFolders,
        devices: Devices | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folders = folders
        self._devices = devices
        self._clock = clock
        self._digests: dict[str, tuple[tuple[int, int, int], str]] = {}
        self._quarantined: tuple[float, dict[str, Any]] | None = None
        self._xfs = XfsCollector(devices.folder) if devices else None

    def collect(self) -> Iterator[Metric]:
        """The metrics, in the form of prometheus_client."""
        yield from self._rings()
        if self._devices is None:
            return
        yield from self._of_devices(self._devices)
        yield self._quarantine(self._devices)
        yield from _passes(self._folders)
        if self._folders.kind == "container":
            yield from _container_sizes(self._folders.recon_cache)
        if self._xfs is not None:
            yield from self._xfs.collect(self._devices.names())

    def _rings(self) -> Iterator[Metric]:
        info = gauge("martlet_ring_info")
        modified = gauge("martlet_ring_modified_timestamp_seconds")
        for path in ring_files(self._folders.swift_dir):
            name = os.path.basename(path).removesuffix(".ring.gz")
            try:
                state = os.stat(path)
                info.add_metric([name, self._digest(path, state)], 1)
            except OSError:  # it has just been removed
                continue
            modified.add_metric([name], state.st_mtime)
        yield info
        yield modified

    def _digest(self, path: str, state: os.stat_result) -> str:
        mark = (state.st_mtime_ns, state.st_size, state.st_ino)
        known = self._digests.get(path)
        if known is None or known[0] != mark:
            known = self._digests[path] = (mark, file_digest(path))
        return known[1]

    def _of_devices(self, devices: Devices) -> Iterator[Metric]:
        usable = gauge("martlet_device_usable")
        shown = {
            "martlet_device_size_bytes": gauge("martlet_device_size_bytes"),
            "martlet_device_free_bytes": gauge("martlet_device_free_bytes"),
            "martlet_device_inodes": gauge("martlet_device_inodes"),
            "martlet_device_inodes_free": gauge("martlet_device_inodes_free"),
        }
        for name in devices.names():
            state = devices.space(name)
            usable.add_metric([name], state is not None)
            if state is None:
                continue
            values = (
                state.f_blocks * state.f_frsize,
                state.f_bavail * state.f_frsize,
                state.f_files,
                state.f_ffree,
            )
            for family, value in zip(shown.values(), values, strict=True):
                family.add_metric([name], value)
        yield usable
        yield from shown.values()

    def _quarantine(self, devices: Devices) -> Metric:
        now = self._clock()
        if self._quarantined is None or now - self._quarantined[0] > _QUARANTINE_SECONDS:
            self._quarantined = now, devices.quarantined()
        counts = self._quarantined[1]
        family = gauge("martlet_quarantined")
        for kind in ("accounts", "containers"):
            family.add_metric([kind, ""], counts[kind])
        for index, of_policy in sorted(counts["policies"].items()):
            family.add_metric(["objects", index], of_policy["objects"])
        return family


def _passes(folders: HostFolders) -> Iterator[Metric]:
    last, duration = (
        gauge("martlet_pass_last_timestamp_seconds"),
        gauge("martlet_pass_duration_seconds"),
    )
    items = gauge("martlet_pass_items")
    for job, keys in _JOBS.get(folders.kind, {}).items():
        found = read_figures(folders.recon_cache, folders.kind, filter(None, keys))
        ended, took, stats = (found.get(key) for key in keys)
        _add(last, [job], ended)
        _add(duration, [job], took)
        for name, label in _RESULTS.items():
            if isinstance(stats, dict):
                _add(items, [job, label], stats.get(name))
    yield last
    yield duration
    yield items


def _container_sizes(recon_cache: str) -> Iterator[Metric]:
    names = ("container_database_sizes", "container_database_largest")
    found = read_figures(recon_cache, "container", names)
    sizes, largest = (found[name] for name in names)
    counts = gauge("martlet_container_databases")
    if isinstance(sizes, Mapping):
        for bound, count in sizes.items():
            _add(counts, [bound], count)
    yield counts
    family = gauge("martlet_container_database_largest_bytes")
    _add(family, [], largest)
    yield family


def _add(family: GaugeMetricFamily, labels: list[str], value: Any) -> None:
    """Add a figure of a file, unless it is no number."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        family.add_metric(labels, value)

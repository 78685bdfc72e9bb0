# SPDX-License-Identifier: Apache-2.0
"""The sweep: a look at all container databases of this server for work that was left undone.

A report or a row for the queue may be left undone by a crash, or while the other side is away. A
database without such work is not opened again until it changes, or is due to repeat its report: its
fingerprint is remembered. A sweeper that has just started opens all of them.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from typing import IO

from container.database import ContainerDatabase
from container.info import ContainerInfo
from container.report_slots import ReportSlots
from martlet.log import get_logger
from martlet.recon.cache import write_figures
from martlet.service.disk_calls import DiskStuck, on_disk
from storage.database_files import entries
from storage.errors import DatabaseError, DatabaseMissing
from storage.fingerprint import fingerprint

SWEEP_LOCK = ".sweep.lock"


class Sweeper:
    """The sweeps of one process."""

    def __init__(
        self,
        devices: str,
        containers_per_second: int,
        recon_cache_path: str,
        has_work: Callable[[str, ContainerInfo, bool], bool],
        slots: ReportSlots,
    ) -> None:
        """
        :param has_work: marks a container for its work, and returns whether there is any; gets
            whether the container is due to repeat its report.
        """
        self._devices = devices
        self._pause = 1.0 / containers_per_second
        self._recon_cache_path = recon_cache_path
        self._has_work = has_work
        self._slots = slots
        self._locks: dict[str, IO[bytes]] = {}
        # Of databases without work; by the hash of the path, which takes less memory.
        self._done: dict[int, int] = {}
        self._log = get_logger("martlet.container.sweep")

    def sweep(self) -> None:
        """Look at every container on the devices.

        Only one process of a server sweeps a device: the one that holds the lock file.
        """
        started = time.monotonic()
        is_due = self._slots.due_until(time.time())
        for name in entries(self._devices):
            try:
                self._sweep_device(f"{self._devices}/{name}", is_due)
            except (DiskStuck, OSError) as error:
                self._log.error("sweep skips a device: %s", error)
        if self._locks:
            seconds = time.monotonic() - started
            write_figures(self._recon_cache_path, "container", {"container_updater_sweep": seconds})

    def give_back_locks(self) -> None:
        """Let another process of this server sweep."""
        for lock in self._locks.values():
            fcntl.flock(lock, fcntl.LOCK_UN)

    def _sweep_device(self, device: str, is_due: Callable[[str], bool]) -> None:
        """
        :raises DiskStuck: the device does not answer.
        :raises OSError: it has no space for the lock file.
        """
        for path, mark in self._databases(device, is_due):
            try:
                info = on_disk(device, _read_info, path)
                has_work = self._has_work(path, info, is_due(os.path.dirname(path)))
                if not has_work and mark is not None:
                    self._done[hash(path)] = mark
            except DatabaseMissing:
                self._done.pop(hash(path), None)  # removed since it was listed
            except DatabaseError as error:
                self._log.error("sweep skips a database: %s", error)
            time.sleep(self._pause)

    def _databases(
        self, device: str, is_due: Callable[[str], bool]
    ) -> Iterator[tuple[str, int | None]]:
        """The databases that may have work, with their fingerprints from before a look at them."""
        top = f"{device}/containers"
        if not on_disk(device, self._is_ours, top):
            return
        for partition in on_disk(device, _directories, top):
            yield from on_disk(device, self._databases_in, partition, is_due)
            time.sleep(0)  # requests come first

    def _databases_in(
        self, partition: str, is_due: Callable[[str], bool]
    ) -> list[tuple[str, int | None]]:
        found = []
        for suffix in _directories(partition):
            for directory in _directories(suffix):
                path = f"{directory}/{os.path.basename(directory)}.db"
                try:
                    mark = fingerprint(path, time.time())
                except OSError:
                    continue  # there is none, or it was removed
                is_changed = mark is None or self._done.get(hash(path)) != mark
                if is_changed or is_due(directory):
                    found.append((path, mark))
        return found

    def _is_ours(self, top: str) -> bool:
        """Whether this process sweeps a device; it then does so until it ends."""
        if top in self._locks:
            return True
        if not os.path.isdir(top):
            return False
        lock = open(f"{top}/{SWEEP_LOCK}", "ab")  # noqa: SIM115  # kept open until the process ends
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            return False
        self._locks[top] = lock
        return True


def _directories(directory: str) -> list[str]:
    try:
        return [entry.path for entry in os.scandir(directory) if entry.is_dir()]
    except OSError:
        return []  # removed, or the device fails: its databases cannot be read either


def _read_info(path: str) -> ContainerInfo:
    """Read without the pool: a sweep would push other databases out of it."""
    database = ContainerDatabase(path)
    try:
        return database.info()
    finally:
        database.close()

# SPDX-License-Identifier: Apache-2.0
"""The reporter: sends the totals of changed containers to their accounts, until they are accepted.

The database records the totals last reported (the ``reported_*`` columns). The set of changed
containers in memory is only for speed. A sweep over the devices, at start and at an interval, finds
reports that a crash or an unreachable account has left undone.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO

from container.account_updates import AccountReplica, send_to_account
from container.config import ContainerOptions
from container.database import ContainerDatabase, ContainerInfo
from martlet.http.backend_client import BackendClient
from martlet.log import fields, get_logger
from martlet.service.disk_calls import DiskStuck, on_disk
from martlet.service.worker_processes import at_retirement
from martlet.words.timestamp import Timestamp
from ring.errors import RingError
from ring.ring import Ring
from storage.concurrency import for_each, repeat_in_background
from storage.database_files import device_path_of, entries
from storage.database_pool import DatabasePool
from storage.errors import (
    DatabaseError,
    DatabaseMissing,
    DeviceFailed,
    DeviceStuck,
    ProcessLost,
)

#: Most changed containers in memory; others wait for the sweep.
CHANGED_MAX = 100_000

SWEEP_LOCK = ".sweep.lock"


class Reporter:
    """The reports of one process. Any green thread may call ``mark_changed``."""

    def __init__(
        self,
        options: ContainerOptions,
        devices: str,
        pool: DatabasePool[ContainerDatabase],
        client: BackendClient,
        open_account_ring: Callable[[], Ring],
    ) -> None:
        self._options = options
        self._devices = devices
        self._pool = pool
        self._client = client
        self._open_account_ring = open_account_ring
        self._account_ring: Ring | None = None
        self._lock = threading.Lock()  # guards _changed
        self._changed: set[str] = set()
        # The monotonic time of the next try, for an account and for a device.
        self._suppressed: dict[str, float] = {}
        self._failed_devices: dict[str, float] = {}
        self._sweep_locks: dict[str, IO[bytes]] = {}
        self._log = get_logger("martlet.container.reporter")
        #: Also called for each container in a sweep, so that one walk over the devices is enough.
        self.swept_too: Callable[[str, ContainerInfo], None] = lambda path, info: None

    def start(self) -> None:
        """Start reports and sweeps in the background."""
        at_retirement(self._give_back_locks)
        repeat_in_background("report", self.report_changed, self._options.report_interval)
        repeat_in_background("sweep", self.sweep, self._options.sweep_interval)

    def mark_changed(self, path: str) -> None:
        """Mark the container of this database for a report."""
        with self._lock:
            if len(self._changed) < CHANGED_MAX:
                self._changed.add(path)

    def report_changed(self) -> None:
        """Report every container that changed since the last call.

        Without an account ring this logs one line, and the containers stay marked.
        """
        if not self._changed:
            return
        try:
            self._ring()
        except RingError as error:
            self._log.error("cannot report to the accounts: %s", error)
            return
        with self._lock:
            changed, self._changed = self._changed, set()
        for_each(self._report_logged, changed, self._options.report_concurrency)

    def sweep(self) -> None:
        """Mark every container on the devices with an unreported state.

        Only one process of a server sweeps a device: the one that holds the lock file.
        """
        for name in entries(self._devices):
            try:
                self._sweep_device(f"{self._devices}/{name}")
            except (DiskStuck, OSError) as error:
                self._log.error("sweep skips a device: %s", error)

    def _sweep_device(self, device: str) -> None:
        """
        :raises DiskStuck: the device does not answer.
        :raises OSError: it has no space for the lock file.
        """
        pause = 1.0 / self._options.containers_per_second
        for path in self._database_paths(device):
            try:
                info = on_disk(device, _read_info, path)
                if info.is_unreported:
                    self.mark_changed(path)
                self.swept_too(path, info)
            except DatabaseMissing:
                pass  # removed since it was listed
            except DatabaseError as error:
                self._log.error("sweep skips a database: %s", error)
            time.sleep(pause)

    def _report_logged(self, path: str) -> None:
        device = device_path_of(path)
        if self._failed_devices.get(device, 0.0) > time.monotonic():
            self.mark_changed(path)
            return
        try:
            self.report(path)
        except DatabaseMissing:
            pass  # its rows are gone with it
        except (DeviceStuck, ProcessLost):
            pass  # logged once for the device; a sweep finds the container
        except DeviceFailed as error:
            self._pause_device(device, error)
            self.mark_changed(path)
        except DatabaseError as error:
            self._log.error("report skips a database: %s", error)
        except Exception:
            self._log.exception("report failed path=%s", path)

    def _pause_device(self, device: str, error: DeviceFailed) -> None:
        """Stop the reports of a device for a while: a full disk cannot record them."""
        now, pause = time.monotonic(), self._options.account_suppression_time
        if self._failed_devices.get(device, 0.0) <= now:
            shown = fields(device=device, pause_seconds=f"{pause:.0f}", error=error)
            self._log.error("device takes no reports %s", shown)
        self._failed_devices[device] = now + pause

    def report(self, path: str) -> bool:
        """Report one container if its state changed and its account is not suppressed.

        Returns True if the report was accepted.

        :raises DatabaseError: its database cannot be read or written.
        """
        with self._pool.use(path) as database:
            info = database.info()
            # A container created only by an object's row has no totals to report yet.
            if not info.is_unreported or not Timestamp(info.put_timestamp):
                return False
            now = time.monotonic()
            if self._suppressed.get(info.account, 0.0) > now:
                self.mark_changed(path)
                return False
            statuses = self._send(info)
            if sum(200 <= s < 300 for s in statuses) * 2 > len(statuses):
                self._suppressed.pop(info.account, None)
                database.set_reported(info)
                return True
        pause = self._options.account_suppression_time
        if self._suppressed.get(info.account, 0.0) <= now:
            said = ",".join(map(str, statuses))
            shown = fields(account=info.account, statuses=said, pause_seconds=f"{pause:.0f}")
            self._log.warning("account does not take reports %s", shown)
        self._suppressed[info.account] = now + pause
        self.mark_changed(path)
        return False

    def _send(self, info: ContainerInfo) -> list[int]:
        partition, nodes = self._ring().get_nodes(info.account)
        replicas = [
            AccountReplica((node["ip"], node["port"]), node["device"], str(partition))
            for node in nodes
        ]
        override = {"X-Account-Override-Deleted": "yes"}
        return send_to_account(self._client, replicas, info, override)

    def _ring(self) -> Ring:
        if self._account_ring is None:
            self._account_ring = self._open_account_ring()
        return self._account_ring

    def _database_paths(self, device: str) -> Iterator[str]:
        top = f"{device}/containers"
        if not on_disk(device, self._sweeps, top):
            return
        for partition in on_disk(device, _directories, top):
            for suffix in on_disk(device, _directories, partition):
                for directory in on_disk(device, _directories, suffix):
                    yield f"{directory}/{os.path.basename(directory)}.db"

    def _sweeps(self, top: str) -> bool:
        """Whether this process sweeps a device; it then does so until it ends."""
        if top in self._sweep_locks:
            return True
        if not os.path.isdir(top):
            return False
        lock = open(f"{top}/{SWEEP_LOCK}", "ab")  # noqa: SIM115  # kept open until the process ends
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            return False
        self._sweep_locks[top] = lock
        return True

    def _give_back_locks(self) -> None:
        for lock in self._sweep_locks.values():
            fcntl.flock(lock, fcntl.LOCK_UN)


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

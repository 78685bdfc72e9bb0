# SPDX-License-Identifier: Apache-2.0
"""The reporter: sends the totals of changed containers to their accounts, until they are accepted.

The database records the totals last reported (the ``reported_*`` columns). The set of changed
containers in memory is only for speed. A sweep over the devices, at start and at an interval, finds
reports that a crash or an unreachable account has left undone.

The containers of one account are reported together. A container whose request has told the account
already is not reported again: it is only recorded.

A replica of the account may keep totals that another replica of the container read later, by a
clock that is fast. It says so. The totals are then read again, and sent with a later time.
An account's replica that was away may bring back such totals. So each container also repeats its
report at a long interval (``ReportSlots``).
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from container.account_updates import AccountReplica, send_to_account, send_together
from container.config import ContainerOptions
from container.database import ContainerDatabase
from container.info import ContainerInfo
from container.report_answer import Answer, latest
from container.report_slots import ReportSlots
from container.shard_rows import is_shard
from container.sweep import Sweeper
from martlet.http.backend_client import BackendClient
from martlet.log import fields, get_logger
from martlet.service.worker_processes import at_retirement
from martlet.words.timestamp import Timestamp
from ring.errors import RingError
from ring.ring import Ring
from storage.concurrency import for_each, repeat_in_background
from storage.database_files import device_path_of
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
#: Most containers of an account in one request.
REPORTED_TOGETHER = 500

T = TypeVar("T")
_OVERRIDE = {"X-Account-Override-Deleted": "yes"}


class _Mark(NamedTuple):
    """Why a container is looked at."""

    told: ContainerInfo | None = None  # a state that the account knows already
    is_repeat: bool = False  # it is reported even if nothing has changed


class _News(NamedTuple):
    """A container to report: its account does not know its state, or has known it for long."""

    path: str
    info: ContainerInfo

    @property
    def is_repeat(self) -> bool:
        return not self.info.is_unreported


class Reporter:
    """The reports of one process. Any green thread may call ``mark_changed``."""

    def __init__(
        self,
        options: ContainerOptions,
        devices: str,
        pool: DatabasePool[ContainerDatabase],
        client: BackendClient,
        open_account_ring: Callable[[], Ring],
        report_shard: Callable[[ContainerInfo], list[Answer]] = lambda info: [Answer(404)],
    ) -> None:
        """``report_shard`` tells a shard's root of its state, and returns the answers."""
        self._options = options
        self._pool = pool
        self._client = client
        self._open_account_ring = open_account_ring
        self._account_ring: Ring | None = None
        self._report_shard = report_shard
        self._lock = threading.Lock()  # guards _changed
        self._changed: dict[str, _Mark] = {}
        # The monotonic time of the next try, for an account and for a device.
        self._suppressed: dict[str, float] = {}
        self._failed_devices: dict[str, float] = {}
        self._log = get_logger("martlet.container.reporter")
        first_slots = time.time() - options.sweep_interval
        self._sweeper = Sweeper(
            devices,
            options.containers_per_second,
            options.recon_cache_path,
            self._has_work,
            ReportSlots(options.report_repeat_interval, first_slots),
        )
        #: Also called for each container in a sweep, so that one walk over the devices is enough;
        #: returns whether there is work.
        self.swept_too: Callable[[str, ContainerInfo], bool] = lambda path, info: False

    def start(self) -> None:
        """Start reports and sweeps in the background."""
        at_retirement(self._sweeper.give_back_locks)
        repeat_in_background("report", self.report_changed, self._options.report_interval)
        repeat_in_background("sweep", self.sweep, self._options.sweep_interval)

    def mark_changed(
        self, path: str, told: ContainerInfo | None = None, *, is_repeat: bool = False
    ) -> None:
        """Mark the container of this database for a report.

        :param told: a state that the account has just accepted.
        :param is_repeat: report it even if nothing has changed.
        """
        with self._lock:
            before = self._changed.get(path)
            if before is not None:
                mark = _Mark(told or before.told, is_repeat or before.is_repeat)
            elif len(self._changed) < CHANGED_MAX:
                mark = _Mark(told, is_repeat)
            else:
                return
            self._changed[path] = mark

    def sweep(self) -> None:
        """Mark every container on the devices with an unreported state."""
        self._sweeper.sweep()

    def _has_work(self, path: str, info: ContainerInfo, is_due: bool) -> bool:
        if info.is_unreported or is_due:
            self.mark_changed(path, is_repeat=is_due)
        return self.swept_too(path, info) or info.is_unreported

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
            changed, self._changed = self._changed, {}
        groups: dict[str, list[_News]] = {}

        def look(item: tuple[str, _Mark]) -> None:
            news = self._guarded(item[0], functools.partial(self._news, *item))
            if news is not None:
                groups.setdefault(_told(news.info), []).append(news)

        for_each(look, changed.items(), self._options.report_concurrency)
        batches = [
            group[start : start + REPORTED_TOGETHER]
            for group in groups.values()
            for start in range(0, len(group), REPORTED_TOGETHER)
        ]
        for_each(self._report_together, batches, self._options.report_concurrency)

    def _news(self, path: str, mark: _Mark) -> _News | None:
        """The state of a container that must be reported; None if there is nothing to report.

        :raises DatabaseError: its database cannot be read or written.
        """
        if self._failed_devices.get(device_path_of(path), 0.0) > time.monotonic():
            self.mark_changed(path, mark.told, is_repeat=mark.is_repeat)
            return None
        with self._pool.use(path) as database:
            info = database.unreported(mark.told)
            if info is None and mark.is_repeat:
                info = database.info()
        return None if info is None or not Timestamp(info.put_timestamp) else _News(path, info)

    def _report_together(self, batch: Sequence[_News]) -> None:
        """Report containers of one account, unless it is suppressed."""
        account, now = _told(batch[0].info), time.monotonic()
        ready = []
        for news in batch:
            is_waiting = self._suppressed.get(account, 0.0) > now
            if is_waiting or self._failed_devices.get(device_path_of(news.path), 0.0) > now:
                self._mark_again(news)
            else:
                ready.append(news)
        if not ready:
            return
        answers = self._send(account, [news.info for news in ready])
        later = latest(answers)
        if later is not None:
            again = [
                self._guarded(news.path, functools.partial(self._read_after, news.path, later))
                for news in ready
            ]
            ready = [news for news in again if news is not None]
            if not ready:
                return
            answers = self._send(account, [news.info for news in ready])
        self._finish(account, ready, answers, now)

    def _read_after(self, path: str, later: Timestamp) -> _News:
        with self._pool.use(path) as database:
            return _News(path, database.info().read_after(later))

    def _finish(
        self, account: str, batch: Sequence[_News], answers: Sequence[Answer], now: float
    ) -> None:
        """Record what the account has taken; the rest stays marked."""
        statuses = [answer.status for answer in answers]
        is_accepted = sum(200 <= s < 300 for s in statuses) * 2 > len(statuses)
        is_gone = all(status == 404 for status in statuses)
        if is_accepted:
            self._suppressed.pop(account, None)
        # Another replica of the container reports at this moment: once more after both.
        is_late = latest(answers) is not None
        done = [
            news
            for news in batch
            if (is_accepted and not is_late)
            or (is_gone and (news.info.is_deleted or news.is_repeat))
        ]
        for news in done:
            self._record(news)
        if len(done) == len(batch):
            return
        if not is_accepted:
            self._suppress(account, statuses, now)
        for news in batch:
            if news not in done:
                self._mark_again(news)

    def _mark_again(self, news: _News) -> None:
        self.mark_changed(news.path, is_repeat=news.is_repeat)

    def _suppress(self, account: str, statuses: Sequence[int], now: float) -> None:
        """Pause the reports to an account that did not accept one."""
        pause = self._options.account_suppression_time
        if self._suppressed.get(account, 0.0) <= now:
            said = ",".join(map(str, statuses))
            shown = fields(account=account, statuses=said, pause_seconds=f"{pause:.0f}")
            self._log.warning("account does not take reports %s", shown)
        self._suppressed[account] = now + pause

    def _record(self, news: _News) -> None:
        """Record that the account knows a state."""
        if news.is_repeat:
            return  # recorded already

        def write() -> None:
            if self._failed_devices.get(device_path_of(news.path), 0.0) > time.monotonic():
                self.mark_changed(news.path)
                return
            with self._pool.use(news.path) as database:
                if not database.set_reported(news.info):
                    self.mark_changed(news.path)

        self._guarded(news.path, write)

    def _guarded(self, path: str, work: Callable[[], T]) -> T | None:
        """Do work on a database; an error is logged and returns None."""
        try:
            return work()
        except DatabaseMissing:
            pass  # its rows are gone with it
        except (DeviceStuck, ProcessLost):
            pass  # logged once for the device; a sweep finds the container
        except DeviceFailed as error:
            self._pause_device(device_path_of(path), error)
            self.mark_changed(path)
        except DatabaseError as error:
            self._log.error("report skips a database: %s", error)
        except Exception:
            self._log.exception("report failed path=%s", path)
        return None

    def _pause_device(self, device: str, error: DeviceFailed) -> None:
        """Stop the reports of a device for a while: a full disk cannot record them."""
        now, pause = time.monotonic(), self._options.account_suppression_time
        if self._failed_devices.get(device, 0.0) <= now:
            shown = fields(device=device, pause_seconds=f"{pause:.0f}", error=error)
            self._log.error("device takes no reports %s", shown)
        self._failed_devices[device] = now + pause

    def _send(self, account: str, infos: Sequence[ContainerInfo]) -> list[Answer]:
        if is_shard(infos[0].raw_metadata):
            return self._report_shard(infos[0])
        partition, nodes = self._ring().get_nodes(account)
        replicas = [
            AccountReplica((node["ip"], node["port"]), node["device"], str(partition))
            for node in nodes
        ]
        if len(infos) == 1:
            return send_to_account(self._client, replicas, infos[0], _OVERRIDE)
        return send_together(self._client, replicas, infos, _OVERRIDE)

    def _ring(self) -> Ring:
        if self._account_ring is None:
            self._account_ring = self._open_account_ring()
        return self._account_ring


def _told(info: ContainerInfo) -> str:
    """The name of what gets a report: the account. A shard tells its root, by itself."""
    return f"{info.account}/{info.container}" if is_shard(info.raw_metadata) else info.account

# SPDX-License-Identifier: Apache-2.0
"""The way of events from a request to the webhook of their target.

A request puts an event into memory and goes on. One thread of the process writes events to the
disk, in batches. One thread for each target sends them, in the order of the files, until the
webhook answers 2xx. So a webhook may be down for long, and an event may come more than once.

This module uses the threading module: under eventlet's monkey patch the threads are green.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import urllib3

from martlet.log import fields, get_logger
from martlet.service.disk_calls import DiskStuck, on_disk
from proxy.s3.events.options import NotificationOptions, Target
from proxy.spool import Spool, SpoolFile

log = get_logger("proxy.notifications")

#: Events in memory that are not on the disk yet, for each target.
MEMORY_EVENTS_MAX = 10_000
#: The pauses after a failure grow from the first to the second, seconds.
RETRY_SECONDS = (0.5, 60.0)
#: The pause between two looks for files of processes that have ended, seconds.
ADOPT_SECONDS = 10.0
_ANSWER_BYTES_MAX = 64 * 1024
#: Answers about the event itself: it would never be accepted.
_REFUSALS = frozenset({400, 413, 415, 422})


class Outcome(Enum):
    """The result of an attempt to send an event."""

    DONE = "sent"
    REFUSED = "refused"
    FAILED = "failed"


Send = Callable[[Target, bytes], Outcome]


class Webhooks:
    """POST requests to webhooks. Redirects are not followed."""

    def __init__(self, timeout: float) -> None:
        self._pool = urllib3.PoolManager(timeout=urllib3.Timeout(timeout), retries=False)

    def __call__(self, target: Target, record: bytes) -> Outcome:
        """Send an event."""
        headers = {"Content-Type": "application/json", "User-Agent": "martlet-notifications"}
        if target.token:
            headers["Authorization"] = f"Bearer {target.token}"
        options: dict[str, Any] = {"redirect": False, "preload_content": False}
        try:
            answer = self._pool.request("POST", target.url, body=record, headers=headers, **options)
            if answer.read(_ANSWER_BYTES_MAX) and answer.read(1):
                answer.close()
            else:
                answer.release_conn()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            log.info("webhook failed %s", fields(target=target.name, error=error))
            return Outcome.FAILED
        if 200 <= answer.status < 300:
            return Outcome.DONE
        log.info("webhook refused %s", fields(target=target.name, status=answer.status))
        return Outcome.REFUSED if answer.status in _REFUSALS else Outcome.FAILED


class Line:
    """The events of one target."""

    def __init__(self, target: Target, spool: Spool, send: Send) -> None:
        self.target = target
        self.counts = dict.fromkeys(("sent", "failed", "refused", "lost"), 0)
        self.memory: deque[bytes] = deque()
        self._memory_bytes = 0
        self._spool = spool
        self._send = send
        self._is_stored = threading.Event()
        self._is_losing = False

    @property
    def waiting_bytes(self) -> int:
        """The size of the events that wait in this process."""
        return self._spool.waiting_bytes + self._memory_bytes

    def put(self, record: bytes) -> None:
        """Note an event. It is lost if too many wait for the disk."""
        if len(self.memory) >= MEMORY_EVENTS_MAX:
            self._lose(1, "too many events wait for the disk")
        else:
            self.memory.append(record)
            self._memory_bytes += len(record)

    def store(self) -> None:
        """Write what is in memory to the disk."""
        records = []
        while self.memory:
            records.append(self.memory.popleft())
            self._memory_bytes -= len(records[-1])
        if not records:
            return
        try:
            count = self._on_disk(self._spool.store, records)
            reason = "queue_bytes_max is reached"
        except (OSError, DiskStuck) as error:
            count, reason = 0, str(error)
        if count < len(records):
            self._lose(len(records) - count, reason)
        else:
            self._is_losing = False
        self._is_stored.set()

    def _lose(self, count: int, reason: str) -> None:
        self.counts["lost"] += count
        if not self._is_losing:  # one line for each row of losses
            self._is_losing = True
            log.error("notifications are lost %s", fields(target=self.target.name, reason=reason))

    def send_forever(self, sleep: Callable[[float], object] = time.sleep) -> None:
        """Send what is on the disk, now and later."""
        pause, looked = RETRY_SECONDS[0], float("-inf")
        while True:
            try:
                if time.monotonic() - looked >= ADOPT_SECONDS:
                    looked = time.monotonic()
                    self._on_disk(self._spool.adopt)
                outcome = self.send_next()
            except (OSError, DiskStuck) as error:
                log.error("the queue cannot be read %s", fields(error=error))
                outcome = Outcome.FAILED
            if outcome is None:
                self._is_stored.wait(ADOPT_SECONDS)
            elif outcome is Outcome.FAILED:
                sleep(pause)
                pause = min(2 * pause, RETRY_SECONDS[1])
            else:
                pause = RETRY_SECONDS[0]

    def send_next(self) -> Outcome | None:
        """Send the first event on the disk; None if there is none.

        :raises OSError: the disk fails.
        """
        self._is_stored.clear()
        file: SpoolFile | None = self._on_disk(self._spool.next_file)
        if file is None:
            return None
        line = self._on_disk(file.peek)
        if line is None:
            return None
        is_record = line.startswith(b"{")  # else a power cut has left bytes that never arrived
        outcome = self._send(self.target, line.rstrip(b"\n")) if is_record else Outcome.REFUSED
        self.counts[outcome.value] += 1
        if outcome is not Outcome.FAILED:
            self._on_disk(file.finish, line)
        return outcome

    def _on_disk(self, function: Callable[..., Any], *args: Any) -> Any:
        return on_disk(str(self._spool.directory.parent), function, *args)


class Outbox:
    """The lines of all targets, and their threads, which start with the first request."""

    def __init__(self, options: NotificationOptions, send: Send | None = None) -> None:
        targets = options.targets()
        chosen = send or Webhooks(options.timeout)
        self.lines = {
            target.name: Line(
                target, Spool(Path(options.queue_dir, target.name), options.queue_bytes_max), chosen
            )
            for target in targets
        }
        self._has_events = threading.Event()
        self._is_started = False

    def start(self) -> None:
        """Start the threads of this process."""
        if self._is_started:
            return
        self._is_started = True
        jobs: Sequence[Callable[[], None]] = [
            self._store_forever,
            *(line.send_forever for line in self.lines.values()),
        ]
        for job in jobs:
            threading.Thread(target=job, name="notifications", daemon=True).start()

    def put(self, target: str, record: bytes) -> None:
        """Note an event; no disk and no target holds the caller."""
        line = self.lines.get(target)
        if line is None:  # the operator has removed it
            log.debug("a bucket names an unknown target %s", fields(target=target))
            return
        line.put(record)
        self._has_events.set()

    def _store_forever(self) -> None:
        while True:
            self._has_events.wait()
            self._has_events.clear()
            for line in self.lines.values():
                line.store()

    def gauges(self) -> dict[tuple[str, ...], float]:
        """The figures of this process for GET /metrics."""
        found: dict[tuple[str, ...], float] = {}
        for name, line in self.lines.items():
            found["martlet_notifications_waiting_bytes", name] = float(line.waiting_bytes)
            for result, count in line.counts.items():
                found["martlet_notifications", name, result] = float(count)
        return found

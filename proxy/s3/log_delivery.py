# SPDX-License-Identifier: Apache-2.0
"""The way of lines of access logs from a request to objects in the target bucket.

A request puts its line into memory and goes on. A thread of the process writes lines to the disk,
and now and then puts those of each target into one object. A file of lines is removed when all of
them are stored, so a crash may lead to lines that come twice.

This module uses the threading module: under eventlet's monkey patch the threads are green.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from martlet.http.environ import TRANS_ID, WSGIApp
from martlet.http.request import Request
from martlet.http.trans_id import new_trans_id
from martlet.log import fields, get_logger
from martlet.service.disk_calls import DiskStuck, on_disk
from martlet.words.names import str_to_wsgi
from proxy.middleware.subrequest import ask_app, sub_environ
from proxy.spool import Spool

log = get_logger("proxy.access_logs")

SOURCE = "S3L"
#: Lines in memory that are not on the disk yet.
MEMORY_LINES_MAX = 10_000


class Place(NamedTuple):
    """Where a line goes: an account, a bucket, and the beginning of the key."""

    account: str
    bucket: str
    prefix: str


class LogDelivery:
    """The lines of one process.

    :param app: the pipeline to the right of s3api.
    :param directory: of the lines that are not delivered yet.
    :param seconds: from one delivery to the next.
    """

    def __init__(
        self,
        app: WSGIApp,
        directory: Path,
        seconds: float,
        bytes_max: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.counts = dict.fromkeys(("stored", "failed", "lost"), 0)
        self._app = app
        self._seconds = seconds
        self._clock = clock
        self._spool = Spool(directory, bytes_max)
        self._memory: deque[bytes] = deque()
        self._has_lines = threading.Event()
        self._is_started = False
        self._is_losing = False

    def put(self, place: Place, line: str) -> None:
        """Note a line; no disk and no server holds the caller."""
        if not self._is_started:
            self._is_started = True
            threading.Thread(target=self._work, name="access logs", daemon=True).start()
        if len(self._memory) >= MEMORY_LINES_MAX:
            self._lose(1, "too many lines wait for the disk")
            return
        self._memory.append(json.dumps([*place, line]).encode("ascii"))
        self._has_lines.set()

    def _work(self) -> None:
        due = time.monotonic() + self._seconds
        while True:
            self._has_lines.wait(max(0.0, due - time.monotonic()))
            self._has_lines.clear()
            self.store()
            if time.monotonic() >= due:
                self.deliver()
                due = time.monotonic() + self._seconds

    def store(self) -> None:
        """Write what is in memory to the disk."""
        lines = []
        while self._memory:
            lines.append(self._memory.popleft())
        if not lines:
            return
        try:
            count = self._on_disk(self._spool.store, lines)
            reason = "logging_bytes_max is reached"
        except (OSError, DiskStuck) as error:
            count, reason = 0, str(error)
        if count < len(lines):
            self._lose(len(lines) - count, reason)
        else:
            self._is_losing = False

    def deliver(self) -> None:
        """Put the lines on the disk into objects; what cannot be stored now is tried later."""
        try:
            self._on_disk(self._spool.adopt)
            self._on_disk(self._spool.rotate)
            for file in self._spool.closed():
                lines = self._on_disk(file.rest)
                if not self._store_all(lines):
                    return
                self._on_disk(self._spool.drop, file)
        except (OSError, DiskStuck) as error:
            log.error("the queue of access logs cannot be read %s", fields(error=error))

    def _store_all(self, lines: list[bytes]) -> bool:
        """Store the lines of a file. If the last object fails, the others come again."""
        objects: defaultdict[Place, list[str]] = defaultdict(list)
        for line in lines:
            try:
                account, bucket, prefix, text = json.loads(line)
            except ValueError:
                continue  # a power cut has torn it
            objects[Place(account, bucket, prefix)].append(text)
        return all([self._store_object(place, texts) for place, texts in objects.items()])

    def _store_object(self, place: Place, texts: list[str]) -> bool:
        now = datetime.fromtimestamp(self._clock(), UTC)
        key = f"{place.prefix}{now:%Y-%m-%d-%H-%M-%S}-{secrets.token_hex(8).upper()}"
        body = "".join(f"{text}\n" for text in texts).encode()
        path = str_to_wsgi(f"/v1/{place.account}/{place.bucket}/{key}")
        base = Request.blank("/").environ | {TRANS_ID: new_trans_id()}
        headers = {"content-type": "text/plain"}
        options: dict[str, Any] = {"headers": headers, "body": body, "pre_authorized": True}
        answer = ask_app(self._app, sub_environ(base, "PUT", path, SOURCE, **options))
        if answer.is_success:
            self.counts["stored"] += len(texts)
            return True
        told = fields(status=answer.status, account=place.account, bucket=place.bucket)
        if answer.status < 500:  # the bucket is gone, or full: it would never succeed
            self._lose(len(texts), f"the target refuses them, {told}")
            return True
        self.counts["failed"] += 1
        log.warning("an access log cannot be stored now %s", told)
        return False

    def _lose(self, count: int, reason: str) -> None:
        self.counts["lost"] += count
        if not self._is_losing:  # one line for each row of losses
            self._is_losing = True
            log.error("lines of access logs are lost %s", fields(reason=reason))

    def _on_disk(self, function: Callable[..., Any], *args: Any) -> Any:
        return on_disk(str(self._spool.directory.parent), function, *args)

    def gauges(self) -> dict[tuple[str, ...], float]:
        """The figures of this process for GET /metrics."""
        counts = self.counts.items()
        return {("martlet_s3_log_lines", result): float(count) for result, count in counts}

# SPDX-License-Identifier: Apache-2.0
"""The passes of the expirer over the queue: each due object is deleted, then its task removed.

The task is removed last, so a crash leaves it in the queue. When it is repeated, the DELETE finds
the object deleted, and the task is removed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice

from martlet.http.internal_client import InternalClient
from martlet.log import fields, get_logger
from martlet.recon.cache import write_figures
from martlet.words.names import quote_path
from martlet.words.timestamp import Timestamp
from replicator.expirer.options import Delays, ExpirerOptions
from replicator.expirer.queue import Queue, QueueError, Row
from replicator.expirer.tasks import (
    End,
    Task,
    due_containers,
    end_of,
    gets_no_more_tasks,
    is_due,
    parse_task,
    part_of,
    share_of,
)
from replicator.expirer.uses import Uses
from replicator.pace import Pace
from storage.concurrency import for_each

#: Tasks that are deleted in parallel before their rows are removed together.
BATCH = 200


@dataclass
class Figures:
    """The work of a pass."""

    containers: int = 0  # of the queue, with a time that has come
    tasks: int = 0  # of this process, due
    deleted: int = 0  # objects
    gone: int = 0  # tasks of objects that were deleted before, or written later
    given_up: int = 0  # tasks that were dropped, as their object was not found for reclaim_age
    waiting: int = 0  # tasks whose object was not found, or had another time: tried later
    failed: int = 0  # tasks that failed: tried later
    delayed: int = 0  # tasks that delay_reaping holds back
    invalid: int = 0  # rows that are no tasks
    unread: int = 0  # containers that could not be read, or from which no row could be removed
    seconds: float = 0.0

    def as_dict(self) -> dict[str, int | float]:
        """The figures by name."""
        return asdict(self)

    def line(self) -> str:
        """The figures that are not zero, for the log."""
        shown = {**asdict(self), "seconds": round(self.seconds, 2)}
        return " ".join(f"{n}={v}" for n, v in shown.items() if v or n in ("deleted", "failed"))


class Expirer:
    """The passes over the queue."""

    def __init__(
        self,
        options: ExpirerOptions,
        delays: Delays,
        client: InternalClient,
        queue: Queue,
        now: Callable[[], Timestamp] = Timestamp.now,
    ) -> None:
        self._options = options
        self._delays = delays
        self._client = client
        self._queue = queue
        self._now = now
        self._figures = Figures()
        self._started = self._reported = 0.0  # monotonic
        self._pace = Pace(options.tasks_per_second)
        self._log = get_logger("martlet.object.expirer")

    def run_forever(self) -> None:
        """Run a pass in every interval."""
        while True:
            started = time.monotonic()
            try:
                self.run_once()
            except QueueError as error:
                self._log.error("pass failed: the queue cannot be read: %s", error)
            except Exception:
                self._log.exception("pass failed")
            time.sleep(max(1.0, self._options.interval - (time.monotonic() - started)))

    def run_once(self) -> Figures:
        """Run one pass and return its figures.

        :raises QueueError: the containers of the queue cannot be listed.
        """
        figures = self._figures = Figures()
        self._started = self._reported = time.monotonic()
        if not self._options.dequeue_from_legacy:
            self._log.info("this expirer does nothing: dequeue_from_legacy is false")
            return figures
        now = self._now()
        for container in due_containers(self._queue.containers(now), now):
            figures.containers += 1
            try:
                self._expire_container(container)
            except QueueError as error:
                figures.unread += 1
                self._log.error("container of the queue is skipped: %s", error)
        figures.seconds = time.monotonic() - self._started
        self._log.info("pass done %s", figures.line())
        self._write_report()
        return figures

    def _expire_container(self, container: str) -> None:
        """
        :raises QueueError: it cannot be listed.
        """
        is_empty = True
        now = self._now()
        for page in self._queue.pages(container, now):
            is_empty = False
            tasks = self._own_tasks(container, page, now)
            while batch := list(islice(tasks, BATCH)):
                self._expire(container, batch)
        if is_empty and gets_no_more_tasks(
            container, now, self._options.expiring_objects_container_divisor
        ):
            self._queue.remove_container(container)

    def _own_tasks(self, container: str, page: list[Row], now: Timestamp) -> Iterator[Task]:
        """Yield the tasks of this process that are due."""
        options, figures = self._options, self._figures
        for row in page:
            try:
                task = parse_task(row)
            except ValueError as error:
                figures.invalid += 1
                self._log.error("not a task %s", fields(container=container, reason=error))
                continue
            if options.processes > 1:
                owner = share_of(str(int(container)), task.name, options.processes)
                if owner != options.process:
                    continue
            if is_due(task, now, self._delays):
                yield task
            elif task.due <= now:
                figures.delayed += 1

    def _expire(self, container: str, batch: list[Task]) -> None:
        """Delete the objects of a batch, then remove the tasks that are done."""
        done: list[str] = []
        uses = Uses(self._client, (part for task in batch if (part := part_of(task))))

        def work(task: Task) -> None:
            if self._delete(task, uses).is_done:
                done.append(task.name)
            self._report()

        def paced() -> Iterator[Task]:
            for task in batch:
                self._pace.wait()
                yield task

        for_each(work, paced(), self._options.concurrency)
        if done and not self._queue.remove(container, done, self._now()):
            self._figures.unread += 1

    def _delete(self, task: Task, uses: Uses) -> End:
        """Delete the object of a task; an error is the end FAILED."""
        delay = self._delays.of(task.account, task.container)
        try:
            status = self._answer_to(task, uses)
            end = end_of(status, task, self._now(), self._options.reclaim_age + delay)
        except Exception:
            self._log.exception("to be repeated %s", fields(task=ascii(task.name)))
            end = End.FAILED
        else:
            if end is End.FAILED:
                shown = fields(task=ascii(task.name), status=status)
                self._log.warning("to be repeated %s", shown)
        self._figures.tasks += 1
        setattr(self._figures, end.value, getattr(self._figures, end.value) + 1)
        return end

    def _answer_to(self, task: Task, uses: Uses) -> int:
        """Delete the object of a task; return the status.

        First the newest replica is asked, because a replica may have missed a later PUT or POST.
        Its tombstone, of the old time, would win over a write from before that time.
        """
        part = part_of(task)
        if part is not None and (status := uses.status(part)) != 404:
            return status
        path = quote_path(f"/v1/{task.account}/{task.container}/{task.obj}")
        if not task.is_async:
            # The link itself, not its target.
            newest = self._client.request("HEAD", f"{path}?symlink=get", {"X-Newest": "true"})
            newest.close()
            if newest.status // 100 == 2:  # an expired object is answered with 404
                written = Timestamp(newest.headers.get("x-timestamp", "0"))
                return 409 if written >= task.due else 412
            if newest.status != 404:
                return newest.status
        response = self._client.request("DELETE", path, task.headers)
        response.close()
        return response.status

    def _report(self) -> None:
        now = time.monotonic()
        if now - self._reported >= self._options.report_interval:
            self._reported = now
            self._figures.seconds = now - self._started
            self._log.info("pass so far %s", self._figures.line())

    def _write_report(self) -> None:
        """Write the figures for recon, under OpenStack Swift's names; an error is logged."""
        figures = self._figures
        done = figures.deleted + figures.gone + figures.given_up
        report = {"object_expiration_pass": figures.seconds, "expired_last_pass": done}
        write_figures(self._options.recon_cache_path, "object", report)

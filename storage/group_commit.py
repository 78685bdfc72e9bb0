# SPDX-License-Identifier: Apache-2.0
"""Group commit: concurrent writers of one database share a commit and so its flush."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Work = TypeVar("Work")


class _Ticket(Generic[Work]):
    """One writer's place in the queue."""

    __slots__ = ("called", "error", "is_done", "result", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        self.called = threading.Lock()
        self.called.acquire()
        self.is_done = False
        self.result: Any = None
        self.error: BaseException | None = None


class GroupCommit(Generic[Work]):
    """A queue of concurrent writers that share commits.

    The first writer leads: it commits at once. Writers that come in the meantime wait in a queue.
    When the commit has ended, the first of them leads the next commit, with the works of all that
    wait. So a single writer never waits for others, and N writers need far fewer than N commits.

    ``commit`` gets the works in order of arrival. It returns one outcome for each: a result, or an
    exception that its writer raises. The leader calls it, never twice in parallel.
    """

    def __init__(self, commit: Callable[[list[Work]], list[Any]]) -> None:
        self._commit = commit
        self._lock = threading.Lock()  # guards the two below
        self._queue: list[_Ticket[Work]] = []
        self._is_led = False

    def submit(self, work: Work) -> Any:
        """Wait until a commit that includes ``work`` has ended; return or raise its outcome."""
        ticket = _Ticket(work)
        with self._lock:
            self._queue.append(ticket)
            leads = not self._is_led
            self._is_led = True
        if not leads:
            ticket.called.acquire()
        if not ticket.is_done:
            self._lead()
        if ticket.error is not None:
            raise ticket.error
        return ticket.result

    def _lead(self) -> None:
        with self._lock:
            group, self._queue = self._queue, []
        try:
            self._settle(group, self._commit([ticket.work for ticket in group]))
        except BaseException as error:
            self._settle(group, [error] * len(group))
            if not isinstance(error, Exception):
                raise
        finally:
            with self._lock:
                successor = self._queue[0] if self._queue else None
                self._is_led = successor is not None
            if successor is not None:
                successor.called.release()

    @staticmethod
    def _settle(group: list[_Ticket[Work]], outcomes: list[Any]) -> None:
        for ticket, outcome in zip(group, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                ticket.error = outcome
            else:
                ticket.result = outcome
            ticket.is_done = True
            ticket.called.release()

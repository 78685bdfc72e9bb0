# SPDX-License-Identifier: Apache-2.0
"""One small request to several devices in parallel, in batches with other requests."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from martlet.http.backend_client import ReadTimeout
from proxy.replicas.backends import BackendRequest, Backends
from proxy.replicas.batch import Batches, Part
from proxy.replicas.engine import PATIENCE, Attempt, Decided, Outcome, ask
from proxy.wire_headers import WireHeaders
from ring.ring import Node


def ask_in_batches(
    backends: Backends,
    batches: Batches,
    request: BackendRequest,
    nodes: Iterator[Node],
    headers: Sequence[WireHeaders],
    decided: Decided,
    post_quorum_timeout: float,
) -> list[Outcome]:
    """As `fanout.ask_all`, but each request goes in one message with others to the same server."""
    parts = _Parts(backends, batches, request, post_quorum_timeout)
    try:
        batches.alarms.add(parts)
        return ask(parts, nodes, headers, decided, post_quorum_timeout)
    finally:
        batches.alarms.remove(parts)


class _Parts:
    """A transport that gives its requests to couriers, and sleeps until an answer matters."""

    def __init__(
        self, backends: Backends, batches: Batches, request: BackendRequest, patience: float
    ) -> None:
        self._backends = backends
        self._batches = batches
        self._request = request
        self._patience = patience
        self.pending: dict[Part, Attempt] = {}  # in the order of their deadlines
        self._ended: deque[Part] = deque()  # filled by couriers
        # Released, at most once, when there is work. An Event costs three times as much.
        self._bell = threading.Lock()
        self._bell.acquire()
        self._last_at = 0.0  # when the last answer came
        self.alarm_at = float("inf")

    def send(self, index: int, headers: WireHeaders, node: Node) -> bool:
        """Queue the request for a courier. A failure is known only later."""
        request = self._request
        part = Part(
            (node["ip"], node["port"]),
            request.method,
            request.path_on(node),
            headers.lines,
            request.body,
            request.timeout,
            self._part_ended,
        )
        self.pending[part] = Attempt(index, headers, node)
        self._batches.send(part)
        return True

    def receive(self, give_up_at: float | None) -> Iterable[Attempt] | None:
        """All attempts that have ended or are past their deadlines."""
        if give_up_at is not None and time.monotonic() >= give_up_at:
            return None
        self._set_alarm(give_up_at)
        self._bell.acquire()
        ended = self._take_in()
        if self.pending:
            ended += self._past_deadline()
        return ended

    def heard_at(self) -> float:
        """When a courier got the last answer. The waiting thread may have slept since then."""
        return self._last_at or time.monotonic()

    def give_up(self) -> Iterable[Attempt]:
        """Withdraw the late requests. They may still be sent, so no device is doubted."""
        for part in self.pending:
            part.is_withdrawn = True
        self.pending.clear()
        return ()

    def wake(self) -> None:
        """Wake the waiting thread."""
        try:
            self._bell.release()
        except RuntimeError:
            pass  # it is released already

    def _part_ended(self, part: Part) -> None:
        """Called by a courier: wake the waiting thread, if there is work for it."""
        self._ended.append(part)
        is_failure = part.answer is None or part.answer.status >= 500
        if is_failure or len(self._ended) >= len(self.pending):
            self.wake()

    def _set_alarm(self, give_up_at: float | None) -> None:
        # Not every answer wakes the thread. So it also wakes after the time in which a quorum
        # would make a difference.
        soon = time.monotonic() + max(self._patience, PATIENCE)
        deadline = next(iter(self.pending)).deadline
        self.alarm_at = min(soon, deadline, give_up_at or soon)

    def _take_in(self) -> list[Attempt]:
        ended = []
        while self._ended:
            part = self._ended.popleft()
            attempt = self.pending.pop(part, None)
            if attempt is None:
                continue  # it was given up
            self._last_at = part.ended_at
            if part.answer is None:
                assert part.error is not None
                self._backends.failed(attempt.node, self._request, part.error)
            elif self._backends.is_usable(attempt.node, self._request, part.answer):
                attempt.answer = part.answer
            ended.append(attempt)
        return ended

    def _past_deadline(self) -> list[Attempt]:
        now = time.monotonic()
        ended = []
        for part, attempt in list(self.pending.items()):
            if part.deadline <= now:
                part.is_withdrawn = True
                del self.pending[part]
                error = ReadTimeout(part.address, f"no answer in {part.timeout} s")
                self._backends.failed(attempt.node, self._request, error)
                ended.append(attempt)
        return ended

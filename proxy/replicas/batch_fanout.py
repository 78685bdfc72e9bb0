# SPDX-License-Identifier: Apache-2.0
"""One small request to several devices at a time, in batches with those of others."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence

from martlet.http.backend_client import ReadTimeout
from proxy.replicas.backends import BackendRequest, Backends
from proxy.replicas.batch import Batches, Part
from proxy.replicas.fanout import PATIENCE, Decided, Outcome, says_something
from ring.ring import Node


def ask_in_batches(
    backends: Backends,
    batches: Batches,
    request: BackendRequest,
    nodes: Iterator[Node],
    headers: Sequence[bytes],
    decided: Decided,
    post_quorum_timeout: float,
) -> list[Outcome]:
    """As `fanout.ask_all`, but each request travels with others to the same server."""
    gathering = _Gathering(backends, batches, request, nodes, post_quorum_timeout)
    return gathering.run(headers, decided)


class _Gathering:
    """The answers to the requests of a fan-out."""

    def __init__(
        self,
        backends: Backends,
        batches: Batches,
        request: BackendRequest,
        nodes: Iterator[Node],
        patience: float,
    ) -> None:
        self._backends = backends
        self._batches = batches
        self._request = request
        self._nodes = nodes
        self._patience = patience
        # Which of the requests a part is, and to which device; in the order of their deadlines.
        self._sent: dict[Part, tuple[int, Node]] = {}
        self._ended: deque[Part] = deque()  # filled by couriers
        # Released, once at most, when there is something to do. An Event costs three times as much.
        self._bell = threading.Lock()
        self._bell.acquire()
        self._outcomes: list[Outcome] = []
        self._last_at = 0.0  # when the last answer came
        self.alarm_at = 0.0

    def run(self, headers: Sequence[bytes], decided: Decided) -> list[Outcome]:
        """Send, and wait for what matters."""
        for index, lines in enumerate(headers):
            self._send(index, lines)
        self._set_alarm(None)
        try:
            self._batches.alarms.add(self)
            self._gather(decided)
        finally:
            self._batches.alarms.remove(self)
        for part in self._sent:
            part.is_withdrawn = True
        return self._outcomes

    def _gather(self, decided: Decided) -> None:
        give_up_at: float | None = None
        while self._sent:
            self._bell.acquire()
            self._take_in()
            if not self._sent:
                break  # as nearly always
            self._give_up_late()
            if give_up_at is None and decided([o.answer.status for o in self._outcomes]):
                give_up_at = self._last_at + self._patience
            if give_up_at is not None and time.monotonic() >= give_up_at:
                break
            self._set_alarm(give_up_at)

    def _send(self, index: int, headers: bytes) -> None:
        """Send to the next device, if there is one left."""
        request = self._request
        for node in self._nodes:
            part = Part(
                (node["ip"], node["port"]),
                request.method,
                request.path_on(node),
                headers,
                request.body,
                request.timeout,
                self._part_ended,
            )
            self._sent[part] = (index, node)
            self._batches.send(part)
            return

    def _part_ended(self, part: Part) -> None:
        """Called by a courier: wake up, if there is something to do."""
        self._ended.append(part)
        is_failure = part.answer is None or part.answer.status >= 500
        if is_failure or len(self._ended) >= len(self._sent):
            self.wake()

    def wake(self) -> None:
        """Ring the bell."""
        try:
            self._bell.release()
        except RuntimeError:
            pass  # it has been rung

    def _set_alarm(self, give_up_at: float | None) -> None:
        # Some of the answers do not wake us up. So look how things stand at least as often as a
        # quorum would make a difference.
        soon = time.monotonic() + max(self._patience, PATIENCE)
        deadline = next(iter(self._sent)).deadline if self._sent else soon
        self.alarm_at = min(soon, deadline, give_up_at or soon)

    def _take_in(self) -> None:
        while self._ended:
            part = self._ended.popleft()
            sent = self._sent.pop(part, None)
            if sent is None:
                continue  # it was given up
            index, node = sent
            self._last_at = part.ended_at
            answer = part.answer
            if answer is None:
                assert part.error is not None
                self._backends.failed(node, self._request, part.error)
            elif self._backends.is_usable(node, self._request, answer):
                if says_something(node, answer):
                    self._outcomes.append(Outcome(index, node, answer))
                continue
            self._send(index, part.headers)

    def _give_up_late(self) -> None:
        now = time.monotonic()
        for part, (index, node) in list(self._sent.items()):
            if part.deadline <= now:
                part.is_withdrawn = True
                del self._sent[part]
                error = ReadTimeout(part.address, f"no answer in {part.timeout} s")
                self._backends.failed(node, self._request, error)
                self._send(index, part.headers)

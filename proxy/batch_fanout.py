# SPDX-License-Identifier: Apache-2.0
"""One small request to several devices at a time, in batches with those of others."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress

from martlet.backend_client import ReadTimeout
from proxy.backends import BackendRequest, Backends
from proxy.batch import Batches, Part
from proxy.fanout import PATIENCE, Decided, Outcome, says_something
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


class _Sent:
    """One of the requests, under way to some device."""

    __slots__ = ("deadline", "headers", "index", "node", "part")

    def __init__(self, index: int, headers: bytes, node: Node, part: Part) -> None:
        self.index = index
        self.headers = headers
        self.node = node
        self.part = part
        self.deadline = time.monotonic() + part.timeout


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
        self._sent: dict[Part, _Sent] = {}
        self._ended: deque[Part] = deque()  # filled by couriers
        # Released, once at most, when there is something to do. An Event costs three times as much.
        self._bell = threading.Lock()
        self._bell.acquire()
        self._outcomes: list[Outcome] = []
        self._last_at = 0.0  # when the last answer came

    def run(self, headers: Sequence[bytes], decided: Decided) -> list[Outcome]:
        """Send, and wait for what matters."""
        for index, lines in enumerate(headers):
            self._send(index, lines)
        give_up_at: float | None = None
        while self._sent:
            self._wait(give_up_at)
            self._take_in()
            if not self._sent:
                break  # as nearly always
            self._give_up_late()
            if give_up_at is None and decided([o.answer.status for o in self._outcomes]):
                give_up_at = self._last_at + self._patience
            if give_up_at is not None and time.monotonic() >= give_up_at:
                break
        for part in self._sent:
            part.is_withdrawn = True
        return self._outcomes

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
            self._sent[part] = _Sent(index, headers, node, part)
            self._batches.send(part)
            return

    def _part_ended(self, part: Part) -> None:
        """Called by a courier: wake up, if there is something to do."""
        self._ended.append(part)
        is_failure = part.answer is None or part.answer.status >= 500
        if is_failure or len(self._ended) >= len(self._sent):
            with suppress(RuntimeError):  # it has been rung
                self._bell.release()

    def _wait(self, give_up_at: float | None) -> None:
        until = min(sent.deadline for sent in self._sent.values())
        if give_up_at is not None:
            until = min(until, give_up_at)
        # Some of the answers do not wake us up. So look how things stand at least as often as a
        # quorum would make a difference.
        longest = max(self._patience, PATIENCE)
        self._bell.acquire(timeout=max(0.0, min(until - time.monotonic(), longest)))

    def _take_in(self) -> None:
        while self._ended:
            part = self._ended.popleft()
            sent = self._sent.pop(part, None)
            if sent is None:
                continue  # it was given up
            self._last_at = part.ended_at
            answer = part.answer
            if answer is None:
                assert part.error is not None
                self._backends.failed(sent.node, self._request, part.error)
            elif self._backends.is_usable(sent.node, self._request, answer.status):
                if says_something(sent.node, answer):
                    self._outcomes.append(Outcome(sent.index, sent.node, answer))
                continue
            self._send(sent.index, sent.headers)

    def _give_up_late(self) -> None:
        now = time.monotonic()
        for part, sent in list(self._sent.items()):
            if sent.deadline <= now:
                part.is_withdrawn = True
                del self._sent[part]
                error = ReadTimeout(part.address, f"no answer in {part.timeout} s")
                self._backends.failed(sent.node, self._request, error)
                self._send(sent.index, sent.headers)

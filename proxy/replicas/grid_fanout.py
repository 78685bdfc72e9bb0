# SPDX-License-Identifier: Apache-2.0
"""One request to several devices in parallel: over the grid, and by HTTP to servers without it.

The thread sleeps until all answers are there, one request fails, or the answers so far may decide
the outcome. In a healthy cluster it wakes once.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence, Sized

from proxy.replicas.backends import BackendRequest, Backends
from proxy.replicas.engine import PATIENCE, Attempt, Decided, Outcome, ask
from proxy.replicas.fanout import Exchanges
from proxy.replicas.grid_requests import GridRequests, Sent
from proxy.wire_headers import WireHeaders
from ring.ring import Node


def ask_all(
    backends: Backends,
    request: BackendRequest,
    nodes: Iterator[Node],
    headers: Sequence[WireHeaders],
    decided: Decided,
    post_quorum_timeout: float,
) -> list[Outcome]:
    """Send one request for each element of ``headers``, each to a device of its own.

    `engine` has the rules. There may be fewer outcomes than requests.
    """
    transport = GridFanOut(backends, request, post_quorum_timeout)
    return ask(transport, nodes, headers, decided, post_quorum_timeout)


class GridFanOut:
    """A transport over the grid, and one by HTTP for the servers without it.

    While both have requests in flight, they wait in turns.
    """

    def __init__(self, backends: Backends, request: BackendRequest, patience: float) -> None:
        self._backends = backends
        self._request = request
        self._patience = max(patience, PATIENCE)
        self._grid = GridRequests(backends.grid, request)
        self._http = Exchanges(backends, request)
        self._heard_at = 0.0

    @property
    def pending(self) -> Sized:
        """Those of one transport, then of the other."""
        return self._grid.pending or self._http.pending

    def send(self, index: int, headers: WireHeaders, node: Node) -> bool:
        """Send the whole request. Over the grid, a failure is known only later."""
        if not self._backends.grid.serves(node, self._grid.name):
            return self._http.send(index, headers, node)
        self._grid.send(Sent(index, headers, node))
        return True

    def receive(self, give_up_at: float | None) -> Iterable[Attempt] | None:
        """All attempts over the grid that have ended, or one by HTTP."""
        if not self._grid.pending:
            return self._receive_http(give_up_at)
        now = time.monotonic()
        if give_up_at is not None and now >= give_up_at:
            return None
        # Without a failure the thread wakes only for the last answer. But the others may decide the
        # outcome, so it also wakes after the time that would be left for the last one then.
        until = now + self._patience if give_up_at is None else give_up_at
        if self._http.pending:
            until = min(until, now + PATIENCE)
        sent = self._grid.wait(until)
        if sent:
            self._heard_at = self._grid.heard_at
        ended = [attempt for attempt in sent if self._is_over(attempt)]
        if not ended and self._http.pending:
            return self._receive_http(time.monotonic()) or ()
        return ended

    def heard_at(self) -> float:
        """When the last answer came. The waiting thread may have slept since then."""
        return self._heard_at or time.monotonic()

    def give_up(self) -> Iterable[Attempt]:
        """Cancel the late requests; their devices may have missed a write."""
        for sent in self._grid.give_up():
            self._backends.gave_up(sent.node)
        return self._http.give_up()

    def _receive_http(self, give_up_at: float | None) -> Iterable[Attempt] | None:
        ended = self._http.receive(give_up_at)
        if ended:
            self._heard_at = self._http.heard_at()
        return ended

    def _is_over(self, sent: Sent) -> bool:
        """Whether the attempt has ended; else HTTP carries it now. Failures are noted."""
        answer, sent.answer = sent.answer, None
        if sent.is_for_http:
            if not self._http.send(sent.index, sent.headers, sent.node):
                return True
            self._http.pending[-1].exchange.was_resent |= sent.is_resent
            return False
        if sent.error is not None:
            self._backends.failed(sent.node, self._request, sent.error)
        elif answer is not None and self._backends.is_usable(sent.node, self._request, answer):
            sent.answer = answer
        return True

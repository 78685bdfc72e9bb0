# SPDX-License-Identifier: Apache-2.0
"""One request to several devices in parallel by HTTP, each over a connection of its own.

The transport needs no thread. It sends to every device before it reads the first answer. It reads
the answers in turn, since in a healthy cluster they come together. If one is late, `select` finds
the connection that is ready. The module uses only the standard library: under eventlet's monkey
patch select is green.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterable

from martlet.http.backend_client import (
    BackendError,
    BackendExchange,
    BackendResponse,
    ReadTimeout,
)
from proxy.replicas.backends import ANSWER_BYTES_MAX, BackendRequest, Backends
from proxy.replicas.engine import PATIENCE, Attempt
from proxy.replicas.quorum import Answer
from proxy.wire_headers import WireHeaders
from ring.ring import Node


class Slot(Attempt):
    """An attempt over a connection of its own."""

    __slots__ = ("deadline", "exchange", "is_slow")

    def __init__(
        self, index: int, headers: WireHeaders, node: Node, exchange: BackendExchange
    ) -> None:
        # The same as in the base class, which saves a call for each replica.
        self.index = index
        self.headers = headers
        self.node = node
        self.answer = None
        self.exchange = exchange
        self.deadline = time.monotonic() + exchange.timeout
        self.is_slow = False

    def fileno(self) -> int:
        """The descriptor that `select` waits on."""
        return self.exchange.fileno()


class Exchanges:
    """A transport with a connection for each request."""

    def __init__(self, backends: Backends, request: BackendRequest) -> None:
        self.backends = backends
        self.request = request
        self.pending: list[Slot] = []

    def send(self, index: int, headers: WireHeaders, node: Node) -> bool:
        """Send the whole request."""
        exchange = self.backends.start(node, self.request, headers)
        if exchange is None:
            return False
        self.pending.append(Slot(index, headers, node, exchange))
        return True

    def receive(self, give_up_at: float | None) -> Iterable[Attempt] | None:
        """Read from one device. Empty if its answer has not come yet; the device is slow then."""
        slot = self._next(give_up_at)
        if slot is None:
            return None
        was_slow, slot.is_slow = slot.is_slow, False
        try:
            slot.answer = self.read(slot)
        except ReadTimeout:
            if not was_slow or time.monotonic() < slot.deadline:
                slot.is_slow = True
                return ()
            self.fail_silent(slot, slot.exchange.timeout)
        except BackendError as error:
            slot.exchange.abort()
            self.backends.failed(slot.node, self.request, error)
        self.pending.remove(slot)
        return (slot,)

    def heard_at(self) -> float:
        """Now, since each answer is returned as soon as it has been read."""
        return time.monotonic()

    def give_up(self) -> Iterable[Attempt]:
        """Close the connections of the late devices, which may have missed a write."""
        for slot in self.pending:
            slot.exchange.abort()
            self.backends.gave_up(slot.node)
        self.pending = []
        return ()

    def read(self, slot: Slot) -> Answer | None:
        """The whole answer, or None for a server error.

        :raises BackendError: no answer; after a ReadTimeout it may still come.
        """
        return self.usable(slot, slot.exchange.response(PATIENCE))

    def usable(self, slot: Slot, response: BackendResponse) -> Answer | None:
        """The answer with its body, or None for a server error."""
        if self.backends.is_usable(slot.node, self.request, response):
            body = response.body(ANSWER_BYTES_MAX)
            return Answer(response.status, response.headers, body, slot.exchange.was_resent)
        response.close()
        return None

    def fail_silent(self, slot: Slot, seconds: float) -> None:
        """Stop waiting for a device that sent nothing for ``seconds``."""
        slot.exchange.abort()
        error = ReadTimeout(slot.exchange.address, f"no answer in {seconds} s")
        self.backends.failed(slot.node, self.request, error)

    def _next(self, give_up_at: float | None) -> Slot | None:
        """The slot to read from next; waits for one if necessary. None at ``give_up_at``."""
        for slot in self.pending:
            if not slot.is_slow:
                return slot
        until = min(slot.deadline for slot in self.pending)
        if give_up_at is not None:
            until = min(until, give_up_at)
        ready, _, _ = select.select(self.pending, [], [], max(0.0, until - time.monotonic()))
        if ready:
            found: Slot = ready[0]
            return found
        if give_up_at is not None and time.monotonic() >= give_up_at:
            return None
        # The slot that is past its deadline. The caller's read then times out.
        return min(self.pending, key=lambda slot: slot.deadline)

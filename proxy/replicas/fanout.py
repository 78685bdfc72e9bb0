# SPDX-License-Identifier: Apache-2.0
"""One request to several devices at a time.

All concurrency of the proxy is here and in `uploads`, and made of the standard library alone:
under eventlet's monkey patch select, threads and queues are green. `ask_all` needs no thread: it
sends to every device before it reads the first answer, and reads the answers in turn, since in a
healthy cluster they come together. Only when one lets the others wait does it look which is ready.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from martlet.http.backend_client import (
    BackendError,
    BackendExchange,
    BackendResponse,
    ReadTimeout,
)
from proxy.replicas.backends import BackendRequest, Backends
from proxy.replicas.quorum import Answer
from ring.ring import Node

# An answer that is later than this is no longer waited for in its turn, seconds.
PATIENCE = 0.05
# The body of an answer to a write; storage servers send a line at most.
ANSWER_BYTES_MAX = 64 * 1024

Decided = Callable[[list[int]], bool]
Send = Callable[[Node, bytes], BackendExchange | None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the device that served one of the requests said; ``index`` says which request."""

    index: int
    node: Node
    answer: Answer


class Slot:
    """One of the requests of a fan-out, under way to some device.

    ``send`` sends it, with its header lines, to a given device; None when that failed.
    """

    __slots__ = ("_headers", "_send", "deadline", "exchange", "index", "is_slow", "node")

    def __init__(self, index: int, headers: bytes, send: Send) -> None:
        self.index = index
        self._headers = headers
        self._send = send
        self.is_slow = False
        self.node: Node
        self.exchange: BackendExchange
        self.deadline = 0.0

    def fileno(self) -> int:
        """What `select` waits on."""
        return self.exchange.fileno()

    def start(self, nodes: Iterator[Node]) -> bool:
        """Send to the next device that takes the request; False when there is none left."""
        for node in nodes:
            exchange = self._send(node, self._headers)
            if exchange is not None:
                self.node = node
                self.exchange = exchange
                self.is_slow = False
                self.deadline = time.monotonic() + exchange.timeout
                return True
        return False


def ask_all(
    backends: Backends,
    request: BackendRequest,
    nodes: Iterator[Node],
    headers: Sequence[bytes],
    decided: Decided,
    post_quorum_timeout: float,
) -> list[Outcome]:
    """Send one request for each element of ``headers``, each to a device of its own.

    A device that fails, or answers with a server error, is replaced by the next one of ``nodes``.
    Once the statuses have ``decided`` the outcome, the rest is waited for a little longer and then
    given up. A 404 of a hand-off that never had the thing says nothing and is left out. So there
    may be fewer outcomes than requests.
    """

    def send(node: Node, lines: bytes) -> BackendExchange | None:
        return backends.start(node, request, lines)

    def read(slot: Slot) -> Answer | None:
        response = slot.exchange.response(PATIENCE)
        return usable_answer(backends, request, slot, response)

    slots = [Slot(index, lines, send) for index, lines in enumerate(headers)]
    pending = [slot for slot in slots if slot.start(nodes)]
    outcomes: list[Outcome] = []
    give_up_at: float | None = None
    while pending:
        if give_up_at is None and decided([o.answer.status for o in outcomes]):
            give_up_at = time.monotonic() + post_quorum_timeout
        slot = next_to_read(pending, give_up_at)
        if slot is None:
            break
        answer = read_slot(backends, request, slot, read)
        if slot.is_slow:
            continue
        pending.remove(slot)
        if answer is None:
            if slot.start(nodes):
                pending.append(slot)
        elif says_something(slot.node, answer):
            outcomes.append(Outcome(slot.index, slot.node, answer))
    for slot in pending:
        slot.exchange.abort()
        backends.gave_up(slot.node)
    return outcomes


def next_to_read(pending: list[Slot], give_up_at: float | None) -> Slot | None:
    """The slot to read from next, waiting for it if need be; None at the time ``give_up_at``."""
    for slot in pending:
        if not slot.is_slow:
            return slot
    until = min(slot.deadline for slot in pending)
    if give_up_at is not None:
        until = min(until, give_up_at)
    ready, _, _ = select.select(pending, [], [], max(0.0, until - time.monotonic()))
    if ready:
        found: Slot = ready[0]
        return found
    if give_up_at is not None and time.monotonic() >= give_up_at:
        return None
    # The one whose time is up: reading from it makes that known.
    return min(pending, key=lambda slot: slot.deadline)


def read_slot(
    backends: Backends,
    request: BackendRequest,
    slot: Slot,
    read: Callable[[Slot], Answer | None],
) -> Answer | None:
    """What ``read`` gives; None if it is not there yet (then the slot is slow) or never will be."""
    was_slow, slot.is_slow = slot.is_slow, False
    try:
        return read(slot)
    except ReadTimeout:
        if was_slow and time.monotonic() >= slot.deadline:
            give_up(backends, request, slot, slot.exchange.timeout)
        else:
            slot.is_slow = True
    except BackendError as error:
        slot.exchange.abort()
        backends.failed(slot.node, request, error)
    return None


def give_up(backends: Backends, request: BackendRequest, slot: Slot, seconds: float) -> None:
    """Stop waiting for a device that said nothing for so long."""
    slot.exchange.abort()
    error = ReadTimeout(slot.exchange.address, f"no answer in {seconds} s")
    backends.failed(slot.node, request, error)


def usable_answer(
    backends: Backends, request: BackendRequest, slot: Slot, response: BackendResponse
) -> Answer | None:
    """The whole answer, or None for a server error."""
    if backends.is_usable(slot.node, request, response):
        body = response.body(ANSWER_BYTES_MAX)
        return Answer(response.status, response.headers, body, slot.exchange.was_resent)
    response.close()
    return None


def says_something(node: Node, answer: Answer) -> bool:
    """False for a 404 of a hand-off that never had the thing."""
    return (
        answer.status != 404
        or "handoff_index" not in node
        or "x-backend-timestamp" in answer.headers
    )

# SPDX-License-Identifier: Apache-2.0
"""One request to several devices: the next device to ask, the decision, the time to give up.

The rules are the same for every request and every transport:

- Each request goes to the next device of the queue that accepts it.
- A device that fails is replaced by the next one.
- A 404 of a hand-off that never had the object does not count; the device is not replaced.
- Once the statuses decide the outcome, the transport waits a little longer for the remaining
  answers. Then it gives them up.

The engine does no I/O and reads no clock. The `Transport` below it does both: over the grid
(``grid_fanout``), over an HTTP connection for each request (``fanout``), or with bodies in pieces
(``uploads``). The transport also notes which devices fail, since it knows the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Protocol

from proxy.replicas.quorum import Answer
from proxy.wire_headers import WireHeaders
from ring.ring import Node

# The longest wait for one answer before the others get their turn, seconds.
PATIENCE = 0.05

#: Whether the statuses of the answers so far decide the outcome.
Decided = Callable[[list[int]], bool]


@dataclass(slots=True)  # frozen, it would take three times as long to make
class Outcome:
    """The answer of the device that served one of the requests; ``index`` says which request."""

    index: int
    node: Node
    answer: Answer


class Attempt:
    """One of the requests at one device.

    The engine reads ``answer`` when the attempt has ended. None means that the request goes to
    another device.
    """

    __slots__ = ("answer", "headers", "index", "node")

    def __init__(self, index: int, headers: WireHeaders, node: Node) -> None:
        self.index = index
        self.headers = headers
        self.node = node
        self.answer: Answer | None = None


class Transport(Protocol):
    """Sends the requests of one fan-out to devices. Only one thread uses it."""

    @property
    def pending(self) -> Sized:
        """The attempts that have not ended."""

    def send(self, index: int, headers: WireHeaders, node: Node) -> bool:
        """Begin an attempt. False if the device does not accept it; this failure has been noted."""

    def receive(self, give_up_at: float | None) -> Iterable[Attempt] | None:
        """Wait until an attempt ends, and return those that ended; None at ``give_up_at``.

        The wait may also end early, with an empty result. ``give_up_at`` is a time.monotonic(), or
        None while the outcome is undecided. Failures of devices have been noted.
        """

    def heard_at(self) -> float:
        """When the last answer came, as a time.monotonic()."""

    def give_up(self) -> Iterable[Attempt]:
        """End the pending attempts; returns those that go to another device."""


def ask(
    transport: Transport,
    nodes: Iterator[Node],
    headers: Sequence[WireHeaders],
    decided: Decided,
    post_quorum_timeout: float,
) -> list[Outcome]:
    """Send one request for each element of ``headers``, each to a device of its own.

    There may be fewer outcomes than requests, since ``nodes`` may end before each has an answer.
    """
    for index, own in enumerate(headers):
        for node in nodes:
            if transport.send(index, own, node):
                break
    return collect(transport, nodes, decided, post_quorum_timeout)


def collect(
    transport: Transport, nodes: Iterator[Node], decided: Decided, post_quorum_timeout: float
) -> list[Outcome]:
    """The outcomes of the requests in flight; a failed one goes to the next of ``nodes``."""
    outcomes: list[Outcome] = []
    give_up_at: float | None = None
    while transport.pending:
        if give_up_at is None and decided([o.answer.status for o in outcomes]):
            give_up_at = transport.heard_at() + post_quorum_timeout
        ended = transport.receive(give_up_at)
        if ended is None:
            ended = transport.give_up()
            give_up_at = None
        for attempt in ended:
            answer = attempt.answer
            if answer is None:
                for node in nodes:
                    if transport.send(attempt.index, attempt.headers, node):
                        break
            elif answer.status != 404 or _knows(attempt.node, answer):
                outcomes.append(Outcome(attempt.index, attempt.node, answer))
    return outcomes


def _knows(node: Node, answer: Answer) -> bool:
    """Whether a device that answers 404 should have the object, or had it once."""
    return "handoff_index" not in node or "x-backend-timestamp" in answer.headers

# SPDX-License-Identifier: Apache-2.0
"""One request to several devices at a time.

All concurrency of the proxy is here, and made of the standard library alone: under eventlet's
monkey patch select, threads and queues are green. `ask_all` needs no thread at all: it sends to
every device before it reads the first answer, and reads the answers in turn, since in a healthy
cluster they come together. Only when one lets the others wait does it look which is ready.
"""

from __future__ import annotations

import queue
import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from martlet.backend_client import (
    BackendError,
    BackendExchange,
    BackendUpload,
    ReadTimeout,
)
from proxy.backends import BackendRequest, Backends
from proxy.quorum import Answer
from ring.ring import Node

# An answer that is later than this is no longer waited for in its turn, seconds.
PATIENCE = 0.05
# Pieces of an upload that may wait for one device. The client is read at the pace of the slowest
# device, less this much.
QUEUED_CHUNKS_MAX = 4

Decided = Callable[[list[int]], bool]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the device that served one of the requests said; ``index`` says which request."""

    index: int
    node: Node
    answer: Answer


class _Slot:
    """One of the requests of a fan-out, under way to some device."""

    __slots__ = ("deadline", "exchange", "headers", "index", "is_slow", "node")

    def __init__(self, index: int, headers: bytes) -> None:
        self.index = index
        self.headers = headers
        self.is_slow = False
        self.node: Node
        self.exchange: BackendExchange
        self.deadline = 0.0

    def fileno(self) -> int:
        return self.exchange.fileno()

    def start(self, backends: Backends, request: BackendRequest, nodes: Iterator[Node]) -> bool:
        """Send to the next device that takes the request; False when there is none left."""
        for node in nodes:
            exchange = backends.start(node, request, self.headers)
            if exchange is not None:
                self.node = node
                self.exchange = exchange
                self.is_slow = False
                self.deadline = time.monotonic() + request.timeout
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
    pending: list[_Slot] = []
    for index, lines in enumerate(headers):
        slot = _Slot(index, lines)
        if slot.start(backends, request, nodes):
            pending.append(slot)
    outcomes: list[Outcome] = []
    give_up_at: float | None = None
    while pending:
        if give_up_at is None and decided([o.answer.status for o in outcomes]):
            give_up_at = time.monotonic() + post_quorum_timeout
        slot_or_none = _next_to_read(pending, give_up_at)
        if slot_or_none is None:
            break
        answer = _read_answer(backends, request, slot_or_none)
        if answer is None:
            if slot_or_none.is_slow:
                continue
            pending.remove(slot_or_none)
            if slot_or_none.start(backends, request, nodes):
                pending.append(slot_or_none)
        else:
            pending.remove(slot_or_none)
            if _says_something(slot_or_none.node, answer):
                outcomes.append(Outcome(slot_or_none.index, slot_or_none.node, answer))
    for slot in pending:
        slot.exchange.abort()
    return outcomes


def _next_to_read(pending: list[_Slot], give_up_at: float | None) -> _Slot | None:
    """The slot to read from next; None when the time is up."""
    for slot in pending:
        if not slot.is_slow:
            return slot
    until = min(slot.deadline for slot in pending)
    if give_up_at is not None:
        until = min(until, give_up_at)
    ready, _, _ = select.select(pending, [], [], max(0.0, until - time.monotonic()))
    if ready:
        found: _Slot = ready[0]
        return found
    now = time.monotonic()
    if give_up_at is not None and now >= give_up_at:
        return None
    # The one whose time is up: reading from it makes that known.
    return min(pending, key=lambda slot: slot.deadline)


def _read_answer(backends: Backends, request: BackendRequest, slot: _Slot) -> Answer | None:
    """The answer; None if it is not there yet (the slot is slow) or of no use."""
    was_slow = slot.is_slow
    try:
        response = slot.exchange.response(PATIENCE)
        slot.is_slow = False
        if backends.is_usable(slot.node, request, response):
            return Answer(response.status, response.headers, response.body())
        response.close()
    except ReadTimeout:
        slot.is_slow = not (was_slow and time.monotonic() >= slot.deadline)
        if not slot.is_slow:
            slot.exchange.abort()
            error = ReadTimeout(slot.exchange.address, f"no answer in {request.timeout} s")
            backends.failed(slot.node, request, error)
    except BackendError as lost:
        slot.is_slow = False
        backends.failed(slot.node, request, lost)
    return None


def _says_something(node: Node, answer: Answer) -> bool:
    return (
        answer.status != 404
        or "handoff_index" not in node
        or "x-backend-timestamp" in answer.headers
    )


class Uploads:
    """A body on its way to several devices, each with a thread and a short queue of its own.

    open(), then send() for each piece, then finish(); or abort(), after which no device has
    stored anything.
    """

    def __init__(self, backends: Backends, request: BackendRequest) -> None:
        self._backends = backends
        self._request = request
        self._writers: list[_Writer] = []
        self._done: queue.Queue[_Writer] = queue.Queue()

    def open(
        self, nodes: Iterator[Node], headers: Sequence[bytes], content_length: int | None
    ) -> list[Answer]:
        """Find a device for each element of ``headers`` that asks for the body.

        Returns the answers of those which refused it for good (409, 412 and the like).
        """
        refusals: list[Answer] = []
        started = [
            (lines, *found)
            for lines in headers
            if (found := self._start(nodes, lines, content_length)) is not None
        ]
        while started:
            lines, node, upload = started.pop(0)
            is_ready, refusal = self._await_continue(node, upload)
            if is_ready:
                self._writers.append(_Writer(len(self._writers), node, upload, self._done))
            elif refusal is not None:
                refusals.append(refusal)
            elif (found := self._start(nodes, lines, content_length)) is not None:
                started.append((lines, *found))
        return refusals

    @property
    def live_count(self) -> int:
        """How many devices still take the body."""
        return len(self._writers)

    def start_writers(self) -> None:
        """From now on send() may be called."""
        for writer in self._writers:
            writer.start()

    def send(self, chunk: bytes) -> None:
        """Queue a piece for every device; a device that failed, or takes nothing, is dropped."""
        for writer in list(self._writers):
            error = writer.error or writer.offer(chunk, self._request.timeout)
            if error is not None:
                self._drop(writer, error)

    def finish(self, decided: Decided, post_quorum_timeout: float) -> list[Outcome]:
        """End the body and collect the answers, as `ask_all` does, but nothing is sent twice."""
        for writer in list(self._writers):
            error = writer.offer(b"", self._request.timeout)
            if error is not None:
                self._drop(writer, error)
        waiting = list(self._writers)
        outcomes: list[Outcome] = []
        give_up_at: float | None = None
        while waiting:
            if give_up_at is None and decided([o.answer.status for o in outcomes]):
                give_up_at = time.monotonic() + post_quorum_timeout
            # Without an outcome yet, each writer ends by itself within its own time-outs.
            wait = None if give_up_at is None else max(0.0, give_up_at - time.monotonic())
            try:
                writer = self._done.get(timeout=wait)
            except queue.Empty:
                break
            if writer not in waiting:
                continue  # dropped before
            waiting.remove(writer)
            if writer.answer is not None:
                outcomes.append(Outcome(writer.index, writer.node, writer.answer))
            elif writer.error is not None:
                self._backends.failed(writer.node, self._request, writer.error)
        for writer in waiting:
            writer.abort()
        return outcomes

    def abort(self) -> None:
        """Give the upload up; every device sees a body that was cut short."""
        for writer in self._writers:
            writer.abort()
        self._writers = []

    def _drop(self, writer: _Writer, error: BackendError) -> None:
        self._backends.failed(writer.node, self._request, error)
        self._writers.remove(writer)
        writer.abort()

    def _start(
        self, nodes: Iterator[Node], headers: bytes, content_length: int | None
    ) -> tuple[Node, BackendUpload] | None:
        for node in nodes:
            upload = self._backends.start_upload(node, self._request, headers, content_length)
            if upload is not None:
                return node, upload
        return None

    def _await_continue(self, node: Node, upload: BackendUpload) -> tuple[bool, Answer | None]:
        try:
            response = upload.expect_continue()
            if response is None:
                return True, None
            if self._backends.is_usable(node, self._request, response):
                return False, Answer(response.status, response.headers, response.body())
            response.close()
        except BackendError as error:
            upload.abort()
            self._backends.failed(node, self._request, error)
        return False, None


class _Writer:
    """Sends what is queued to one device, and reads its answer when the empty piece comes.

    None in the queue is the end of an upload that was given up: nothing more is sent.
    """

    def __init__(
        self, index: int, node: Node, upload: BackendUpload, done: queue.Queue[_Writer]
    ) -> None:
        self.index = index
        self.node = node
        self.answer: Answer | None = None
        self.error: BackendError | None = None
        self._upload = upload
        self._done = done
        self._chunks: queue.Queue[bytes | None] = queue.Queue(QUEUED_CHUNKS_MAX)
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def offer(self, chunk: bytes, timeout: float) -> BackendError | None:
        """Queue a piece; an error says that there was no room for it within ``timeout``."""
        try:
            self._chunks.put(chunk, timeout=timeout)
        except queue.Full:
            return ReadTimeout(self._upload.address, f"takes no data for {timeout} s")
        return None

    def abort(self) -> None:
        self._upload.abort()
        if self._thread is not None:
            self._chunks.put(None)  # there is room soon: without its connection the thread drains

    def _run(self) -> None:
        chunk: bytes | None = None
        try:
            while chunk := self._chunks.get():
                self._upload.send(chunk)
            if chunk is not None:
                response = self._upload.finish()
                self.answer = Answer(response.status, response.headers, response.body())
        except BackendError as error:
            self.error = error
            self._upload.abort()
        while chunk:  # failed: the rest is thrown away until its end
            chunk = self._chunks.get()
        self._done.put(self)

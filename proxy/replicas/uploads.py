# SPDX-License-Identifier: Apache-2.0
"""A body on its way from a client to several devices at once.

Each device has a thread and a short queue, so that none waits for another until the queue is full;
the body is never held as a whole.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Sequence

from martlet.conf.options import is_true
from martlet.http.backend_client import (
    BackendError,
    BackendExchange,
    BackendUpload,
    BadResponse,
    ReadTimeout,
)
from proxy.replicas.backends import BackendRequest, Backends
from proxy.replicas.fanout import (
    ANSWER_BYTES_MAX,
    PATIENCE,
    Decided,
    Outcome,
    Slot,
    give_up,
    next_to_read,
    read_slot,
    usable_answer,
)
from proxy.replicas.footers import AGREEMENT
from proxy.replicas.quorum import Answer
from ring.ring import Node

# Pieces that may wait for one device. The client is read at the pace of the slowest device, less
# this much.
QUEUED_CHUNKS_MAX = 4

_GO_ON = Answer(100)


class Uploads:
    """A body on its way to several devices, each with a thread and a short queue of its own.

    open(), then send() for each piece, then finish(); or abort(), after which no device has
    stored anything. With ``needs_footers`` a device must agree to take metadata after the object.
    """

    def __init__(
        self, backends: Backends, request: BackendRequest, *, needs_footers: bool = False
    ) -> None:
        self._backends = backends
        self._request = request
        self._needs_footers = needs_footers
        self._writers: list[_Writer] = []
        self._done: queue.Queue[_Writer] = queue.Queue()

    def open(
        self,
        nodes: Iterator[Node],
        headers: Sequence[bytes],
        content_length: int | None,
        enough: int,
        patience: float,
    ) -> list[Outcome]:
        """Find a device for each element of ``headers`` that asks for the body.

        Once ``enough`` have answered, the others have ``patience`` seconds: a device that hangs is
        replaced and holds nobody up. Returns the answers of those which refused the body for good
        (409, 412 and the like).
        """

        def send(node: Node, lines: bytes) -> BackendExchange | None:
            return self._backends.start_upload(node, self._request, lines, content_length)

        refusals: list[Outcome] = []
        slots = [Slot(index, lines, send) for index, lines in enumerate(headers)]
        pending = [slot for slot in slots if slot.start(nodes)]
        give_up_at: float | None = None
        while pending:
            if give_up_at is None and len(self._writers) + len(refusals) >= enough:
                give_up_at = time.monotonic() + patience
            slot = next_to_read(pending, give_up_at)
            if slot is None:
                for late in pending:
                    give_up(self._backends, self._request, late, patience)
                pending = [late for late in pending if late.start(nodes)]
                give_up_at = None
                continue
            answer = read_slot(self._backends, self._request, slot, self._read_continue)
            if slot.is_slow:
                continue
            pending.remove(slot)
            if answer is _GO_ON:
                self._writers.append(_Writer(slot, self._done))
            elif answer is not None:
                refusals.append(Outcome(slot.index, slot.node, answer))
            elif slot.start(nodes):
                pending.append(slot)
        return refusals

    def _read_continue(self, slot: Slot) -> Answer | None:
        upload = _upload_of(slot)
        response = upload.expect_continue(PATIENCE)
        if response is None:
            if self._needs_footers and not is_true(upload.continue_headers.get(AGREEMENT)):
                raise BadResponse(upload.address, "takes no metadata after the object")
            return _GO_ON
        return usable_answer(self._backends, self._request, slot, response)

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
            if writer.error is not None:
                self._backends.failed(writer.node, self._request, writer.error)
            elif writer.answer is not None and self._backends.is_usable(
                writer.node, self._request, writer.answer
            ):
                outcomes.append(Outcome(writer.index, writer.node, writer.answer))
        for writer in waiting:
            writer.abort()
            self._backends.gave_up(writer.node)
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


def _upload_of(slot: Slot) -> BackendUpload:
    assert isinstance(slot.exchange, BackendUpload)
    return slot.exchange


class _Writer:
    """Sends what is queued to one device, and reads its answer when the empty piece comes.

    None in the queue is the end of an upload that was given up: nothing more is sent.
    """

    def __init__(self, slot: Slot, done: queue.Queue[_Writer]) -> None:
        self.index = slot.index
        self.node = slot.node
        self.answer: Answer | None = None
        self.error: BackendError | None = None
        self._upload = _upload_of(slot)
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
                body = response.body(ANSWER_BYTES_MAX)
                self.answer = Answer(response.status, response.headers, body)
        except BackendError as error:
            self.error = error
            self._upload.abort()
        except EOFError:
            pass  # eventlet's word for a connection closed while it was read from: given up
        while chunk:  # failed: the rest is thrown away until its end
            chunk = self._chunks.get()
        self._done.put(self)

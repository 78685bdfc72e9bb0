# SPDX-License-Identifier: Apache-2.0
"""The upload of a body from a client to several devices in parallel.

Each device has a thread and a short queue, so that none waits for another until the queue is full.
The whole body is never in memory.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from martlet.conf.options import is_true
from martlet.http.backend_client import BackendError, BackendUpload, BadResponse, ReadTimeout
from proxy.replicas.backends import ANSWER_BYTES_MAX, BackendRequest, Backends
from proxy.replicas.engine import PATIENCE, Attempt, Decided, Outcome, ask, collect
from proxy.replicas.fanout import Exchanges, Slot
from proxy.replicas.footers import AGREEMENT
from proxy.replicas.quorum import Answer
from proxy.wire_headers import WireHeaders
from ring.ring import Node

# Pieces that may wait for one device. The proxy reads from the client no further ahead of the
# slowest device than this.
QUEUED_CHUNKS_MAX = 4

#: Statuses that a server gives to a body which is not what the sender announced.
_BLAME_THE_SENDER = (422, 499)

_GO_ON = Answer(100)


class Uploads:
    """An upload to several devices, each with a thread and a short queue of its own.

    Call open(), start_writers(), send() for each piece, then finish(). Or call abort(), after which
    no device has stored anything. With ``needs_footers``, each device must agree to accept metadata
    after the object. The proxy has compared such an object itself, so a device that blames the
    sender for it got other bytes: that is an answer of 503.
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
        headers: Sequence[WireHeaders],
        content_length: int | None,
        enough: int,
        patience: float,
    ) -> list[Outcome]:
        """Find a device for each element of ``headers`` that asks for the body.

        Once ``enough`` devices have answered, the others have ``patience`` seconds. A device that
        hangs is replaced, so the client does not wait for it. Returns the answers of the devices
        that refused the body with a final status, such as 409 or 412.
        """
        opening = _Opening(
            self._backends, self._request, content_length, patience, self._needs_footers, self._add
        )
        outcomes = ask(opening, nodes, headers, lambda said: len(said) >= enough, patience)
        return [outcome for outcome in outcomes if outcome.answer is not _GO_ON]

    @property
    def live_count(self) -> int:
        """The number of devices that still accept the body."""
        return len(self._writers)

    def start_writers(self) -> None:
        """Start the threads, so that send() may be called."""
        for writer in self._writers:
            writer.start()

    def send(self, chunk: bytes) -> None:
        """Queue a piece for every device. A device that failed or accepts nothing is dropped."""
        for writer in list(self._writers):
            error = writer.error or writer.offer(chunk, self._request.timeout)
            if error is not None:
                self._drop(writer, error)

    def accepts(self, nodes: Iterable[Node]) -> int:
        """The number of these devices that still accept the body."""
        ids = {node["id"] for node in nodes}
        return sum(writer.node["id"] in ids for writer in self._writers)

    def finish_first(self, node: Node) -> Answer | None:
        """End the body at this device alone and return its answer; None if it fails.

        The other devices still wait for the end of the body.
        """
        first = next((w for w in self._writers if w.node["id"] == node["id"]), None)
        if first is None:
            return None
        error = first.offer(b"", self._request.timeout)
        if error is not None:
            self._drop(first, error)
            return None
        first.is_ended = True
        ended: list[_Writer] = []
        while first not in ended:
            ended.append(self._done.get())  # each ends by its own timeouts
        for writer in ended:
            self._done.put(writer)
        return first.said

    def finish(self, decided: Decided, post_quorum_timeout: float) -> list[Outcome]:
        """End the body and collect the answers. No device is replaced, since the body is gone."""
        for writer in list(self._writers):
            error = None if writer.is_ended else writer.offer(b"", self._request.timeout)
            if error is not None:
                self._drop(writer, error)
        ending = _Ending(self._backends, self._request, self._writers, self._done)
        return collect(ending, iter(()), decided, post_quorum_timeout)

    def abort(self) -> None:
        """Give up the upload; every device gets an incomplete body."""
        for writer in self._writers:
            writer.abort()
        self._writers = []

    def _add(self, slot: Slot) -> None:
        self._writers.append(_Writer(slot, self._done, is_compared=self._needs_footers))

    def _drop(self, writer: _Writer, error: BackendError) -> None:
        self._backends.failed(writer.node, self._request, error)
        self._writers.remove(writer)
        writer.abort()


class _Opening(Exchanges):
    """A transport that sends headers and waits until the devices ask for the body.

    It calls ``add`` with each attempt whose device asks for it. At the time to give up, the late
    devices count as failed.
    """

    def __init__(
        self,
        backends: Backends,
        request: BackendRequest,
        content_length: int | None,
        patience: float,
        needs_footers: bool,
        add: Callable[[Slot], None],
    ) -> None:
        super().__init__(backends, request)
        self._content_length = content_length
        self._patience = patience
        self._needs_footers = needs_footers
        self._add = add

    def send(self, index: int, headers: WireHeaders, node: Node) -> bool:
        """Send the headers."""
        length = self._content_length
        upload = self.backends.start_upload(node, self.request, headers, length)
        if upload is None:
            return False
        self.pending.append(Slot(index, headers, node, upload))
        return True

    def read(self, slot: Slot) -> Answer | None:
        """_GO_ON if the device asks for the body."""
        upload = _upload_of(slot)
        response = upload.expect_continue(PATIENCE)
        if response is not None:
            return self.usable(slot, response)
        if self._needs_footers and not is_true(upload.continue_headers.get(AGREEMENT)):
            raise BadResponse(upload.address, "takes no metadata after the object")
        self._add(slot)
        return _GO_ON

    def give_up(self) -> Iterable[Attempt]:
        """Give up the late devices; others replace them, since the body is not sent yet."""
        late, self.pending = self.pending, []
        for slot in late:
            self.fail_silent(slot, self._patience)
        return late


class _Ending:
    """A transport whose requests are in flight: it waits for the writers that send the end."""

    def __init__(
        self,
        backends: Backends,
        request: BackendRequest,
        writers: Iterable[_Writer],
        done: queue.Queue[_Writer],
    ) -> None:
        self.pending = list(writers)
        self._backends = backends
        self._request = request
        self._done = done

    def send(self, index: int, headers: WireHeaders, node: Node) -> bool:
        """Always False: the body cannot be sent again."""
        return False

    def receive(self, give_up_at: float | None) -> Iterable[Attempt] | None:
        """The next writer that ends. Without a time to give up, each ends by its own timeouts."""
        wait = None if give_up_at is None else max(0.0, give_up_at - time.monotonic())
        try:
            writer = self._done.get(timeout=wait)
        except queue.Empty:
            return None
        if writer not in self.pending:
            return ()  # dropped before
        self.pending.remove(writer)
        answer = writer.said
        if writer.error is not None:
            self._backends.failed(writer.node, self._request, writer.error)
        elif answer is not None and self._backends.is_usable(writer.node, self._request, answer):
            writer.answer = answer
        return (writer,)

    def heard_at(self) -> float:
        """Now, since a writer is returned as soon as it ends."""
        return time.monotonic()

    def give_up(self) -> Iterable[Attempt]:
        """Close the connections of the late devices, which may have missed the object."""
        for writer in self.pending:
            writer.abort()
            self._backends.gave_up(writer.node)
        self.pending = []
        return ()


def _upload_of(slot: Slot) -> BackendUpload:
    assert isinstance(slot.exchange, BackendUpload)
    return slot.exchange


class _Writer(Attempt):
    """Sends the queued pieces to one device, and reads its answer after the empty piece.

    ``said`` is that answer, before its status is checked. ``is_ended`` says that the empty piece
    has been queued. None in the queue ends an upload that was given up: nothing more is sent.
    """

    def __init__(self, slot: Slot, done: queue.Queue[_Writer], *, is_compared: bool) -> None:
        super().__init__(slot.index, slot.headers, slot.node)
        self.said: Answer | None = None
        self.error: BackendError | None = None
        self.is_ended = False
        self._upload = _upload_of(slot)
        self._done = done
        self._is_compared = is_compared
        self._chunks: queue.Queue[bytes | None] = queue.Queue(QUEUED_CHUNKS_MAX)
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def offer(self, chunk: bytes, timeout: float) -> BackendError | None:
        """Queue a piece; returns an error if the queue had no room for it within ``timeout``."""
        try:
            self._chunks.put(chunk, timeout=timeout)
        except queue.Full:
            return ReadTimeout(self._upload.address, f"accepts no data for {timeout} s")
        return None

    def abort(self) -> None:
        self._upload.abort()
        if self._thread is not None:
            self._chunks.put(None)  # soon there is room: without a connection the thread empties it

    def _run(self) -> None:
        chunk: bytes | None = None
        try:
            while chunk := self._chunks.get():
                self._upload.send(chunk)
            if chunk is not None:
                response = self._upload.finish()
                body = response.body(ANSWER_BYTES_MAX)
                is_blamed = self._is_compared and response.status in _BLAME_THE_SENDER
                self.said = Answer(503 if is_blamed else response.status, response.headers, body)
        except BackendError as error:
            self.error = error
            self._upload.abort()
        except EOFError:
            pass  # eventlet raises it if abort() closes the connection during a read
        while chunk:  # after a failure: discard the rest of the body
            chunk = self._chunks.get()
        self._done.put(self)

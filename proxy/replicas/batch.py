# SPDX-License-Identifier: Apache-2.0
"""Small requests that wait for the same server go in one message.

While a message is in flight to a server, further requests gather and go as the next message. The
answers come one by one, so a device that hangs delays only its own requests. A server without
support for batches gets each request separately.

This module uses only the standard library, as `fanout` does: under eventlet's monkey patch the
threads are green.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import TypeVar

from martlet.http.backend_client import (
    Address,
    BackendClient,
    BackendError,
    BadResponse,
    ConnectionLost,
    ReadTimeout,
    request_head,
)
from proxy.replicas.alarms import Alarms
from proxy.replicas.backends import ANSWER_BYTES_MAX
from proxy.replicas.batch_answers import AnswerParser
from proxy.replicas.engine import PATIENCE
from proxy.replicas.quorum import Answer

#: The limit of a message of several requests. A server that refuses a message must read its body,
#: else the reset connection would lose the refusal. Go's HTTP server reads up to 256 KiB of it.
MESSAGE_BYTES_MAX = 224 * 1024
MESSAGE_PARTS_MAX = 256
#: Messages to one server that may be in flight, not counting late ones. The next message waits.
MESSAGES_MAX = 2
#: After this time a message is late, even if answers still arrive, seconds.
LATE_SECONDS = 0.2
#: How often a late courier checks whether its answers are still wanted, seconds.
LOOK_SECONDS = 0.5
#: How long a server without support for batches gets no further one, seconds.
SINGLY_SECONDS = 60.0

_METHOD = "BATCH"
_HEADERS = b"Content-Type: application/http\r\n"
_UNKNOWN_STATUSES = (404, 405, 501)
_REFUSED_STATUSES = (400, 411, 412, 413)

_T = TypeVar("_T")


class Part:
    """A request to one device. At the end it has an ``answer`` or an ``error``, and a courier's
    thread calls ``on_end`` with it.

    :param headers: encoded lines.
    :param timeout: longest wait for the server, seconds.
    """

    __slots__ = (
        "address",
        "answer",
        "body",
        "deadline",
        "ended_at",
        "error",
        "headers",
        "is_withdrawn",
        "method",
        "on_end",
        "path",
        "timeout",
    )

    def __init__(
        self,
        address: Address,
        method: str,
        path: str,
        headers: bytes,
        body: bytes,
        timeout: float,
        on_end: Callable[[Part], None],
    ) -> None:
        self.address = address
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body
        self.timeout = timeout
        self.deadline = time.monotonic() + timeout
        self.on_end = on_end
        self.answer: Answer | None = None
        self.error: BackendError | None = None
        self.ended_at = 0.0  # time.monotonic()
        #: The answer is no longer wanted. The request may still be sent.
        self.is_withdrawn = False

    @property
    def size(self) -> int:
        """Its approximate length in bytes."""
        return len(self.path) + len(self.headers) + len(self.body) + 100

    def encoded(self) -> bytes:
        """The request as the bytes of an HTTP request of its own."""
        head = request_head(self.method, self.path, self.address, self.headers, len(self.body))
        return head + self.body

    def end(self, answer: Answer | None, error: BackendError | None = None) -> None:
        """Set the answer or the error, and call ``on_end``."""
        self.answer, self.error = answer, error
        self.ended_at = time.monotonic()
        self.on_end(self)


class Batches:
    """Sends parts to servers, in as few messages as possible without a delay."""

    def __init__(self, client: BackendClient) -> None:
        #: For the threads that wait for parts.
        self.alarms = Alarms()
        self._client = client
        self._routes: dict[Address, _Route] = {}

    def send(self, part: Part) -> None:
        """Queue a part, which goes with others in the next message."""
        route = self._routes.get(part.address)
        if route is None:
            route = self._routes.setdefault(part.address, _Route(self._client, part.address))
        route.add(part)


class _Route:
    """The queue of parts to one server."""

    def __init__(self, client: BackendClient, address: Address) -> None:
        self.client = client
        self.address = address
        #: Until then the server gets no batches, since it does not support them; time.monotonic().
        self.singly_until = 0.0
        self._waiting: deque[Part] = deque()
        self._lock = threading.Lock()  # guards removals from _waiting, and the number of couriers
        self._couriers = 0  # without the late ones; the next message may wait for these

    def add(self, part: Part) -> None:
        """Queue a part for a courier."""
        self._waiting.append(part)
        # Without the lock, since every part passes here. A courier that leaves reduces the number
        # first and then checks the queue. So either it sees this part, or we see the new number.
        if self._couriers < MESSAGES_MAX:
            self._hire()
        elif self._front_is_withdrawn():  # a server may accept nothing for seconds
            with self._lock:
                while self._front_is_withdrawn():
                    self._waiting.popleft()

    def next_message(self) -> list[Part]:
        """The parts of the next message; empty when no part waits."""
        message: list[Part] = []
        size = 0
        with self._lock:
            while self._waiting and len(message) < MESSAGE_PARTS_MAX:
                part = self._waiting[0]
                size += part.size
                if message and size > MESSAGE_BYTES_MAX:
                    break
                self._waiting.popleft()
                if not part.is_withdrawn:
                    message.append(part)
        return message

    def leave(self) -> None:
        """Remove a courier that is done or late: the next message does not wait for it."""
        with self._lock:
            self._couriers -= 1
        if self._waiting:
            self._hire()

    def _hire(self) -> None:
        with self._lock:
            if self._couriers >= MESSAGES_MAX or not self._waiting:
                return
            self._couriers += 1
        _start(_Courier(self).run)

    def _front_is_withdrawn(self) -> bool:
        try:
            return self._waiting[0].is_withdrawn
        except IndexError:  # a courier has taken it
            return False


class _Courier:
    """Sends messages to a server, one after another, until one is late.

    :param is_late: it counts as late from the start: no message waits for it.
    """

    def __init__(self, route: _Route, *, is_late: bool = False) -> None:
        self._route = route
        self._is_late = is_late
        self._late_at = 0.0  # from this time on the message is late; time.monotonic()

    def run(self) -> None:
        """Send messages until no part waits."""
        try:
            while not self._is_late and (message := self._route.next_message()):
                self._late_at = time.monotonic() + LATE_SECONDS
                self._deliver(message)
        finally:
            self._be_late()

    def _be_late(self) -> None:
        if not self._is_late:
            self._is_late = True
            self._route.leave()

    def _deliver(self, message: list[Part]) -> None:
        if len(message) == 1:
            self.ask_alone(message[0])
        elif time.monotonic() < self._route.singly_until:
            self._deliver_singly(message)
        else:
            self._deliver_together(message)

    def _deliver_singly(self, message: Iterable[Part]) -> None:
        for part in message:
            _start(partial(_Courier(self._route, is_late=True).ask_alone, part))

    def ask_alone(self, part: Part) -> None:
        """Send a part as a request of its own."""
        answer: Answer | None = None
        lost: BackendError = ConnectionLost(part.address, "there was no answer")
        try:
            exchange = self._route.client.start(
                part.address, part.method, part.path, part.headers, part.body, part.timeout
            )
            try:
                response = self._wait([part], exchange.response, part.timeout)
            except ReadTimeout:
                exchange.abort()
                raise
            body = response.body(ANSWER_BYTES_MAX)
            answer = Answer(response.status, response.headers, body, exchange.was_resent)
        except BackendError as error:
            lost = error
        finally:
            part.end(answer, None if answer else lost)

    def _deliver_together(self, message: list[Part]) -> None:
        parts = dict(enumerate(message))
        address = self._route.address
        lost: BackendError = ConnectionLost(address, "there was no answer to a part of a batch")
        try:
            self._exchange(parts)
        except BackendError as error:
            lost = error
        finally:
            for part in parts.values():
                part.end(None, lost)

    def _exchange(self, parts: dict[int, Part]) -> None:
        """Send parts, and remove those that have ended.

        :raises BackendError: no answer to the others will come.
        """
        address = self._route.address
        timeout = max(part.timeout for part in parts.values())
        body = b"".join([part.encoded() for part in parts.values()])
        exchange = self._route.client.start(address, _METHOD, "/", _HEADERS, body, timeout)
        try:
            response = self._wait(parts.values(), exchange.response, timeout)
            if response.status != 200:
                response.close()
                self._be_refused(parts, response.status)
                return
            parser = AnswerParser(exchange.was_resent, lambda n, answer: parts.pop(n).end(answer))
            while pieces := self._wait(parts.values(), response.read_some, timeout):
                parser.feed(b"".join(pieces))
        except ValueError as error:
            exchange.abort()
            raise BadResponse(address, f"sent a malformed answer to a batch: {error}") from error
        except ReadTimeout:
            exchange.abort()
            raise

    def _be_refused(self, parts: dict[int, Part], status: int) -> None:
        if status in _UNKNOWN_STATUSES:
            self._route.singly_until = time.monotonic() + SINGLY_SECONDS
        elif status not in _REFUSED_STATUSES:
            raise BadResponse(self._route.address, f"answers a batch with {status}")
        self._deliver_singly(parts.values())
        parts.clear()

    def _wait(self, parts: Collection[Part], read: Callable[[float], _T], timeout: float) -> _T:
        """Wait for the result of ``read`` while one of the parts is wanted. After PATIENCE, the
        next message no longer waits. ``parts`` is empty when only the end of the answer is left.
        """
        until = time.monotonic() + timeout
        while True:
            now = time.monotonic()
            if now >= self._late_at:
                self._be_late()
            longest = LOOK_SECONDS if self._is_late else PATIENCE
            try:
                return read(max(0.001, min(longest, until - now)))
            except ReadTimeout:
                self._be_late()
                is_wanted = not parts or not all(part.is_withdrawn for part in parts)
                if time.monotonic() >= until or not is_wanted:
                    raise ReadTimeout(self._route.address, f"no answer in {timeout} s") from None


def _start(work: Callable[[], None]) -> None:
    threading.Thread(target=work, daemon=True).start()

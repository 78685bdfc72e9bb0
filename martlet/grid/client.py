# SPDX-License-Identifier: Apache-2.0
"""Requests to other servers over the grid: one connection for each address and process.

`GridClient.request` sends one request and waits. For several at a time, a `FanOut` sends to many
servers and waits once. A request that failed and may have been executed is not sent again:
`errors.may_have_run` tells that to its caller, who marks the second one with ``is_resent``.

A client belongs to one process; all of its (green) threads may use it in parallel. It works with
plain threads, too. It connects when it is first needed, also after a fork.
"""

from __future__ import annotations

import math
import os
import random
import threading
import time
import weakref
from collections.abc import Callable

from martlet.grid.connecting import connect
from martlet.grid.connection import LOST, GridConnection, Responder
from martlet.grid.errors import Code, LimitError, RequestError
from martlet.grid.loop import Loop, Waiter, process_loop
from martlet.grid.options import Options
from martlet.grid.secrets import Secrets
from martlet.grid.session import Session
from martlet.grid.stream import GridStream
from martlet.http.backend_client import (
    Address,
    BackendError,
    ConnectError,
    ConnectionLost,
    ConnectTimeout,
    ReadTimeout,
    Secure,
)
from martlet.log import get_logger

_BACKOFF_SECONDS_MIN = 0.1
_BACKOFF_SECONDS_MAX = 1.0  # a server that starts again is used soon
#: How many connections a request tries that go away before they take it.
_ATTEMPTS_MAX = 3

log = get_logger("martlet.grid")

_clients: weakref.WeakSet[GridClient] = weakref.WeakSet()


def _after_fork() -> None:
    for client in list(_clients):
        client.forget()


os.register_at_fork(after_in_child=_after_fork)


class GridClient:
    """Opens, shares and keeps connections.

    :param options: the limits and the name of this side.
    :param conn_timeout: seconds to wait for TCP.
    :param node_timeout: seconds to wait for an answer.
    :param handshake_timeout: seconds from TCP to the end of the handshake, with that of TLS.
    :param responder: serves requests that a server sends to this side.
    :param secure: begins TLS on a new connection; without it there is none.
    """

    def __init__(
        self,
        secrets: Secrets,
        options: Options | None = None,
        conn_timeout: float = 0.5,
        node_timeout: float = 10.0,
        handshake_timeout: float = 2.0,
        responder: Responder | None = None,
        loop: Loop | None = None,
        secure: Secure | None = None,
    ) -> None:
        self.secrets = secrets
        self.options = options or Options()
        self.conn_timeout = conn_timeout
        self.node_timeout = node_timeout
        self.handshake_timeout = handshake_timeout
        self.responder = responder
        self.secure = secure
        self._given_loop = loop
        self._doors: dict[Address, _Door] = {}
        _clients.add(self)

    @property
    def loop(self) -> Loop:
        """The loop of this process, which may have been forked since this object was made."""
        return self._given_loop or process_loop()

    def request(
        self,
        address: Address,
        name: str,
        payload: bytes,
        timeout: float | None = None,
        is_resent: bool = False,
    ) -> bytes:
        """Send a request and wait for its answer.

        If the server goes away before it takes the request, another connection carries it.

        :param timeout: seconds until the deadline, instead of ``node_timeout``.
        :param is_resent: the request may have been executed before.
        :raises BackendError: no answer; see `martlet.grid.errors`.
        """
        seconds = self.node_timeout if timeout is None else timeout
        deadline_at = time.monotonic() + seconds
        for _ in range(_ATTEMPTS_MAX - 1):
            try:
                return self._request_once(address, name, payload, seconds, is_resent)
            except RequestError as error:
                if error.code != Code.GOING_AWAY:
                    raise
            seconds = deadline_at - time.monotonic()
        return self._request_once(address, name, payload, seconds, is_resent)

    def _request_once(
        self, address: Address, name: str, payload: bytes, timeout: float, is_resent: bool
    ) -> bytes:
        fan_out = FanOut(self, timeout)
        call = fan_out.send(address, name, payload, is_resent)
        try:
            fan_out.wait(1)
        except BaseException:  # the thread was told to stop
            fan_out.cancel()
            raise
        if call.error is not None:
            raise call.error.with_traceback(None)  # other threads may raise it, too
        return call.answer

    def open_stream(
        self,
        address: Address,
        name: str,
        payload: bytes = b"",
        timeout: float | None = None,
        is_resent: bool = False,
    ) -> GridStream:
        """Open a stream; its handler gets ``payload`` first.

        :param timeout: seconds until the deadline of the stream; none without it.
        :raises BackendError: there is no connection, or the server accepts no stream now.
        """
        now = time.monotonic()
        deadline_at = math.inf if timeout is None else now + timeout
        connection = self.connection(address, deadline_at)
        try:
            return connection.open_stream(name, payload, deadline_at, is_resent)
        except LimitError as error:
            raise RequestError(address, error.code, str(error), was_sent=False) from None

    def connection(self, address: Address, deadline_at: float = math.inf) -> GridConnection:
        """The connection to a server, which is opened if there is none.

        :raises ConnectError: there is none, and after a failure there is a pause before the next.
        """
        door = self._doors.get(address) or self._new_door(address)
        return door.ready() or door.open(deadline_at)

    def ready_connection(self, address: Address) -> GridConnection | None:
        """The connection to a server if it is open; never waits.

        :raises ConnectError: there is none, and after a failure there is a pause before the next.
        """
        return (self._doors.get(address) or self._new_door(address)).ready()

    def _new_door(self, address: Address) -> _Door:
        return self._doors.setdefault(address, _Door(self, address))

    def forget(self) -> None:
        """In a child process: the connections are those of its parent."""
        self._doors = {}

    def close(self) -> None:
        """End all connections at once; what is in flight fails."""
        for door in list(self._doors.values()):
            if door.connection is not None:
                door.connection.close()


class _Door:
    """The way to one address: its connection, or the pause after a failure."""

    def __init__(self, client: GridClient, address: Address) -> None:
        self.connection: GridConnection | None = None
        self._client = client
        self._address = address
        self._lock = threading.Lock()  # held while connecting
        self._failures = 0
        self._open_at = 0.0
        self._error: ConnectError | None = None

    def ready(self) -> GridConnection | None:
        """The connection, if it is open.

        :raises ConnectError: the last failure again, during the pause after it.
        """
        connection = self.connection
        if connection is not None and not connection.session.is_peer_leaving:
            return connection
        if self._error is not None and time.monotonic() < self._open_at:
            raise self._error.with_traceback(None)
        return None

    def open(self, deadline_at: float) -> GridConnection:
        """:raises ConnectError: the server cannot be reached, or not now."""
        left = deadline_at - time.monotonic()
        if not self._lock.acquire(timeout=-1 if left == math.inf else max(0.0, left)):
            raise ConnectTimeout(self._address, "no connection before the deadline")
        try:
            # Another thread may have been faster.
            return self.ready() or self._connect(deadline_at)
        finally:
            self._lock.release()

    def _connect(self, deadline_at: float) -> GridConnection:
        client = self._client
        left = max(0.001, deadline_at - time.monotonic())
        try:
            connected = connect(
                self._address,
                client.secrets,
                client.options,
                min(client.conn_timeout, left),
                min(client.handshake_timeout, left),
                client.secure,
            )
        except ConnectError as error:
            if isinstance(error, ConnectTimeout) and time.monotonic() >= deadline_at:
                raise  # one impatient request does not tell that the server is away
            pause = min(_BACKOFF_SECONDS_MAX, _BACKOFF_SECONDS_MIN * 2**self._failures)
            # Not all processes of a cluster at the same time.
            self._open_at = time.monotonic() + pause * random.uniform(0.5, 1.0)  # noqa: S311
            self._failures = min(self._failures + 1, 16)
            self._error = error
            raise
        session = Session(True, client.options, connected.peer, time.monotonic())
        connection = GridConnection(
            client.loop,
            connected.sock,
            connected.channel,
            session,
            self._address,
            client.responder,
            self._on_end,
        )
        connection.start(connected.messages)
        self._failures, self._error = 0, None
        self.connection = connection
        return connection

    def _on_end(self, connection: GridConnection, reason: str) -> None:
        if self.connection is connection:
            self.connection = None
        if reason:
            host, port = self._address
            log.info("event=grid_connection_ended ip=%s port=%d reason=%r", host, port, reason)


class Call:
    """One request of a fan-out: ``answer`` or ``error`` are set once ``is_ended``.

    ``connection`` is None until there is one.
    """

    __slots__ = ("_fan_out", "address", "answer", "connection", "error", "is_ended", "number")

    def __init__(self, fan_out: FanOut, address: Address) -> None:
        self._fan_out = fan_out
        self.address = address
        self.connection: GridConnection | None = None
        self.number = 0
        self.is_ended = False
        self.answer = b""
        self.error: BackendError | None = None

    def finish(self, payload: bytes | None, code: int | None, reason: str) -> Waiter | None:
        """The connection tells the end of the request."""
        if payload is not None:
            self.answer = payload
        elif code is None or code == Code.DEADLINE:
            self.error = ReadTimeout(self.address, reason or "the deadline has passed")
        elif code == LOST:
            self.error = ConnectionLost(self.address, reason)
        else:
            self.error = RequestError(self.address, code, reason)
        return self._fan_out.on_end(self)


class FanOut:
    """Requests of one thread to several servers.

    Those that are sent before a wait have one deadline; those after it have a new one.

    :param timeout: seconds until a deadline, instead of the client's ``node_timeout``.
    :param is_failure: whether an answer says that the server failed.
    """

    __slots__ = (
        "_client",
        "_deadline_at",
        "_ended",
        "_has_failed",
        "_is_failure",
        "_needed",
        "_seconds",
        "_waiter",
        "heard_at",
        "pending",
    )

    def __init__(
        self,
        client: GridClient,
        timeout: float | None = None,
        is_failure: Callable[[bytes], bool] | None = None,
    ) -> None:
        self._client = client
        self._is_failure = is_failure
        self._has_failed = False  # one of those that have ended
        self._ended: list[Call] = []
        self._needed = 0
        self._waiter: Waiter | None = None
        self._seconds = client.node_timeout if timeout is None else timeout
        self._deadline_at = 0.0  # of what is sent now; 0: that of the next request
        #: Requests that have not ended.
        self.pending: set[Call] = set()
        #: When the last request ended, a time.monotonic().
        self.heard_at = 0.0

    def send(self, address: Address, name: str, payload: bytes, is_resent: bool = False) -> Call:
        """Send a request; it leaves with all others that are sent before the thread waits.

        Without a connection another thread opens one, so that a server that hangs delays no other.
        A failure ends the call, as the server's error does.
        """
        call = Call(self, address)
        self.pending.add(call)
        client = self._client
        deadline_at = self._deadline_at
        if not deadline_at:
            deadline_at = self._deadline_at = time.monotonic() + self._seconds
        try:
            connection = client.ready_connection(address)
            if connection is not None:
                self._begin(call, connection, name, payload, deadline_at, is_resent)
            else:
                client.loop.spawn(
                    lambda: self._connect(call, name, payload, deadline_at, is_resent)
                )
        except BackendError as error:
            self._fail(call, error)
        except BaseException:
            self.pending.discard(call)
            raise
        return call

    def _begin(
        self,
        call: Call,
        connection: GridConnection,
        name: str,
        payload: bytes,
        deadline_at: float,
        is_resent: bool,
    ) -> None:
        """:raises RequestError: a limit forbids the request; nothing was sent."""
        try:
            call.number = connection.request(name, payload, call, deadline_at, is_resent)
        except LimitError as error:
            raise RequestError(call.address, error.code, str(error), was_sent=False) from None
        call.connection = connection

    def _connect(
        self, call: Call, name: str, payload: bytes, deadline_at: float, is_resent: bool
    ) -> None:
        """Open the connection first; runs in a thread of its own."""
        lock = self._client.loop.lock
        waiter = None
        try:
            connection = self._client.connection(call.address, deadline_at)
            with lock:
                if call in self.pending:  # else it was given up
                    self._begin(call, connection, name, payload, deadline_at, is_resent)
        except BackendError as error:
            with lock:
                waiter = self._fail(call, error)
        except BaseException:
            with lock:
                waiter = self._fail(call, ConnectError(call.address, "the thread was stopped"))
            raise
        finally:
            if waiter is not None:
                waiter.wake()

    def _fail(self, call: Call, error: BackendError) -> Waiter | None:
        if call not in self.pending:
            return None
        call.error = error
        return self.on_end(call)

    def wait(self, count: int, until: float = math.inf) -> list[Call]:
        """Wait for the end of ``count`` more requests, and return those that have ended.

        A failure ends the wait, too: the caller may want to ask another server. So does ``until``,
        a time.monotonic(); then there may be fewer, or none.
        """
        lock = self._client.loop.lock
        while True:
            with lock:
                have = len(self._ended)
                wanted = min(count, have + len(self.pending))
                if have >= wanted or self._has_failed:
                    return self._take_ended()
                seconds = None
                if until != math.inf:
                    seconds = until - time.monotonic()
                    if seconds <= 0:
                        return self._take_ended()
                self._needed = wanted - have
                waiter = self._waiter
                if waiter is None:
                    self._waiter = waiter = self._client.loop.waiter()
            waiter.wait(seconds)

    def _take_ended(self) -> list[Call]:
        ended, self._ended = self._ended, []
        self._needed = 0
        self._deadline_at = 0.0
        self._has_failed = False
        return ended

    def cancel(self) -> None:
        """Give up the requests that have not ended; the servers are told."""
        with self._client.loop.lock:
            pending, self.pending = self.pending, set()
            for call in pending:
                if call.connection is not None:
                    call.connection.cancel(call.number)

    def on_end(self, call: Call) -> Waiter | None:
        """A request has ended; returns the waiter if the thread waits for no more."""
        call.is_ended = True
        self.heard_at = time.monotonic()
        self.pending.discard(call)
        self._ended.append(call)
        if call.error is not None or (self._is_failure and self._is_failure(call.answer)):
            self._has_failed = True
        self._needed -= 1
        if self._needed == 0 or (self._has_failed and self._needed > 0):
            self._needed = 0
            return self._waiter
        return None

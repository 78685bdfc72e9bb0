# SPDX-License-Identifier: Apache-2.0
"""The listener: accepts connections, and limits their number and that of running requests."""

from __future__ import annotations

import errno
import fcntl
import logging
import socket
import struct
import termios
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from martlet.http.environ import WSGIApp
from martlet.wsgi.connection import Connection, base_environ
from martlet.wsgi.limits import Limits
from martlet.wsgi.places import Places
from martlet.wsgi.tls_door import TlsDoor

#: Pause before another accept if the process has no free descriptor, seconds.
_RETRY_SECONDS = 0.05
#: In a reload a connection is closed when it has waited so long for a request, seconds. Clients
#: that have used one within a second do not look whether it is still open.
LAST_REQUEST_SECONDS = 2.0

Spawn = Callable[[Callable[[], None]], Any]


class Listener(Protocol):
    """The part of a listening socket that the server uses."""

    def accept(self) -> tuple[socket.socket, Any]:
        """As a socket's."""

    def shutdown(self, how: int, /) -> None:
        """As a socket's."""


class HttpServer:
    """The server of an application on one listening socket.

    A request takes one of ``requests_max`` places only while the application works on it. If all
    places are taken, it waits. A connection that waits for a request, or sends one slowly, takes no
    place. Over ``connections_max`` connections the one idle longest is closed.

    :param spawn: runs a function in a new (green) thread.
    :param door: all connections speak TLS; without it none does.
    """

    def __init__(
        self,
        listener: Listener,
        app: WSGIApp,
        limits: Limits,
        logger: logging.Logger,
        spawn: Spawn,
        requests_max: int,
        connections_max: int,
        door: TlsDoor | None = None,
    ) -> None:
        self.app = app
        self.limits = limits
        self.logger = logger
        self.door = door
        self.base_environ = base_environ("http" if door is None else "https")
        self.is_stopping = False
        self._keeps_idle = False
        self._listener = listener
        self._spawn = spawn
        self._places = Places(requests_max)
        self._connections_max = connections_max
        self._connections: set[Connection] = set()
        # Since when each one waits for a request; the one that has waited longest is first.
        self._idle: dict[Connection, float] = {}
        self._ended = threading.Condition()

    def run(self) -> None:
        """Accept connections until ``stop``; returns when the last one has ended."""
        pause = 0.0
        while not self.is_stopping:
            try:
                if pause:
                    time.sleep(pause)  # here, too, the end of the accepts may wake this thread up
                pause = 0.0
                sock, peer = self._listener.accept()
            except OSError as error:
                if self.is_stopping:
                    break
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    if error.errno in (errno.EINVAL, errno.EBADF):
                        raise
                    continue  # the client has closed the connection already
                self._close_oldest_idle()
                pause = _RETRY_SECONDS
                continue
            self._admit(sock, peer)
        with self._ended:
            while not self._ended.wait_for(lambda: not self._connections, LAST_REQUEST_SECONDS):
                self._close_idle(LAST_REQUEST_SECONDS)

    def stop(self) -> None:
        """Stop accepting, close idle connections, and let the others finish their requests."""
        self.retire()
        _shut_down(self._listener)

    def retire(self, keeps_idle: bool = False) -> None:
        """As ``stop``, but the listening socket stays open; the caller must wake up ``accept``.

        With ``keeps_idle`` a connection that has just become idle may send one more request, and
        its answer closes the connection. Otherwise a client that has just sent a request would get
        no answer. ``run`` closes it if no request comes within `LAST_REQUEST_SECONDS`.
        """
        self.is_stopping = True
        self._keeps_idle = keeps_idle
        for connection in list(self._connections):
            connection.retire()
        self._close_idle(LAST_REQUEST_SECONDS if keeps_idle else 0.0)

    def idling(self, connection: Connection) -> AbstractContextManager[None]:
        """A context for the time in which a connection waits for a request."""
        if self.is_stopping and not self._keeps_idle and connection.is_between_requests:
            raise ConnectionAbortedError("the server stops")
        return _Idling(self._idle, connection)

    def serving(self) -> AbstractContextManager[Any]:
        """A context for the time in which the application runs; waits for a place."""
        return self._places

    def _admit(self, sock: socket.socket, peer: Any) -> None:
        if len(self._connections) >= self._connections_max:
            self._close_oldest_idle()
        if self.door is not None:
            sock = self.door.secure(sock)
        try:
            connection = Connection(self, sock, (peer[0], peer[1]))
        except OSError:
            sock.close()  # the client has closed the connection already
            return
        self._connections.add(connection)
        self._spawn(lambda: self._run(connection))

    def _run(self, connection: Connection) -> None:
        try:
            connection.run()
        finally:
            self._connections.discard(connection)
            if self.is_stopping:
                with self._ended:
                    self._ended.notify_all()

    def _close_idle(self, seconds: float) -> None:
        """Close the connections that have waited so long for a request, and have got none."""
        latest = time.monotonic() - seconds
        for connection, since in list(self._idle.items()):
            if since <= latest and connection.is_between_requests and not _has_bytes(connection):
                _shut_down(connection.sock)

    def _close_oldest_idle(self) -> None:
        for connection in self._idle:
            del self._idle[connection]
            _shut_down(connection.sock)
            return


class _Idling:
    """A context of one connection. A generator would take four times as long."""

    __slots__ = ("_connection", "_idle")

    def __init__(self, idle: dict[Connection, float], connection: Connection) -> None:
        self._idle = idle
        self._connection = connection

    def __enter__(self) -> None:
        self._idle[self._connection] = time.monotonic()

    def __exit__(self, *error: object) -> None:
        self._idle.pop(self._connection, None)


def _has_bytes(connection: Connection) -> bool:
    """Whether bytes have come that the connection's thread has not read yet."""
    try:
        count = fcntl.ioctl(connection.sock.fileno(), termios.FIONREAD, bytes(4))
    except (OSError, ValueError):  # it has just been closed
        return False
    return struct.unpack("i", count) != (0,)


def _shut_down(sock: Listener | socket.socket) -> None:
    """End the socket's stream in both directions, which wakes the thread that waits for it."""
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it has ended already

# SPDX-License-Identifier: Apache-2.0
"""Accepts connections and bounds them: how many there are, and how many requests are served."""

from __future__ import annotations

import errno
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from martlet.http.environ import WSGIApp
from martlet.wsgi.connection import Connection, base_environ
from martlet.wsgi.limits import Limits

#: How long to wait where the process has no descriptor left, seconds.
_RETRY_SECONDS = 0.05

Spawn = Callable[[Callable[[], None]], Any]


class HttpServer:
    """Serves an application on one listening socket.

    A request takes one of ``requests_max`` places only while the application works on it; one that
    comes when all are taken waits. A connection that waits for a request, or drips one, takes none.
    Beyond ``connections_max`` connections the one that has waited longest is closed.

    :param spawn: runs a function in a (green) thread of its own.
    """

    def __init__(
        self,
        listener: socket.socket,
        app: WSGIApp,
        limits: Limits,
        logger: logging.Logger,
        spawn: Spawn,
        requests_max: int,
        connections_max: int,
    ) -> None:
        self.app = app
        self.limits = limits
        self.logger = logger
        self.base_environ = base_environ()
        self.is_stopping = False
        self._keeps_idle = False
        self._listener = listener
        self._spawn = spawn
        self._places = threading.Semaphore(requests_max)
        self._connections_max = connections_max
        self._connections: set[Connection] = set()
        self._idle: dict[Connection, None] = {}  # the one that has waited longest is first
        self._ended = threading.Condition()

    def run(self) -> None:
        """Accept connections until ``stop``; returns when the last one has ended."""
        while not self.is_stopping:
            try:
                sock, peer = self._listener.accept()
            except OSError as error:
                if self.is_stopping:
                    break
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    if error.errno in (errno.EINVAL, errno.EBADF):
                        raise
                    continue  # the client is gone already
                self._close_oldest_idle()
                time.sleep(_RETRY_SECONDS)
                continue
            self._admit(sock, peer)
        with self._ended:
            self._ended.wait_for(lambda: not self._connections)

    def stop(self) -> None:
        """Accept no more, close connections between two requests, and let the others end theirs."""
        self.retire()
        _shut_down(self._listener)

    def retire(self, keeps_idle: bool = False) -> None:
        """As ``stop``, but the listening socket lives on; the next ``accept`` must be woken up.

        With ``keeps_idle`` a connection between two requests has one more, whose answer says that
        it is the last: a client that has just sent it would not learn what became of it.
        """
        self.is_stopping = True
        self._keeps_idle = keeps_idle
        if keeps_idle:
            return
        for connection in list(self._idle):
            if connection.is_between_requests:
                _shut_down(connection.sock)

    @contextmanager
    def idling(self, connection: Connection) -> Iterator[None]:
        """Around the time in which a connection waits for a request."""
        if self.is_stopping and not self._keeps_idle and connection.is_between_requests:
            raise ConnectionAbortedError("the server stops")
        self._idle[connection] = None
        try:
            yield
        finally:
            self._idle.pop(connection, None)

    def serving(self) -> AbstractContextManager[Any]:
        """Around the time in which the application works; waits for a place."""
        return self._places

    def _admit(self, sock: socket.socket, peer: Any) -> None:
        if len(self._connections) >= self._connections_max:
            self._close_oldest_idle()
        try:
            connection = Connection(self, sock, (peer[0], peer[1]))
        except OSError:
            sock.close()  # the client is gone already
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

    def _close_oldest_idle(self) -> None:
        for connection in self._idle:
            del self._idle[connection]
            _shut_down(connection.sock)
            return


def _shut_down(sock: socket.socket) -> None:
    """Wake up whichever thread waits for the socket, as by its end."""
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it has ended by itself

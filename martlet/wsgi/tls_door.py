# SPDX-License-Identifier: Apache-2.0
"""The door of a server that speaks TLS only: the handshake of each connection, in its thread."""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import Callable
from typing import cast

from martlet.tls.tls_socket import HandshakeError, TlsSocket, as_socket

#: The longest handshake, seconds.
HANDSHAKE_SECONDS = 10.0
#: Refusals within this time are one line of the log, seconds.
_LOG_SECONDS = 10.0
#: An error of the server: a client must not take it for an answer to its request.
_TO_HTTP = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    b"Content-Length: 32\r\n\r\nThis server speaks TLS (https).\n"
)


class TlsDoor:
    """The door of one process.

    :param handshake_seconds: longest time of a handshake.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        logger: logging.Logger,
        handshake_seconds: float = HANDSHAKE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context = context
        self._logger = logger
        self._seconds = handshake_seconds
        self._clock = clock
        #: Connections without a handshake.
        self.refused = 0
        self._logged_at = clock() - _LOG_SECONDS
        self._refused_then = 0

    def secure(self, sock: socket.socket) -> socket.socket:
        """A socket over TLS in place of one that was accepted; it waits for nothing."""
        return as_socket(TlsSocket(sock, self._context))

    def shake_hands(self, sock: socket.socket, remote_addr: str) -> None:
        """Bring the handshake to its end.

        :param sock: one that ``secure`` has made.
        :raises OSError: there is none; this has been counted, and logged unless the log is full.
        """
        tls = cast(TlsSocket, sock)
        try:
            tls.shake_hands(time.monotonic() + self._seconds)
        except OSError as error:
            is_slow = isinstance(error, TimeoutError)
            reason = f"no handshake in {self._seconds:g} s" if is_slow else str(error)
            self._refuse(remote_addr, reason)
            if isinstance(error, HandshakeError) and error.is_http:
                tls.answer_in_plain_text(_TO_HTTP)
            raise

    def _refuse(self, remote_addr: str, reason: str) -> None:
        self.refused += 1
        now = self._clock()
        if now - self._logged_at < _LOG_SECONDS:
            return
        not_logged = self.refused - self._refused_then - 1
        self._logged_at, self._refused_then = now, self.refused
        self._logger.warning(
            "event=tls_refused remote_addr=%s reason=%r not_logged=%d",
            remote_addr,
            reason,
            not_logged,
        )

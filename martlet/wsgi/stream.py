# SPDX-License-Identifier: Apache-2.0
"""The bytes received from a client."""

from __future__ import annotations

import socket
import time
from http import HTTPStatus

from martlet.wsgi.head import BadRequestError, check_start
from martlet.wsgi.limits import Limits

_RECEIVE_BYTES = 64 * 1024
_END_OF_HEAD = b"\r\n\r\n"
_EMPTY_LINES_MAX = 4


class ClientStream:
    """A reader of a socket through one buffer, which holds little more than a head."""

    def __init__(self, sock: socket.socket, limits: Limits) -> None:
        self.sock = sock
        self._limits = limits
        self._buffer = bytearray()

    @property
    def is_empty(self) -> bool:
        """Whether no byte of a next request has come."""
        return not self._buffer.strip(b"\r\n")  # empty lines may stand before a request

    def read_head(self, idle_timeout: float) -> bytes | None:
        """Read the next head, without the empty line at its end.

        None if no request started in ``idle_timeout`` seconds, or the client closed the connection.

        :raises BadRequestError: the head is invalid, incomplete or (408) took too long.
        """
        try:
            if not self._await_request(idle_timeout):
                return None
        except TimeoutError:
            return None
        deadline = time.monotonic() + self._limits.client_timeout
        searched = 0
        while (end := self._buffer.find(_END_OF_HEAD, searched)) < 0:
            check_start(self._buffer, self._limits, searched)
            searched = max(0, len(self._buffer) - len(_END_OF_HEAD) + 1)
            try:
                is_more = self._fill(deadline - time.monotonic())
            except TimeoutError:
                raise BadRequestError(HTTPStatus.REQUEST_TIMEOUT, "The request is slow") from None
            if not is_more:
                raise BadRequestError(HTTPStatus.BAD_REQUEST, "Request ended within its headers")
        head = bytes(self._buffer[:end])
        del self._buffer[: end + len(_END_OF_HEAD)]
        return head

    def _await_request(self, idle_timeout: float) -> bool:
        """Wait for the first byte of a request; skip a few empty lines (RFC 9112, 2.2)."""
        for _ in range(_EMPTY_LINES_MAX):
            while not self._buffer.strip(b"\r") and len(self._buffer) < 2:
                if not self._fill(idle_timeout):
                    return False
            if not self._buffer.startswith(b"\r\n"):
                break
            del self._buffer[:2]
        return True

    def read(self, size: int, *, is_line: bool = False) -> bytes:
        """Read 1 to ``size`` bytes; none at the end. With ``is_line`` they end where a line does.

        :raises OSError: the connection is lost, or (TimeoutError) nothing came for too long.
        """
        if not self._buffer:
            if not is_line:
                self.sock.settimeout(self._limits.client_timeout)
                return self.sock.recv(min(size, _RECEIVE_BYTES))
            self._fill(self._limits.client_timeout)  # a system call for each line is too slow
        if is_line:
            size = self._buffer.find(b"\n", 0, size) + 1 or size
        piece = bytes(self._buffer[:size])
        del self._buffer[:size]
        return piece

    def take(self) -> bytes:
        """Take the bytes that have been received and not read."""
        taken = bytes(self._buffer)
        self._buffer.clear()
        return taken

    def read_line(self, bytes_max: int) -> bytes:
        """Read a line with its end, or up to ``bytes_max`` bytes or the end of the stream.

        :raises OSError: as ``read``.
        """
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0 and len(self._buffer) <= bytes_max:
            searched = len(self._buffer)
            if not self._fill(self._limits.client_timeout):
                break
        size = min(end + 1 if end >= 0 else len(self._buffer), bytes_max)
        line = bytes(self._buffer[:size])
        del self._buffer[:size]
        return line

    def _fill(self, seconds: float) -> bool:
        if seconds <= 0:
            raise TimeoutError
        self.sock.settimeout(seconds)
        data = self.sock.recv(_RECEIVE_BYTES)
        self._buffer += data
        return bool(data)

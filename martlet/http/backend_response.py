# SPDX-License-Identifier: Apache-2.0
"""The answer of a storage service, read from its connection piece by piece, on demand."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import lru_cache
from typing import Protocol

import httptools

from martlet.tls.tls_socket import HandshakeError

Address = tuple[str, int]

READ_BYTES = 64 * 1024
BODY_READ_BYTES = 256 * 1024  # of a body whose length is known
HEADER_BYTES_MAX = 128 * 1024  # twice the largest metadata of an object
# An unread rest of an answer up to this size is read and discarded to keep the connection. For a
# larger rest a new connection is cheaper.
DRAIN_BYTES_MAX = 64 * 1024
DRAIN_SECONDS_MAX = 0.1


# Lower-case names by their wire form: the servers use the same few names repeatedly.
_HEADER_NAMES_MAX = 4096

#: A header of the answer 403 to a connection that lacks the proof of the cluster's secret.
REFUSED_HEADER = "x-grid-refused"


class BackendError(Exception):
    """A storage service gave no usable answer; the message names the service and the reason."""

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(f"{address[0]}:{address[1]} {reason}")
        self.address = address
        self.reason = reason
        #: The devices of the service for which the error has been counted.
        self.devices: set[str] = set()


class ConnectError(BackendError):
    """No connection could be made: nothing was sent."""


class ConnectTimeout(ConnectError):
    """No connection within conn_timeout."""


class ReadTimeout(BackendError):
    """The server neither sent nor took a byte for node_timeout."""


class ConnectionLost(BackendError):
    """The connection ended before the answer; the server may have executed the request."""


class BadResponse(BackendError):
    """The answer is not HTTP, or exceeds a limit."""


def lost(address: Address, error: OSError, what: str) -> BackendError:
    """The error of a connection that has ended; a ConnectError if nothing was sent."""
    if isinstance(error, HandshakeError):
        return ConnectError(address, f"no TLS: {error}")
    return ConnectionLost(address, f"{what}: {error}")


class _Pool(Protocol):
    def give_back(self, address: Address, sock: socket.socket) -> None: ...


class Incoming:
    """The part of an answer that has been read; the parser calls the on_* methods."""

    __slots__ = (
        "_body_left",
        "_parser",
        "_pool",
        "address",
        "chunks",
        "continue_headers",
        "has_continue",
        "has_final_headers",
        "headers",
        "is_complete",
        "keep_alive",
        "method",
        "reason",
        "received_bytes",
        "sock",
        "status",
    )

    def __init__(self, pool: _Pool, address: Address, sock: socket.socket, method: str) -> None:
        self._pool: _Pool | None = pool
        self.address = address
        self._parser = httptools.HttpResponseParser(self)
        self._body_left = 0  # what of a body of known length has not been read
        self.sock = sock
        self.method = method
        self.received_bytes = 0
        self.status = 0
        self.reason = ""
        self.headers: dict[str, str] = {}
        self.chunks: list[bytes] = []
        self.has_continue = False
        self.continue_headers: dict[str, str] = {}
        self.has_final_headers = False
        self.is_complete = False
        self.keep_alive = False

    def fill(self, timeout: float) -> None:
        """Read once from the connection and parse the data.

        :raises ReadTimeout: nothing came; the state is unchanged.
        :raises BackendError: the connection is lost, and closed.
        """
        try:
            self.sock.settimeout(timeout)
            # One byte behind the body would show that the connection must not be reused.
            count = min(self._body_left + 1, BODY_READ_BYTES) if self._body_left else READ_BYTES
            data = self.sock.recv(count)
        except TimeoutError as error:
            raise ReadTimeout(self.address, f"no answer in {timeout} s") from error
        except OSError as error:
            self.drop()
            raise lost(self.address, error, "connection lost") from error
        if not data:
            self._at_end_of_connection()
            return
        self.received_bytes += len(data)
        if self._body_left:  # nothing is left to parse, and the parser would copy it
            self._take_body(data)
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            # There are bytes after the end of the answer: the connection must not be reused.
            if self.is_complete:
                self.keep_alive = False
                return
            self.drop()
            raise BadResponse(self.address, f"answer is not HTTP: {error!r}") from error
        if not self.has_final_headers and self.received_bytes > HEADER_BYTES_MAX:
            self.drop()
            raise BadResponse(self.address, f"headers are longer than {HEADER_BYTES_MAX} bytes")

    def _take_body(self, data: bytes) -> None:
        if len(data) > self._body_left:
            self.keep_alive = False
            data = data[: self._body_left]
        self._body_left -= len(data)
        self.chunks.append(data)
        self.is_complete = not self._body_left

    def release(self) -> None:
        """Return the connection to the pool if the answer was read to its end, else close it."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        if self.is_complete and self.keep_alive:
            pool.give_back(self.address, self.sock)
        else:
            self.sock.close()

    def drop(self) -> None:
        """Close the connection, unless it has been returned to the pool."""
        if self._pool is not None:
            self._pool = None
            self.sock.close()

    def abort(self) -> None:
        """Close the connection, and wake the thread that waits on it."""
        if self._pool is None:
            return
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it was no longer connected
        self.drop()

    def never_reuse(self) -> None:
        """Close the connection after this answer, even if the server would keep it."""
        self.keep_alive = False

    def _at_end_of_connection(self) -> None:
        has_length = "content-length" in self.headers or "transfer-encoding" in self.headers
        if self.has_final_headers and not has_length:
            self.is_complete = True  # a body without a length ends with its connection
            self.keep_alive = False
            return
        self.drop()
        raise ConnectionLost(self.address, "connection closed before the end of the answer")

    def on_status(self, status: bytes) -> None:
        self.reason = status.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        key = header_key(name)
        text = value.decode("latin-1")
        if key in self.headers:
            text = f"{self.headers[key]}, {text}"
        self.headers[key] = text

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            return
        self.status = status
        self.has_final_headers = True
        if self.method == "HEAD":  # no body follows, whatever Content-Length says
            self.is_complete = True
            self.keep_alive = self.headers.get("connection", "").lower() != "close"
        else:
            self.keep_alive = self._parser.should_keep_alive()
            self._body_left = self._length_of_body()

    def _length_of_body(self) -> int:
        """0 if there is none, or if only the parser can tell."""
        length = self.headers.get("content-length", "")
        is_told = length.isdecimal() and "transfer-encoding" not in self.headers
        return int(length) if is_told and self.status not in (204, 304) else 0

    def on_body(self, data: bytes) -> None:
        self._body_left = max(self._body_left - len(data), 0)
        self.chunks.append(data)

    def on_message_complete(self) -> None:
        if self.has_final_headers:
            self.is_complete = True
            return
        self.has_continue = True  # an interim answer; the final one follows with its own headers
        self.continue_headers, self.headers = self.headers, {}
        self.reason = ""


class BackendResponse:
    """Status and headers of an answer; its body is read on demand.

    `headers` has lower-case names and WSGI strings as values. The caller reads the body to its end
    or calls close().
    """

    __slots__ = ("_incoming", "_timeout", "headers", "reason", "status")

    def __init__(self, incoming: Incoming, timeout: float) -> None:
        self._incoming = incoming
        self._timeout = timeout
        self.status: int = incoming.status
        self.reason: str = incoming.reason
        self.headers: dict[str, str] = incoming.headers
        if incoming.is_complete:
            incoming.release()

    def iter_chunks(self) -> Iterator[bytes]:
        """Yield the pieces of the body as they arrive.

        :raises BackendError: the body is incomplete; the pieces yielded before are good.
        """
        incoming = self._incoming
        while True:
            chunks, incoming.chunks = incoming.chunks, []
            yield from chunks
            if incoming.is_complete:
                incoming.release()
                return
            try:
                incoming.fill(self._timeout)
            except ReadTimeout as error:
                incoming.drop()
                reason = f"the body stopped for {self._timeout} s"
                raise ConnectionLost(incoming.address, reason) from error

    def read_some(self, timeout: float) -> list[bytes]:
        """Return the next pieces of the body; an empty list at its end.

        After a ReadTimeout the call may be repeated.

        :raises BackendError: the body is incomplete, or nothing came for ``timeout`` seconds.
        """
        incoming = self._incoming
        while not incoming.chunks and not incoming.is_complete:
            incoming.fill(timeout)
        chunks, incoming.chunks = incoming.chunks, []
        if incoming.is_complete:
            incoming.release()
        return chunks

    def body(self, limit_bytes: int | None = None) -> bytes:
        """The whole body.

        :raises BackendError: the body is incomplete, or longer than the limit.
        """
        if limit_bytes is None:
            return b"".join(self.iter_chunks())
        chunks, received = [], 0
        for chunk in self.iter_chunks():
            received += len(chunk)
            if received > limit_bytes:
                self._incoming.drop()
                raise BadResponse(self._incoming.address, f"body is over {limit_bytes} bytes")
            chunks.append(chunk)
        return b"".join(chunks)

    def close(self) -> None:
        """Discard the rest of the body; a short rest is read, so that the connection is reused."""
        incoming = self._incoming
        length = incoming.headers.get("content-length", "")
        drained = not incoming.is_complete and length.isdigit() and int(length) <= DRAIN_BYTES_MAX
        try:
            while drained and not incoming.is_complete:
                incoming.chunks = []
                incoming.fill(DRAIN_SECONDS_MAX)
        except BackendError:
            pass  # release() closes what is not complete
        incoming.chunks = []
        incoming.release()


@lru_cache(_HEADER_NAMES_MAX)  # bounded: clients choose the names of metadata
def header_key(name: bytes) -> str:
    """The name of a header in lower case, from its wire form."""
    return name.lower().decode("latin-1")

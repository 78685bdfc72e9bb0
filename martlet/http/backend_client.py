# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 to the storage services, over keep-alive connections that are shared by address.

The module uses only the socket module. Under eventlet's monkey patch its sockets are green; without
it they block. Both obey the same timeouts. A client belongs to one process, and all green threads
of the process may use it in parallel. An exchange, an upload or a response belongs to one thread.

Sending and reading are separate steps, so that one green thread can send to several servers before
it reads the first answer. `BackendClient.request` does both for callers that use one server.

The server may close a pooled connection just as it is taken from the pool. If no byte of an answer
came, the request is sent again on a new connection. This is safe: every request of the backend
protocol carries an X-Timestamp, so a server that receives it twice ignores the second one.

A cluster with a secret wants a login on each new connection (doc/formats/grid.md). It is a part of
the exchange: the thread that reads the answer drives it, so one slow server does not delay the
requests to others. A server that does not prove itself is a ConnectError: no request was sent.

The same thread drives the handshake of TLS. If it fails, that is a ConnectError, too.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping

from martlet.http.backend_login import Login, LoginError, StartLogin, answer_login
from martlet.http.backend_response import (
    REFUSED_HEADER,
    Address,
    BackendError,
    BackendResponse,
    BadResponse,
    ConnectError,
    ConnectionLost,
    ConnectTimeout,
    Incoming,
    ReadTimeout,
    lost,
)
from martlet.http.traced import OpenSpan
from martlet.tls.tls_socket import TlsSocket

__all__ = [
    "Address",
    "BackendClient",
    "BackendError",
    "BackendExchange",
    "BackendResponse",
    "BackendUpload",
    "BadResponse",
    "ConnectError",
    "ConnectTimeout",
    "ConnectionLost",
    "ReadTimeout",
    "Secure",
    "encode_headers",
    "request_head",
]

# Up to this size a body is sent together with the headers: copying it is cheaper than a second
# system call.
JOIN_BODY_BYTES_MAX = 64 * 1024
# A connection used less than this time ago is assumed to be open without a check, seconds.
FRESH_SECONDS = 1.0

#: Begins TLS on a new connection, as `martlet.tls.contexts.ClientTls` does, or leaves it as it is.
Secure = Callable[[socket.socket, Address], socket.socket]


def encode_headers(headers: Mapping[str, str]) -> bytes:
    """The header lines in their wire form; values are WSGI strings (one character a byte).

    A fan-out encodes the common headers of its requests once, and passes the bytes instead of the
    mapping.

    :raises ValueError: for a line break inside a name or value, or a character above U+00FF.
    """
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    text = "".join(lines)
    if text.count("\n") != len(lines) or text.count("\r") != len(lines):
        raise ValueError("a header contains a line break")
    return text.encode("latin-1")


class BackendClient:
    """Opens, shares and keeps connections.

    :param conn_timeout: seconds to wait for a connection.
    :param node_timeout: seconds to wait for each single read or write.
    :param pool_size: idle connections kept for each address; more are closed after use.
    :param start_login: called for each new connection; without it there are no logins.
    :param secure: called for each new connection; without it there is no TLS.
    """

    def __init__(
        self,
        conn_timeout: float = 0.5,
        node_timeout: float = 10.0,
        pool_size: int = 64,
        start_login: StartLogin | None = None,
        secure: Secure | None = None,
    ) -> None:
        self.conn_timeout = conn_timeout
        self.node_timeout = node_timeout
        self.pool_size = pool_size
        self._start_login = start_login
        self._secure = secure
        # The connections of each address, with the time of their last use.
        self._idle: dict[Address, list[tuple[socket.socket, float]]] = {}

    def request(
        self,
        address: Address,
        method: str,
        path: str,
        headers: Mapping[str, str] | bytes,
        body: bytes = b"",
        node_timeout: float | None = None,
    ) -> BackendResponse:
        """Send a request and return when the headers of its answer have come.

        The path must be quoted. The caller reads the body or calls close() on the response;
        otherwise the connection does not return to the pool.

        :raises BackendError: no answer, or an answer that is not HTTP.
        """
        exchange = self.start(address, method, path, headers, body, node_timeout)
        try:
            return exchange.response()
        except ReadTimeout:
            exchange.abort()
            raise

    def start(
        self,
        address: Address,
        method: str,
        path: str,
        headers: Mapping[str, str] | bytes,
        body: bytes = b"",
        node_timeout: float | None = None,
    ) -> BackendExchange:
        """Send a whole request; its answer is read from the exchange.

        Adds Host, and Content-Length for a body.

        :raises BackendError: the request could not be sent.
        """
        lines = headers if isinstance(headers, bytes) else encode_headers(headers)
        head = request_head(method, path, address, lines, len(body))
        return BackendExchange(self, address, method, head, body, node_timeout)

    def start_upload(
        self,
        address: Address,
        method: str,
        path: str,
        headers: Mapping[str, str] | bytes,
        content_length: int | None,
        node_timeout: float | None = None,
    ) -> BackendUpload:
        """Send the headers of an upload with Expect: 100-continue.

        Without a length the body is sent in chunks.

        :raises BackendError: the headers could not be sent.
        """
        lines = headers if isinstance(headers, bytes) else encode_headers(headers)
        framing = (
            b"Transfer-Encoding: chunked\r\n"
            if content_length is None
            else b"Content-Length: %d\r\n" % content_length
        )
        head = _request_line(method, path, address) + lines + framing
        head += b"Expect: 100-continue\r\n\r\n"
        return BackendUpload(self, address, method, head, b"", node_timeout, content_length is None)

    def close(self) -> None:
        """Close every idle connection."""
        for idle in self._idle.values():
            while idle:
                idle.pop()[0].close()

    def connect(self, address: Address) -> tuple[socket.socket, Login | None]:
        """A new connection, not from the pool, and the login that must come first, if any.

        :raises ConnectError: the connection failed, or (ConnectTimeout) took too long.
        """
        try:
            sock = socket.create_connection(address, self.conn_timeout)
        except TimeoutError as error:
            raise ConnectTimeout(address, f"no connection in {self.conn_timeout} s") from error
        except OSError as error:
            raise ConnectError(address, f"cannot connect: {error}") from error
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ip = sock.getpeername()[0]
            if self._secure is not None:
                sock = self._secure(sock, address)
        except OSError as error:
            sock.close()
            raise ConnectError(address, f"connection lost: {error}") from error
        return sock, self._start_login(address, ip) if self._start_login else None

    def take(self, address: Address) -> socket.socket | None:
        """Take an idle connection that does not seem to be closed by the server, or None."""
        idle = self._idle.get(address)
        while idle:
            sock, used_at = idle.pop()
            if time.monotonic() - used_at < FRESH_SECONDS or not _is_stale(sock):
                return sock
            sock.close()
        return None

    def give_back(self, address: Address, sock: socket.socket) -> None:
        """Return a connection to the pool; the answer on it must have been read to its end."""
        idle = self._idle.setdefault(address, [])
        if len(idle) < self.pool_size:
            idle.append((sock, time.monotonic()))
        else:
            sock.close()


class BackendExchange:
    """A request that was sent and whose answer has not been read."""

    __slots__ = (
        "_body",
        "_client",
        "_has_lost_login",
        "_head",
        "_incoming",
        "_login",
        "_method",
        "_reused",
        "address",
        "span",
        "timeout",
        "was_resent",
    )

    def __init__(
        self,
        client: BackendClient,
        address: Address,
        method: str,
        head: bytes,
        body: bytes,
        timeout: float | None,
    ) -> None:
        self._client = client
        self._method = method
        self._head = head
        self._body = body
        self._login: Login | None = None  # the connection is not proved yet
        self._has_lost_login = False
        self.address = address
        self.timeout = client.node_timeout if timeout is None else timeout
        #: Sent a second time, so that the server may have acted on it before it answered.
        self.was_resent = False
        #: Ends with the headers of the answer, if the request is traced.
        self.span: OpenSpan | None = None
        sock = client.take(address)
        self._reused = sock is not None
        if sock is None:
            self._connect()
            return
        self._incoming = Incoming(client, address, sock, method)
        try:
            self._send_request()
        except ConnectionLost:
            self._send_again()

    def fileno(self) -> int:
        """The descriptor to wait on for the answer."""
        return self._incoming.sock.fileno()

    def response(self, timeout: float | None = None) -> BackendResponse:
        """Read up to the end of the answer's headers.

        After a ReadTimeout the exchange is intact: the caller may call again to wait longer, or
        call abort().

        :param timeout: seconds for each read, instead of the request's node_timeout.
        :raises BackendError: no answer, an answer that is not HTTP, or the refusal of a client
            without a proof.
        """
        self._log_in(timeout)
        while not self._incoming.has_final_headers:
            self._read_some(timeout)
            self._log_in(timeout)
        return self._final_answer()

    def abort(self) -> None:
        """Close the connection; to the server the request or upload is aborted.

        It may be called while another thread sends: that send then fails.
        """
        if self.span is not None:
            self.span.fail("aborted")
        self._incoming.abort()

    def _final_answer(self) -> BackendResponse:
        """:raises ConnectError: it says that the server serves no connection without a proof."""
        incoming = self._incoming
        if incoming.status == 403 and REFUSED_HEADER in incoming.headers:
            incoming.drop()
            reason = "demands a proof of the cluster's secret: set grid_secret in martlet.conf"
            raise ConnectError(self.address, reason)
        if self.span is not None:
            self.span.end(incoming.status)
        return BackendResponse(incoming, self.timeout)

    def _read_some(self, timeout: float | None) -> None:
        try:
            self._incoming.fill(self.timeout if timeout is None else timeout)
        except ConnectionLost:
            if not self._reused or self._incoming.received_bytes:
                raise
            self._send_again()

    def _send_again(self) -> None:
        """Send again on a new connection, after the server closed the pooled one."""
        self._reused = False
        self.was_resent = True
        self._incoming.drop()
        self._connect()

    def _connect(self) -> None:
        """Open a connection, and send the request, or the login that must come before it."""
        sock, self._login = self._client.connect(self.address)
        if self._login is None:
            self._incoming = Incoming(self._client, self.address, sock, self._method)
            self._send_request()
        else:
            self._send_login(sock, self._login.start())

    def _send_login(self, sock: socket.socket, request: bytes) -> None:
        self._incoming = Incoming(self._client, self.address, sock, "GET")
        self._send_all(request)

    def _log_in(self, timeout: float | None) -> None:
        """If the connection is not proved yet, do that, and send the request.

        :raises ReadTimeout: there is no answer yet; the call may be repeated.
        :raises ConnectError: the server does not prove itself.
        :raises BackendError: it does not answer, or not in HTTP.
        """
        while self._login is not None:
            incoming = self._incoming
            try:
                request = answer_login(
                    self._login, incoming, self.timeout if timeout is None else timeout
                )
            except LoginError as error:
                incoming.drop()
                raise ConnectError(self.address, f"no login: {error}") from None
            except ConnectionLost:
                incoming.drop()
                if self._has_lost_login:
                    raise
                self._has_lost_login = True  # a server that reloads closes some connections
                self._connect()
                continue
            if request:
                self._send_login(incoming.sock, request)
            else:
                self._login = None
                self._incoming = Incoming(self._client, self.address, incoming.sock, self._method)
                self._send_request()

    def _send_request(self) -> None:
        if len(self._body) <= JOIN_BODY_BYTES_MAX:
            self._send_all(self._head + self._body)
        else:
            self._send_all(self._head)
            self._send_all(self._body)

    def _send_all(self, data: bytes) -> None:
        sock = self._incoming.sock
        try:
            sock.settimeout(self.timeout)
            sock.sendall(data)
        except TimeoutError as error:
            self._incoming.drop()
            raise ReadTimeout(self.address, f"accepted no data for {self.timeout} s") from error
        except OSError as error:
            self._incoming.drop()
            raise lost(self.address, error, "connection lost while sending") from error


class BackendUpload(BackendExchange):
    """A request whose headers were sent and whose body follows piece by piece.

    The order of calls: expect_continue(), send() for each piece, end(), response(). After abort(),
    at any point, the server receives an incomplete body and stores nothing.
    """

    __slots__ = ("_body_began", "_chunked")

    def __init__(
        self,
        client: BackendClient,
        address: Address,
        method: str,
        head: bytes,
        body: bytes,
        timeout: float | None,
        chunked: bool,
    ) -> None:
        self._chunked = chunked
        super().__init__(client, address, method, head, body, timeout)

    def expect_continue(self, timeout: float | None = None) -> BackendResponse | None:
        """Wait for 100 Continue and return None, or the final answer sent instead of it.

        :raises BackendError: no answer; after a ReadTimeout the call may be repeated.
        """
        self._log_in(timeout)
        incoming = self._incoming
        while not (incoming.has_continue or incoming.has_final_headers):
            self._read_some(timeout)
            self._log_in(timeout)
            incoming = self._incoming
        if incoming.has_final_headers:
            incoming.never_reuse()  # the server may read the next bytes as the body
            return self._final_answer()
        self._reused = False  # the body follows, which cannot be sent again
        return None

    @property
    def continue_headers(self) -> dict[str, str]:
        """The headers of the 100 Continue answer, by lower-case name."""
        return self._incoming.continue_headers

    def send(self, chunk: bytes) -> None:
        """Send a piece of the body.

        :raises BackendError: the server does not accept it; the upload has failed.
        """
        if not chunk:
            return
        if not self._chunked:
            self._send_all(chunk)
        elif len(chunk) <= JOIN_BODY_BYTES_MAX:
            self._send_all(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        else:
            self._send_all(b"%x\r\n" % len(chunk))
            self._send_all(chunk)
            self._send_all(b"\r\n")

    def end(self) -> None:
        """Tell the server that the body is complete.

        :raises BackendError: the connection is lost.
        """
        if self._chunked:
            self._send_all(b"0\r\n\r\n")

    def finish(self) -> BackendResponse:
        """Call end() and response().

        :raises BackendError: no answer.
        """
        self.end()
        return self.response()


def request_head(
    method: str, path: str, address: Address, lines: bytes, content_length: int
) -> bytes:
    """The request line and the headers of a request; ``lines`` are encoded headers.

    :raises ValueError: the path is not quoted.
    """
    length = b""
    if content_length or method in ("PUT", "POST"):
        length = b"Content-Length: %d\r\n" % content_length
    return _request_line(method, path, address) + lines + length + b"\r\n"


def _request_line(method: str, path: str, address: Address) -> bytes:
    if "\r" in path or "\n" in path or " " in path:
        raise ValueError(f"path is not quoted: {path!r}")
    host = address[0]
    if ":" in host:
        host = f"[{host}]"
    return f"{method} {path} HTTP/1.1\r\nHost: {host}:{address[1]}\r\n".encode("latin-1")


def _is_stale(sock: socket.socket) -> bool:
    """Whether the server has closed the connection or sent unexpected data.

    This takes one system call and does not wait.
    """
    if isinstance(sock, TlsSocket):
        return sock.is_stale()
    raw = getattr(sock, "fd", sock)  # a green socket would wait; the socket inside it does not
    timeout = raw.gettimeout()
    if timeout != 0:
        raw.settimeout(0)
    try:
        raw.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        if timeout != 0:
            raw.settimeout(timeout)
        return False
    except OSError:
        return True
    return True

# SPDX-License-Identifier: Apache-2.0
"""The connection of one client: its requests, one after another."""

from __future__ import annotations

import logging
import socket
import sys
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import lru_cache, partial
from typing import Any, Protocol
from urllib.parse import unquote_to_bytes

from martlet.http.environ import (
    CONNECTION,
    HAND_OVER,
    UNDERSCORED_HEADERS,
    Environ,
    WSGIApp,
)
from martlet.http.header_names import upper_name
from martlet.http.response import STATUS_LINES
from martlet.http.trans_id import new_trans_id
from martlet.wsgi.answer import Answer
from martlet.wsgi.body import Body, ChunkedBody
from martlet.wsgi.head import BadRequestError, Head, parse_head
from martlet.wsgi.limits import Limits
from martlet.wsgi.stream import ClientStream
from martlet.wsgi.tls_door import TlsDoor

#: If the application leaves no more than this of a body unread, the connection is reused.
_LEFT_BODY_BYTES_MAX = 64 * 1024
#: A reset would discard the answer to a client that is still sending: read up to this first.
_DRAIN_BYTES_MAX = 1 << 20
_DRAIN_SECONDS = 2.0


class House(Protocol):
    """The part of the server that a connection uses."""

    app: WSGIApp
    limits: Limits
    door: TlsDoor | None
    logger: logging.Logger
    base_environ: Environ
    is_stopping: bool

    def idling(self, connection: Connection) -> AbstractContextManager[None]:
        """A context for the time in which the connection waits for a request."""

    def serving(self) -> AbstractContextManager[Any]:
        """A context for the time in which the application runs; entering may wait."""


class Successor(Protocol):
    """The service of a connection after an upgrade to another protocol."""

    def run(self, sock: socket.socket, received: bytes) -> None:
        """Serve the socket until its end; ``received`` has been read from it already."""

    def retire(self) -> None:
        """End soon, since the server stops. It may be called before ``run``, and more than once."""


class Connection:
    """The service of one socket until its end. No action of the client makes ``run`` raise."""

    def __init__(self, house: House, sock: socket.socket, peer: tuple[str, int]) -> None:
        self.sock = sock
        self._house = house
        self._stream = ClientStream(sock, house.limits)
        self._environ = dict(house.base_environ)
        own = sock.getsockname()
        self._environ["SERVER_NAME"], self._environ["SERVER_PORT"] = own[0], str(own[1])
        self._environ["REMOTE_ADDR"], self._environ["REMOTE_PORT"] = peer[0], str(peer[1])
        self._environ[HAND_OVER] = self._hand_over
        self._environ[CONNECTION] = {}  # the same one for all requests
        self._successor: Successor | None = None

    @property
    def is_between_requests(self) -> bool:
        """Whether no byte of a next request has come."""
        return self._stream.is_empty

    def run(self) -> None:
        """Serve requests until the client, a timeout or an error ends the connection."""
        try:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._house.door is not None:
                with self._house.idling(self):
                    self._house.door.shake_hands(self.sock, self._environ["REMOTE_ADDR"])
            idle_timeout = self._house.limits.client_timeout
            while self._serve_next(idle_timeout):
                idle_timeout = self._house.limits.idle_timeout
        except OSError:
            pass  # the client has closed the connection, or is too slow
        except Exception:
            self._house.logger.exception("event=connection_failed")
        finally:
            self.sock.close()

    def retire(self) -> None:
        """Tell the successor, if there is one, that the server stops."""
        if self._successor is not None:
            self._successor.retire()

    def _hand_over(self, successor: Successor) -> None:
        self._successor = successor
        if self._house.is_stopping:
            successor.retire()

    def _serve_next(self, idle_timeout: float) -> bool:
        """Serve one request; return whether the connection can be used again."""
        try:
            with self._house.idling(self):
                data = self._stream.read_head(idle_timeout)
            if data is None:
                return False
            self.sock.settimeout(self._house.limits.client_timeout)  # replaces the idle timeout
            head = parse_head(data, self._house.limits)
        except BadRequestError as error:
            self._refuse(error)
            return False
        answer = Answer(self.sock, head, lambda: self._is_kept(head, body))
        body = self._body_of(head, answer)
        with self._house.serving():
            is_whole = self._answer(head, body, answer)
        if self._successor is not None:
            if is_whole:
                self._successor.run(self.sock, self._stream.take())
            return False
        if is_whole and answer.is_kept:
            return _skip(body)
        if is_whole and not body.is_finished:
            self._drain()
        return False

    def _body_of(self, head: Head, answer: Answer) -> Body:
        ask = partial(self._continue, answer) if head.expects_continue else None
        if head.length is None:
            return ChunkedBody(self._stream, self._house.limits, ask)
        return Body(self._stream, head.length, ask)

    def _continue(self, answer: Answer) -> None:
        if not answer.is_sent:  # after the head, the client would read it as a part of the body
            self.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _is_kept(self, head: Head, body: Body) -> bool:
        if not head.is_kept or self._house.is_stopping:
            return False
        if body.is_finished:
            return True
        # A client that was not asked for its body may send it or not: the next bytes are ambiguous.
        return body.is_asked_for and body.left is not None and body.left <= _LEFT_BODY_BYTES_MAX

    def _answer(self, head: Head, body: Body, answer: Answer) -> bool:
        """Let the application answer; return False if the answer is incomplete.

        :raises OSError: the client has closed the connection.
        """
        house = self._house
        environ = self._environ_of(head, body)
        result: Iterable[bytes] = ()
        try:
            result = house.app(environ, answer.start_response)
            answer.run(result)
            return True
        except OSError as error:
            if answer.is_sent or not _is_fault_of_app(error):
                raise
            house.logger.exception("event=unhandled_error trans_id=%s", _trans_id(environ))
        except Exception:
            house.logger.exception("event=unhandled_error trans_id=%s", _trans_id(environ))
        finally:
            close = getattr(result, "close", None)
            if close is not None:
                close()
        if not answer.is_sent:
            self._send_error("500 Internal Server Error", b"Internal error\n", _trans_id(environ))
            self._drain()
        return False

    def _environ_of(self, head: Head, body: Body) -> dict[str, Any]:
        environ = dict(self._environ)
        path, _, query = head.target.partition("?")
        environ["REQUEST_METHOD"] = head.method
        environ["RAW_PATH_INFO"] = path
        environ["PATH_INFO"] = _unquoted(path) if "%" in path else path
        environ["QUERY_STRING"] = query
        environ["SERVER_PROTOCOL"] = "HTTP/1.1" if head.is_http_11 else "HTTP/1.0"
        for name, value in head.headers.items():
            key = _variable(name)
            if key:
                environ[key] = value
            else:
                environ.setdefault(UNDERSCORED_HEADERS, {})[name] = value
        environ["wsgi.input"] = body
        return environ

    def _refuse(self, error: BadRequestError) -> None:
        trans_id = new_trans_id()
        self._house.logger.info(
            "event=request_refused remote_addr=%s status=%d reason=%r trans_id=%s",
            self._environ["REMOTE_ADDR"],
            error.status.value,
            str(error),
            trans_id,
        )
        status = STATUS_LINES[error.status]
        self._send_error(status, f"{error}\n".encode(), trans_id)
        self._drain()

    def _send_error(self, status: str, body: bytes, trans_id: str) -> None:
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\n"
            f"X-Trans-Id: {trans_id}\r\nX-Openstack-Request-Id: {trans_id}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.sock.sendall(head.encode("latin-1") + body)

    def _drain(self) -> None:
        """Read the bytes that the client still sends: a reset would discard the unread answer."""
        deadline = time.monotonic() + _DRAIN_SECONDS
        left = _DRAIN_BYTES_MAX
        self.sock.shutdown(socket.SHUT_WR)
        while left > 0 and (seconds := deadline - time.monotonic()) > 0:
            self.sock.settimeout(seconds)
            piece = self.sock.recv(65536)
            if not piece:
                break
            left -= len(piece)


def base_environ(scheme: str) -> Environ:
    """The keys that are the same for all requests; the scheme is http or https."""
    return {
        "SCRIPT_NAME": "",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scheme,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }


@lru_cache(1024)  # bounded: clients choose the names
def _variable(name: str) -> str:
    """The key of a header, by its name in lower case; empty for a header that is left out."""
    if "_" in name:
        return ""  # X_A and X-A would become the same variable
    upper = upper_name(name).replace("-", "_")
    return upper if upper in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{upper}"


def _skip(body: Body) -> bool:
    """Read the rest of a short body that the application has not read."""
    while not body.is_finished:
        if not body.read(_LEFT_BODY_BYTES_MAX):
            return body.is_finished
    return True


def _is_fault_of_app(error: OSError) -> bool:
    """Whether an OSError before the answer has another source than the client's socket."""
    return not isinstance(error, (ConnectionError, TimeoutError))


def _trans_id(environ: Environ) -> str:
    """The id that a filter gave to the request, or else a new one, which is stored."""
    trans_id: str = environ.setdefault("swift.trans_id", new_trans_id())
    return trans_id


def _unquoted(path: str) -> str:
    # From bytes: from a str it would encode the characters beyond ASCII as UTF-8.
    return unquote_to_bytes(path.encode("latin-1")).decode("latin-1")

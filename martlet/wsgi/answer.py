# SPDX-License-Identifier: Apache-2.0
"""The answer of an application: its framing and sending."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable
from typing import Any

from martlet.http.environ import HeaderList
from martlet.http.response import http_date
from martlet.wsgi.head import Head

#: A body up to this size is sent together with the headers.
_JOIN_BYTES_MAX = 64 * 1024
_BODYLESS_STATUSES = ("1", "204", "304")


class BrokenAnswerError(Exception):
    """The application broke the rules of WSGI or of HTTP."""


class Answer:
    """One answer: ``start_response`` for the application, then ``send`` and ``finish``.

    :param is_kept: called when the head is made; whether the connection stays open afterwards.
    """

    def __init__(self, sock: socket.socket, head: Head, is_kept: Callable[[], bool]) -> None:
        self._sock = sock
        self._method = head.method
        self._is_http_11 = head.is_http_11
        self._asks_to_keep = head.asks_to_keep
        self._ask_is_kept = is_kept
        self._status = ""
        self._headers: HeaderList = []
        self._is_chunked = False
        self._left: int | None = None  # bytes of the body that Content-Length still announces
        self._has_body = True
        #: Whether the head has been sent.
        self.is_sent = False
        #: Whether the connection may be used again; known once the head is sent.
        self.is_kept = False

    def start_response(
        self, status: str, headers: HeaderList, exc_info: Any = None
    ) -> Callable[[bytes], None]:
        """The ``start_response`` of PEP 3333."""
        if exc_info is not None and self.is_sent:
            raise exc_info[1].with_traceback(exc_info[2])
        if self._status and exc_info is None:
            raise BrokenAnswerError("start_response was called twice")
        self._status, self._headers = status, headers
        return self.send

    def run(self, result: Iterable[bytes]) -> None:
        """Send the whole body that the application returned.

        :raises OSError: the client has closed the connection.
        """
        if isinstance(result, (list, tuple)):
            # The whole body is known: it is sent in one piece, with its length.
            body = result[0] if len(result) == 1 else b"".join(result)
            self._send(body, len(body))
        else:
            for chunk in result:
                self.send(chunk)
        if not self.is_sent:
            self._send(b"", 0)
        if self._is_chunked:
            self._sock.sendall(b"0\r\n\r\n")
        if self._left:
            raise BrokenAnswerError(f"the body is {self._left} bytes below its Content-Length")

    def send(self, chunk: bytes) -> None:
        """Send a piece of the body.

        :raises OSError: the client has closed the connection.
        """
        if chunk:
            self._send(chunk, None)

    def _send(self, chunk: bytes, whole: int | None) -> None:
        head = b"" if self.is_sent else self._head(whole)
        if not self._has_body:
            chunk = b""
        elif self._left is not None:
            if len(chunk) > self._left:
                self.is_kept = False
                raise BrokenAnswerError("the body is longer than its Content-Length")
            self._left -= len(chunk)
        elif self._is_chunked and chunk:
            chunk = b"%x\r\n%b\r\n" % (len(chunk), chunk)
        if not self.is_sent:
            self.is_sent = True
            if len(chunk) <= _JOIN_BYTES_MAX:
                head, chunk = head + chunk, b""
            self._sock.sendall(head)
        if chunk:
            self._sock.sendall(chunk)

    def _head(self, whole: int | None) -> bytes:
        """Make the status line and the headers; choose how the end of the body is marked.

        :param whole: the length of the body, if all of it is known.
        """
        if not self._status:
            raise BrokenAnswerError("the application did not call start_response")
        lines = [f"HTTP/1.1 {self._status}"]
        lines += [f"{name}: {value}" for name, value in self._headers]
        values = {name.lower(): value for name, value in self._headers}
        if "content-length" in values:
            self._left = int(values["content-length"])
        bodyless = self._status.startswith(_BODYLESS_STATUSES)
        self._has_body = not bodyless and self._method != "HEAD"
        is_told = not self._has_body or self._left is not None
        if not is_told and whole is not None:
            lines.append(f"Content-Length: {whole}")
            self._left, is_told = whole, True
        if not self._has_body:
            self._left = None
        if not is_told and self._is_http_11:
            lines.append("Transfer-Encoding: chunked")
            self._is_chunked = is_told = True
        self.is_kept = is_told and "connection" not in values and self._ask_is_kept()
        if "connection" not in values:
            if not self.is_kept:
                lines.append("Connection: close")
            elif self._asks_to_keep:
                lines.append("Connection: keep-alive")
        if "date" not in values:
            lines.append(f"Date: {_date(int(time.time()))}")
        text = "\r\n".join(lines)
        if text.count("\n") != len(lines) - 1 or text.count("\r") != len(lines) - 1:
            raise BrokenAnswerError("a header contains a line break")
        return text.encode("latin-1") + b"\r\n\r\n"


_last_date = (0, "")


def _date(now: int) -> str:
    """The Date header, cached for one second."""
    global _last_date
    if _last_date[0] != now:
        _last_date = (now, http_date(now))
    return _last_date[1]

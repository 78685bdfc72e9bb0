# SPDX-License-Identifier: Apache-2.0
"""A socket whose bytes are encrypted, with those methods of a socket that our code uses.

It stands on `ssl.SSLObject`, which does no I/O. So it works alike over a blocking, a non-blocking
and a green socket. All errors of TLS are `ConnectionError`, as a lost connection is. An end without
the peer's farewell is one, too: an attacker could cut a connection off.

One thread at a time may use it; another one may call ``shutdown``.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from typing import Any, TypeVar, cast

Sock = socket.socket
T = TypeVar("T")

#: The longest record with its header, rounded up, bytes.
_RECORD_BYTES = 17 * 1024
#: The longest plain text of a record.
_PLAIN_BYTES = 16 * 1024
#: Plain text that is encrypted for one call of the system.
_PIECE_BYTES = 512 * 1024
#: A peer that sends more than this without a byte of data (new keys, tickets) is cut off.
_BARREN_BYTES_MAX = 64 * 1024
#: Before the end of the handshake so many bytes may be "sent": they wait for it.
_EARLY_BYTES_MAX = 256 * 1024


class TlsError(ConnectionError):
    """The peer broke the rules of TLS, or cut the connection off."""


class HandshakeError(TlsError):
    """There is no TLS with this peer; nothing was sent to it.

    :param is_http: the peer sent a request of HTTP without TLS.
    """

    def __init__(self, reason: str, is_http: bool = False) -> None:
        super().__init__(reason)
        self.is_http = is_http


class TlsSocket:
    """One end of a TLS connection; it owns the socket inside.

    A client sends the beginning of the handshake at once. Until its end, what ``sendall`` takes
    waits here, so a server that is slow does not delay the caller before its first ``recv``.

    :param server_name: the name or address to be in the server's certificate; of a client only.
    :raises OSError: the connection is lost.
    """

    def __init__(self, sock: Sock, context: ssl.SSLContext, server_name: str | None = None) -> None:
        self._owned = self._sock = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_name is None,
            server_hostname=server_name,
        )
        self._is_open = False  # whether the handshake has ended
        self._is_shut = False  # whether this side sends no more
        self._is_ended = False  # whether the peer sends no more
        self._early = b""
        self._barren_bytes = 0  # that came since the last data
        # What a non-blocking socket has not taken, and how much plain text that is.
        self._unsent = memoryview(b"")
        self._taken = 0
        if server_name is not None:
            self._step()

    # --- the handshake ----------------------------------------------------------------------------

    def shake_hands(self, end_at: float | None = None) -> None:
        """Bring the handshake to its end; after a TimeoutError the call may be repeated.

        :param end_at: a time.monotonic(); without it each read has the time of ``settimeout``.
        :raises HandshakeError: one side does not accept the other.
        :raises OSError: the connection is lost, or (TimeoutError) it took too long.
        """
        while not self._is_open:
            self._set_timeout_until(end_at)
            data = self._sock.recv(_RECORD_BYTES)
            if not data:
                raise HandshakeError("the other side closed the connection in the handshake")
            self._incoming.write(data)
            self._step()

    def answer_in_plain_text(self, data: bytes) -> None:
        """Tell a peer that speaks no TLS what is wrong.

        :raises OSError: the connection is lost.
        """
        self._sock.sendall(data)

    def _step(self) -> None:
        """Act on what has come."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._push()
            return
        except ssl.SSLError as error:
            self._say_why()
            raise HandshakeError(_reason(error), error.reason == "HTTP_REQUEST") from None
        self._is_open = True
        if self._early:
            early, self._early = self._early, b""
            self._encrypt(early)
        self._push()

    def _say_why(self) -> None:
        """Send the alert that tells the other side what is wrong."""
        try:
            self._push()
        except OSError:
            pass  # the caller learns the reason all the same

    # --- the methods of a socket ------------------------------------------------------------------

    def recv(self, size: int) -> bytes:
        """Receive up to ``size`` bytes; none after the peer's farewell.

        The time of ``settimeout`` is that of the whole call, with the handshake if it is not done.
        With a size of 64 KiB or more no bytes stay behind that a wait for the descriptor would not
        see.

        :raises OSError: as a socket's; TlsError, HandshakeError.
        """
        if self._is_shut:
            return bytes(len(self._sock.recv(size)))  # good for counting only
        return self._in_time(lambda end_at: self._receive(size, end_at))

    def _receive(self, size: int, end_at: float | None) -> bytes:
        if not self._is_open:
            self.shake_hands(end_at)
        wanted = max(size - _RECORD_BYTES, _RECORD_BYTES)
        while True:
            if self._incoming.pending or self._tls.pending():
                data = self._decrypt(size)
                if data is not None:
                    self._barren_bytes = 0
                    return data
                if self._barren_bytes > _BARREN_BYTES_MAX:
                    raise TlsError("the other side sends much that is no data")
            if self._is_ended:
                return b""
            self._set_timeout_until(end_at)
            received = self._sock.recv(wanted)
            if not received:
                raise TlsError("the connection was cut off")
            self._barren_bytes += len(received)
            self._incoming.write(received)

    def _in_time(self, action: Callable[[float | None], T]) -> T:
        """Act within the time of ``settimeout``, which does not begin anew with each byte.

        :param action: called with the end of that time, None: it may block for ever, or not at all.
        """
        seconds = self._sock.gettimeout()
        if not seconds:
            return action(None)
        try:
            return action(time.monotonic() + seconds)
        finally:
            self._sock.settimeout(seconds)

    def _set_timeout_until(self, end_at: float | None) -> None:
        if end_at is not None:
            seconds = end_at - time.monotonic()
            if seconds <= 0:
                raise TimeoutError
            self._sock.settimeout(seconds)

    def send(self, data: bytes | memoryview) -> int:
        """Send some bytes; returns how many. After a BlockingIOError send the same ones again.

        :raises OSError: as a socket's.
        """
        if not self._taken:
            piece = data[:_PIECE_BYTES]
            self._encrypt(piece)
            self._taken = len(piece)
            self._unsent = memoryview(self._outgoing.read())
        while self._unsent:
            self._unsent = self._unsent[self._sock.send(self._unsent) :]
        taken, self._taken = self._taken, 0
        return taken

    def sendall(self, data: bytes | memoryview) -> None:
        """Send all bytes.

        :raises OSError: as a socket's; the connection is of no more use then.
        """
        if not self._is_open:
            if len(self._early) + len(data) <= _EARLY_BYTES_MAX:
                self._early += data
                return
            self._in_time(self.shake_hands)
        for start in range(0, len(data), _PIECE_BYTES):
            self._encrypt(data[start : start + _PIECE_BYTES])
            self._push()

    def shutdown(self, how: int) -> None:
        """End the connection, in one direction or both."""
        if how == socket.SHUT_WR:
            self._bid_farewell()
        self._sock.shutdown(how)

    def close(self) -> None:
        """Say farewell, if that is possible at once, and close the socket."""
        try:
            self.setblocking(False)
            self._bid_farewell()
        except OSError:
            pass  # the peer sees that it was cut off
        self._sock.close()
        self._owned.close()

    def setblocking(self, flag: bool) -> None:
        """As a socket's; a green socket does not block its thread any more then."""
        if not flag:
            self._sock = getattr(self._sock, "fd", self._sock)
        self._sock.setblocking(flag)

    def settimeout(self, seconds: float | None) -> None:
        """As a socket's."""
        self._sock.settimeout(seconds)

    def gettimeout(self) -> float | None:
        """As a socket's."""
        return self._sock.gettimeout()

    def setsockopt(self, level: int, name: int, value: int) -> None:
        """As a socket's."""
        self._sock.setsockopt(level, name, value)

    def getsockname(self) -> Any:
        """As a socket's."""
        return self._sock.getsockname()

    def getpeername(self) -> Any:
        """As a socket's."""
        return self._sock.getpeername()

    def fileno(self) -> int:
        """As a socket's; the descriptor is readable when bytes wait, which may be no whole ones."""
        return self._sock.fileno()

    def is_stale(self) -> bool:
        """Whether the peer has closed an idle connection or sent unexpected data; never waits."""
        raw = getattr(self._sock, "fd", self._sock)
        timeout = raw.gettimeout()
        raw.settimeout(0)
        try:
            while not (self._incoming.pending or self._tls.pending()):
                received = raw.recv(_RECORD_BYTES)
                if not received:
                    return True
                self._incoming.write(received)
                if self._decrypt(1) is not None:
                    return True
            return True
        except BlockingIOError:
            raw.settimeout(timeout)
            return False
        except OSError:
            return True

    # --- bytes ------------------------------------------------------------------------------------

    def _decrypt(self, size: int) -> bytes | None:
        """The plain text of what has come; empty after the farewell; None: there is none yet."""
        pieces: list[bytes] = []
        try:
            while size > 0:
                piece = self._tls.read(min(size, _PLAIN_BYTES))
                if not piece:
                    self._is_ended = True
                    break
                pieces.append(piece)
                size -= len(piece)
                if not (self._incoming.pending or self._tls.pending()):
                    break
        except ssl.SSLWantReadError:
            if not pieces:
                return None
        except ssl.SSLZeroReturnError:
            self._is_ended = True
        except ssl.SSLError as error:
            if not pieces:  # else the next call raises it
                raise TlsError(_reason(error)) from None
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _encrypt(self, data: bytes | memoryview) -> None:
        if not data:
            return
        try:
            sent = self._tls.write(data)  # one record
            while sent < len(data):
                sent += self._tls.write(memoryview(data)[sent:])
        except ssl.SSLError as error:
            raise TlsError(_reason(error)) from None

    def _push(self) -> None:
        if self._outgoing.pending:
            self._sock.sendall(self._outgoing.read())

    def _bid_farewell(self) -> None:
        if not self._is_open or self._is_shut or self._unsent:
            return
        self._is_shut = True
        try:
            self._tls.unwrap()
        except ssl.SSLError:
            pass  # its own farewell has not come; ours is ready
        if self._outgoing.pending:
            self._sock.send(self._outgoing.read())


def as_socket(tls: TlsSocket) -> Sock:
    """For annotations: as a green socket, it has the methods of a socket and is none."""
    return cast(Sock, tls)


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    return (error.reason or str(error)).replace("_", " ").lower()

# SPDX-License-Identifier: Apache-2.0
"""The side that listens: a WSGI application for the path ``/grid`` of a service.

It answers the upgrade and takes the connection over from the HTTP server. Then the peer proves that
it knows the secret. Until then it can do nothing, its messages are small and its time is short, and
the number of such connections is bounded.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable

from martlet.grid.connection import GridConnection, Responder
from martlet.grid.frames import FrameError
from martlet.grid.handshake import AcceptorHandshake, RefusedError
from martlet.grid.loop import Loop, process_loop
from martlet.grid.options import Options
from martlet.grid.refusals import Refusal, Refusals
from martlet.grid.secrets import Secrets
from martlet.grid.session import Session
from martlet.grid.websocket import Channel, accept_upgrade, acceptor_channel
from martlet.http.backend_response import Address
from martlet.http.environ import HAND_OVER, Environ, StartResponse
from martlet.log import get_logger

HANDSHAKE_SECONDS = 10.0
_READ_BYTES = 16 * 1024

log = get_logger("martlet.grid")


class GridServer:
    """The application; one for each process.

    :param responder: serves the requests, for example `martlet.grid.handlers.Handlers`.
    :param unauthenticated_max: connections in their handshake; more are refused.
    :param handshake_seconds: longest time of a handshake.
    """

    def __init__(
        self,
        secrets: Secrets,
        responder: Responder,
        options: Options | None = None,
        unauthenticated_max: int = 64,
        handshake_seconds: float = HANDSHAKE_SECONDS,
        loop: Loop | None = None,
    ) -> None:
        self.secrets = secrets
        self.responder = responder
        self.options = options or Options()
        self.unauthenticated_max = unauthenticated_max
        self.handshake_seconds = handshake_seconds
        self._given_loop = loop
        #: Connections in their handshake.
        self.unauthenticated = 0
        #: Connections after their handshake.
        self.connections: set[GridConnection] = set()
        #: Handshakes that succeeded.
        self.handshakes = 0
        self.refusals = Refusals("grid_refused")
        #: Connections that ended because the peer broke a rule of the format.
        self.protocol_errors = 0

    @property
    def loop(self) -> Loop:
        """The loop of this process, which may have been forked since this object was made."""
        return self._given_loop or process_loop()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer 101 to an upgrade; 400: it is none, or of another version; 503: too many."""
        peer = (environ.get("REMOTE_ADDR", ""), int(environ.get("REMOTE_PORT", 0) or 0))
        headers, sentence = _check_upgrade(environ)
        if not headers:
            self.refusals.add(Refusal.BAD_UPGRADE, peer[0], sentence)
            return _refusal("400 Bad Request", sentence, start_response)
        if self.unauthenticated >= self.unauthenticated_max:
            sentence = "Too many connections are in their handshake."
            self.refusals.add(Refusal.TOO_MANY, peer[0], sentence)
            return _refusal("503 Service Unavailable", sentence, start_response)
        environ[HAND_OVER](_Guest(self, peer))
        start_response("101 Switching Protocols", headers)
        return []

    def drain(self, reason: str = "the server stops") -> None:
        """Accept no more requests; connections end once nothing is in flight on them."""
        for connection in list(self.connections):
            connection.leave(reason)


class _Guest:
    """The service of one connection, from the answer 101 to its end."""

    def __init__(self, server: GridServer, peer: Address) -> None:
        self._server = server
        self._peer = peer
        self._connection: GridConnection | None = None
        self._is_retiring = False

    def retire(self) -> None:
        self._is_retiring = True
        if self._connection is not None:
            self._connection.leave("the server stops")

    def run(self, sock: socket.socket, received: bytes) -> None:
        server = self._server
        server.unauthenticated += 1
        try:
            peer = self._shake_hands(sock, received)
        finally:
            server.unauthenticated -= 1
        if peer is None:
            return
        server.handshakes += 1
        loop = server.loop
        ended = loop.waiter()
        reasons: list[str] = []

        def on_end(connection: GridConnection, reason: str) -> None:
            server.connections.discard(connection)
            if connection.is_violated:
                server.protocol_errors += 1
                log.warning(
                    "event=grid_violated remote_addr=%s name=%r reason=%r",
                    self._peer[0],
                    peer.name,
                    reason,
                )
            reasons.append(reason)
            ended.wake()

        session = Session(False, server.options, peer, time.monotonic())
        channel = acceptor_channel(is_welcome=True)
        connection = GridConnection(
            loop, sock, channel, session, self._peer, server.responder, on_end
        )
        self._connection = connection
        server.connections.add(connection)
        connection.start()
        if self._is_retiring:
            connection.leave("the server stops")
        while not reasons:
            ended.wait(None)

    def _shake_hands(self, sock: socket.socket, received: bytes) -> Options | None:
        """The options of the peer; None if it is refused, and then it has been counted."""
        server = self._server
        handshake = AcceptorHandshake(server.secrets, server.options)
        channel = acceptor_channel(is_welcome=False)
        try:
            try:
                self._exchange(sock, received, handshake, channel)
            except RefusedError as error:
                if error.frame:
                    sock.sendall(channel.wrap(error.frame))
                raise
        except RefusedError as error:
            kind, sentence = error.kind, str(error)
        except FrameError as error:
            kind, sentence = Refusal.MALFORMED, str(error)
        except TimeoutError:
            kind, sentence = Refusal.TOO_SLOW, f"no proof in {server.handshake_seconds:g} s"
        except OSError as error:
            kind, sentence = Refusal.LOST, f"connection lost in the handshake: {error}"
        else:
            return handshake.peer
        server.refusals.add(kind, self._peer[0], sentence)
        try:
            sock.sendall(channel.close(sentence))
        except OSError:
            pass  # the peer has closed it already
        return None

    def _exchange(
        self, sock: socket.socket, received: bytes, handshake: AcceptorHandshake, channel: Channel
    ) -> None:
        """:raises RefusedError, FrameError, OSError: no handshake."""
        end_at = time.monotonic() + self._server.handshake_seconds
        sock.settimeout(self._server.handshake_seconds)
        sock.sendall(channel.wrap(handshake.start()))
        while True:
            for message in channel.feed(received) if received else ():
                answer = handshake.receive(message)
                if answer:
                    sock.sendall(channel.wrap(answer))
            sock.sendall(channel.take_bytes())
            if handshake.peer is not None:
                return
            if channel.is_closed_by_peer:
                raise ConnectionError("the other side has closed it")
            seconds = end_at - time.monotonic()
            if seconds <= 0:
                raise TimeoutError
            sock.settimeout(seconds)
            received = sock.recv(_READ_BYTES)
            if not received:
                raise ConnectionError("the other side has closed it")


def _check_upgrade(environ: Environ) -> tuple[list[tuple[str, str]], str]:
    """The headers of the answer, or none and a sentence."""
    if environ["REQUEST_METHOD"] != "GET" or environ["SERVER_PROTOCOL"] != "HTTP/1.1":
        return [], "A connection of the grid begins with GET and HTTP/1.1."
    if environ.get("CONTENT_LENGTH", "0") != "0" or "HTTP_TRANSFER_ENCODING" in environ:
        return [], "A connection of the grid begins without a body."
    if HAND_OVER not in environ:
        return [], "This server cannot hand over its connections."
    prefix = "HTTP_"
    return accept_upgrade(
        (name[len(prefix) :].replace("_", "-"), value)
        for name, value in environ.items()
        if name.startswith(prefix)
    )


def _refusal(status: str, sentence: str, start_response: StartResponse) -> Iterable[bytes]:
    body = f"{sentence}\n".encode()
    headers = [("Content-Type", "text/plain"), ("Connection", "close")]
    start_response(status, [*headers, ("Content-Length", str(len(body)))])
    return [body]

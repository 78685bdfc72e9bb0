# SPDX-License-Identifier: Apache-2.0
"""The way to a connection: TCP, TLS, the upgrade, the handshake. It blocks its (green) thread."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass

from martlet.grid.errors import GridRefusedError
from martlet.grid.frames import FrameError
from martlet.grid.handshake import ConnectorHandshake, RefusedError
from martlet.grid.options import Options
from martlet.grid.secrets import Secrets
from martlet.grid.websocket import Channel, Opening, UpgradeRefusedError
from martlet.http.backend_client import Address, ConnectError, ConnectTimeout, Secure
from martlet.tls.tls_socket import HandshakeError, TlsSocket

_READ_BYTES = 64 * 1024


@dataclass(slots=True)
class Connected:
    """A connection whose other side has proved that it knows the secret.

    ``messages`` came together with the end of the handshake.
    """

    sock: socket.socket
    channel: Channel
    peer: Options
    messages: list[bytes | bytearray]


def connect(
    address: Address,
    secrets: Secrets,
    options: Options,
    conn_timeout: float,
    handshake_timeout: float,
    secure: Secure | None = None,
) -> Connected:
    """Open a connection.

    :param conn_timeout: seconds to wait for TCP.
    :param handshake_timeout: seconds for all that follows.
    :param secure: begins TLS; without it there is none.
    :raises ConnectError: it failed; ConnectTimeout: it took too long.
    :raises GridRefusedError: the server speaks no grid, or one side refuses the other.
    """
    try:
        sock = socket.create_connection(address, conn_timeout)
    except TimeoutError as error:
        raise ConnectTimeout(address, f"no connection in {conn_timeout} s") from error
    except OSError as error:
        raise ConnectError(address, f"cannot connect: {error}") from error
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end_at = time.monotonic() + handshake_timeout
        if secure is not None:
            sock = secure(sock, address)
            if isinstance(sock, TlsSocket):
                sock.shake_hands(end_at)
        opening = _Opening(sock, address, end_at)
        return opening.run(ConnectorHandshake(secrets, options))
    except TimeoutError as error:
        sock.close()
        reason = f"no handshake of the grid in {handshake_timeout} s"
        raise ConnectTimeout(address, reason) from error
    except HandshakeError as error:
        sock.close()
        raise ConnectError(address, f"no TLS: {error}") from error
    except OSError as error:
        sock.close()
        raise ConnectError(address, f"connection lost in the handshake: {error}") from error
    except UpgradeRefusedError as error:
        sock.close()
        raise GridRefusedError(address, str(error), has_no_grid=not error.is_for_now) from None
    except (FrameError, RefusedError) as error:
        sock.close()
        raise GridRefusedError(address, str(error)) from None
    except BaseException:
        sock.close()  # the thread was told to stop
        raise


class _Opening:
    def __init__(self, sock: socket.socket, address: Address, end_at: float) -> None:
        self._sock = sock
        self._address = address
        self._end_at = end_at

    def run(self, handshake: ConnectorHandshake) -> Connected:
        channel, messages = self._upgrade()
        while handshake.peer is None:
            while not messages:
                messages = channel.feed(self._read("no WELCOME"))
                if not messages and channel.is_closed_by_peer:
                    raise ConnectionError("the server closed the connection without WELCOME")
            try:
                answer = handshake.receive(messages.pop(0))
            except RefusedError as error:
                if error.frame:
                    self._sock.sendall(channel.wrap(error.frame) + channel.close(str(error)))
                raise
            if answer:
                self._sock.sendall(channel.wrap(answer))
        return Connected(self._sock, channel, handshake.peer, messages)

    def _upgrade(self) -> tuple[Channel, list[bytes | bytearray]]:
        opening = Opening(self._address)
        self._sock.sendall(opening.start())
        while True:
            result = opening.feed(self._read("", is_end_allowed=True))
            if result is not None:
                return result

    def _read(self, missing: str, is_end_allowed: bool = False) -> bytes:
        seconds = self._end_at - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        self._sock.settimeout(seconds)
        data = self._sock.recv(_READ_BYTES)
        if not data and not is_end_allowed:
            raise ConnectionError(f"the server closed the connection, {missing} came")
        return data

"""Two connected ends of TLS, one of them ours and the other one of the standard library."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator

from certificates import Authority, Certificate

from martlet.tls.contexts import client_context, server_context
from martlet.tls.tls_socket import TlsSocket

PATIENCE_SECONDS = 30.0


def plain_pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a TCP connection; reads and writes of tests do not wait for ever."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
    for sock in (client, server):
        sock.settimeout(PATIENCE_SECONDS)
    return client, server


@contextlib.contextmanager
def in_parallel(action: Callable[[], object]) -> Iterator[list[BaseException]]:
    """Run an action in a thread; it has ended after the block, with its exception in the list."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield raised
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()


def our_client(
    authority: Authority, issued: Certificate, tickets: int = 2
) -> tuple[TlsSocket, ssl.SSLSocket]:
    """Our client after its handshake, and a server of the standard library.

    :param tickets: for new sessions, which the server sends after the handshake.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = tickets
    context.load_cert_chain(issued.certificate, issued.key)
    mine, theirs = plain_pair()
    ours = TlsSocket(mine, client_context(authority.path), server_name="127.0.0.1")
    with in_parallel(ours.shake_hands) as raised:
        other = context.wrap_socket(theirs, server_side=True, suppress_ragged_eofs=False)
    assert raised == []
    return ours, other


def our_server(authority: Authority, issued: Certificate) -> tuple[TlsSocket, ssl.SSLSocket]:
    """Our server after its handshake, and a client of the standard library."""
    context = ssl.create_default_context(cafile=authority.path)
    theirs, mine = plain_pair()
    ours = TlsSocket(mine, server_context(issued.certificate, issued.key))
    with in_parallel(ours.shake_hands) as raised:
        other = context.wrap_socket(theirs, server_hostname="127.0.0.1", suppress_ragged_eofs=False)
    assert raised == []
    return ours, other


class Records:
    """A client whose records are bytes, to be sent in any way."""

    def __init__(self, authority: Authority, plain: socket.socket) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=authority.path)
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                plain.sendall(self._outgoing.read())
                self._incoming.write(plain.recv(65536))
        plain.sendall(self._outgoing.read())

    def of(self, data: bytes) -> bytes:
        """The records of some plain text."""
        self._tls.write(data)
        return self._outgoing.read()

# SPDX-License-Identifier: Apache-2.0
"""The contexts of TLS for servers and clients, made from PEM files.

A client verifies the chain and the name of each server. It shows no certificate of its own: the
secret of the grid authenticates it. Sessions are not resumed, so each connection is verified.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

from martlet.tls.tls_socket import Sock, TlsSocket, as_socket

#: A Go server refuses clients that offer other protocols alone; one of Python does not look.
_PROTOCOLS = ["http/1.1"]


def server_context(certificate: str | Path, key: str | Path) -> ssl.SSLContext:
    """The context of a server.

    :param certificate: the chain, the server's own certificate first.
    :param key: its private key, not encrypted.
    :raises ValueError: the files cannot be used; the message says why.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _restrict(context)
    context.num_tickets = 0
    _check_readable(certificate)
    _check_readable(key)
    try:
        context.load_cert_chain(certificate, key, password=_refuse_password)
    except ssl.SSLError as error:
        if "KEY_VALUES_MISMATCH" in (error.reason or ""):
            reason = f"{key} is not the key of the certificate {certificate}"
        else:
            reason = f"{certificate} or {key} is no certificate or key in PEM"
        raise ValueError(reason) from None
    return context


def client_context(authorities: str | Path) -> ssl.SSLContext:
    """The context of a client.

    :param authorities: the certificates of those that sign the servers' certificates.
    :raises ValueError: the file cannot be used; the message says why.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # it verifies the chain and the name
    _restrict(context)
    # As Go: a common name is no name, and an authority need not be a root.
    context.hostname_checks_common_name = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    _check_readable(authorities)
    try:
        context.load_verify_locations(authorities)
    except ssl.SSLError:
        raise ValueError(f"{authorities} has no certificate in PEM") from None
    return context


class ClientTls:
    """Makes connections of a client secure.

    :param is_plain: whether the server at an IP address speaks no TLS.
    :raises ValueError: the file of the authorities cannot be used.
    """

    def __init__(
        self, authorities: str | Path, is_plain: Callable[[str], bool] = lambda ip: False
    ) -> None:
        self._context = client_context(authorities)
        self._is_plain = is_plain

    def __call__(self, sock: Sock, address: tuple[str, int]) -> Sock:
        """Begin TLS on a new connection; the first read ends the handshake.

        :raises OSError: the connection is lost.
        """
        if self._is_plain(sock.getpeername()[0]):
            return sock
        return as_socket(TlsSocket(sock, self._context, server_name=address[0]))


def _restrict(context: ssl.SSLContext) -> None:
    # 1.2 has renegotiation: OpenSSL refuses each attempt with an alert that waits in memory.
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.options |= ssl.OP_NO_TICKET
    context.set_alpn_protocols(_PROTOCOLS)


def _check_readable(path: str | Path) -> None:
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None


def _refuse_password() -> bytes:
    # Without this, OpenSSL would ask the terminal.
    raise ValueError("the private key is encrypted; a server cannot ask for its password")

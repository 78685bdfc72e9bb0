# SPDX-License-Identifier: Apache-2.0
"""The login on a new connection, as the client of the storage services sees it.

`martlet.grid.http_login` has the login of a cluster with a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from martlet.http.backend_response import Address, ConnectionLost, Incoming

# An answer to a login has a few headers and no body.
LOGIN_BYTES_MAX = 16 * 1024


class LoginError(Exception):
    """The server does not prove itself, or does not accept this side; the message says why."""


class Login(Protocol):
    """The requests and answers by which both sides of a new connection prove themselves."""

    def start(self) -> bytes:
        """The first request."""

    def answer(self, status: int, headers: Mapping[str, str]) -> bytes:
        """The request that follows an answer; empty when both sides have proved themselves.

        :param headers: with lower-case names.
        :raises LoginError: a side does not accept the other.
        """


#: Returns the login for an address and the IP address that it led to; None: no proof is needed.
StartLogin = Callable[[Address, str], Login | None]


def answer_login(login: Login, incoming: Incoming, timeout: float) -> bytes:
    """Read an answer; the request that follows it, empty at the end of the login.

    :raises LoginError: the server does not prove itself.
    :raises BackendError: it does not answer, or closes the connection.
    """
    while not incoming.is_complete:
        incoming.fill(timeout)
        if incoming.received_bytes > LOGIN_BYTES_MAX:
            raise LoginError("its answer to a login is too long")
    request = login.answer(incoming.status, incoming.headers)
    if not incoming.keep_alive:
        raise ConnectionLost(incoming.address, "it closes the connection after a login")
    return request

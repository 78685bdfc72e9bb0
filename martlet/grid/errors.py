# SPDX-License-Identifier: Apache-2.0
"""Errors of requests over the grid, and whether a failed request may have been executed.

A request fails with one of the errors of `martlet.http.backend_client`, so that callers treat both
transports alike: ConnectError and ConnectTimeout without a connection, ReadTimeout at its deadline,
ConnectionLost if the connection ends before the answer, or `RequestError`.
"""

from __future__ import annotations

from enum import IntEnum

from martlet.http.backend_client import Address, BackendError, ConnectError


class Code(IntEnum):
    """The code of an ERROR; the values are on the wire."""

    UNKNOWN_NAME = 1
    BUSY = 2
    TOO_LARGE = 3
    BAD_PAYLOAD = 4
    DEADLINE = 5
    CANCELLED = 6
    FAILED = 7
    GOING_AWAY = 8


# TOO_LARGE is none of them: it may be the answer that is too large.
_NOT_EXECUTED = frozenset({Code.UNKNOWN_NAME, Code.BUSY, Code.BAD_PAYLOAD, Code.GOING_AWAY})


class LimitError(Exception):
    """A limit of the peer forbids the request now; nothing was sent."""

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class RequestError(BackendError):
    """The server answered with an error, or a limit of the server forbids the request.

    ``code`` is a `Code`, or a number that this version does not know. ``was_sent`` is false if the
    limit forbade the request before it left.
    """

    def __init__(self, address: Address, code: int, reason: str, was_sent: bool = True) -> None:
        super().__init__(address, reason or f"answered with error {code}")
        self.code = code
        self.was_sent = was_sent


class GridRefusedError(ConnectError):
    """The server speaks no grid, or one of the sides does not accept the other; nothing was sent.

    ``has_no_grid`` says that the answer to the upgrade was an HTTP status other than 101 and 503.
    """

    def __init__(self, address: Address, reason: str, has_no_grid: bool = False) -> None:
        super().__init__(address, reason)
        self.has_no_grid = has_no_grid


def may_have_run(error: BackendError) -> bool:
    """Whether the server may have executed the request that failed with this error.

    If so, the caller sets the flag *resent* when it sends the request again.
    """
    if isinstance(error, RequestError):
        return error.was_sent and error.code not in _NOT_EXECUTED
    return not isinstance(error, ConnectError)

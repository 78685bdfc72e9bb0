# SPDX-License-Identifier: Apache-2.0
"""Call a WSGI application as a server would."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from martlet.http.environ import Environ, HeaderList, WSGIApp


def call_app(app: WSGIApp, environ: Environ) -> tuple[str, HeaderList, Iterable[bytes]]:
    """Run a WSGI application up to its first byte.

    Returns the status line, the headers and the body. The caller must call the body's ``close`` if
    it has one.
    """
    seen: list[tuple[str, HeaderList]] = []

    def start_response(status: str, headers: HeaderList, exc_info: Any = None) -> None:
        seen[:] = [(status, headers)]

    body = app(environ, start_response)
    if seen:
        status, header_list = seen[0]
        return status, header_list, body
    # An application written as a generator calls start_response with its first chunk.
    iterator = iter(body)
    first = next(iterator, b"")
    if not seen:
        raise RuntimeError("WSGI application returned without calling start_response")
    return (*seen[0], _Rejoined(first, iterator, body))


class _Rejoined:
    """A body whose first chunk has been taken off."""

    def __init__(self, first: bytes, rest: Iterator[bytes], whole: Iterable[bytes]) -> None:
        self._first: bytes | None = first
        self._rest = rest
        self._whole = whole

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        return next(self._rest)

    def close(self) -> None:
        """Close the application's body."""
        close = getattr(self._whole, "close", None)
        if close is not None:
            close()

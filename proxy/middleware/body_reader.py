# SPDX-License-Identifier: Apache-2.0
"""The body of one answer as the body of another request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from martlet.log import fields, get_logger

log = get_logger("proxy.copy")


class BodyReader:
    """The source's body as ``wsgi.input`` of the PUT; a read may return less than requested.

    A source that breaks off looks like the end of the body. The PUT then refuses the body as
    shorter than its Content-Length.
    """

    def __init__(self, body: Iterable[bytes]) -> None:
        self._body = body
        self._chunks: Iterator[bytes] = iter(body)
        self._rest = b""
        self.broke_off = False

    def read(self, size: int = -1) -> bytes:
        """Return up to ``size`` bytes, all bytes if ``size`` is negative, none at the end."""
        if size < 0:
            return b"".join(iter(lambda: self.read(1 << 20), b""))
        while not self._rest:
            try:
                self._rest = next(self._chunks)
            except StopIteration:
                return b""
            except Exception as error:
                self.broke_off = True
                log.error("source of a copy broke off %s", fields(error=error))
                return b""
        piece, self._rest = self._rest[:size], self._rest[size:]
        return piece

    def close(self) -> None:
        """Close the source's body."""
        close = getattr(self._body, "close", None)
        if close is not None:
            close()

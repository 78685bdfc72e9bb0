# SPDX-License-Identifier: Apache-2.0
"""The request body of a logged request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


class CountingInput:
    """A request body that counts its bytes and notices if the client closes the connection.

    All other attributes are those of the server's input object (its 100-continue switches).
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.bytes_received = 0
        self.client_disconnect = False

    def read(self, *args: Any) -> bytes:
        """See ``BinaryIO.read``."""
        return self._counted(self._stream.read, *args)

    def readline(self, *args: Any) -> bytes:
        """See ``BinaryIO.readline``."""
        return self._counted(self._stream.readline, *args)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")

    def _counted(self, read: Callable[..., bytes], *args: Any) -> bytes:
        try:
            chunk = read(*args)
        except Exception:
            self.client_disconnect = True
            raise
        self.bytes_received += len(chunk)
        return chunk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

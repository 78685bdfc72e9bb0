# SPDX-License-Identifier: Apache-2.0
"""Limits of everything that a client may send, and of the time it may take."""

from __future__ import annotations

from dataclasses import dataclass

#: All header lines of a request together, bytes.
_HEADERS_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a client; lengths are in bytes, times in seconds.

    :param request_line: the longest request line, without its end.
    :param header_line: the longest header or trailer line, without its end.
    :param header_count: the most header lines, and the most trailer lines.
    :param client_timeout: longest wait for a read from or a write to the client, and longest time
        from the first byte of a head to its last.
    :param idle_timeout: longest time of a keep-alive connection without a request.
    """

    request_line: int = 8192
    header_line: int = 8192
    header_count: int = 195
    client_timeout: float = 60.0
    idle_timeout: float = 65.0

    @property
    def head_bytes(self) -> int:
        """The longest head of a request."""
        return self.request_line + max(_HEADERS_BYTES_MAX, self.header_line) + 4

# SPDX-License-Identifier: Apache-2.0
"""The headers of a request to a storage server, in the forms of both transports: HTTP and the grid.

A form is made when it is first needed. The requests to several replicas share most headers, which
are encoded once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgpack  # type: ignore[import-untyped]

from martlet.http.backend_client import encode_headers
from martlet.http.response import http_error
from martlet.http.traced import TRACEPARENT, OpenSpan

#: All control characters but the tab, and what is no byte.
_find_forbidden = re.compile("[\x00-\x08\x0a-\x1f\x7f]|[^\x00-\xff]").search
_packer = msgpack.Packer(autoreset=True)
_SHORT_MAP_MAX = 15  # pairs of a MessagePack map whose head is one byte
_LONG_MAP_HEAD_BYTES = 3


class WireHeaders:
    """Headers by wire name; values are WSGI strings (one character a byte)."""

    __slots__ = ("_base", "_lines", "_pairs", "_values")

    def __init__(self, values: Mapping[str, str], base: WireHeaders | None = None) -> None:
        """Headers of ``base`` go before these; then these are of the proxy's own making.

        :raises HTTPException: (400) a header of the client has a character that is not allowed.
        """
        if base is None and not is_header_text(values):
            raise http_error(400, "A header contains a line break or another control character.")
        self._values = values
        self._base = base
        self._lines: bytes | None = None
        self._pairs: bytes | None = None

    def below(self, span: OpenSpan | None) -> WireHeaders:
        """These headers for the request of that span; the same without one."""
        return self if span is None else WireHeaders({TRACEPARENT: span.traceparent}, self)

    @property
    def lines(self) -> bytes:
        """The lines of an HTTP request."""
        if self._lines is None:
            own = encode_headers(self._values)
            self._lines = own if self._base is None else self._base.lines + own
        return self._lines

    @property
    def packed(self) -> bytes:
        """A MessagePack map."""
        head: bytes = _packer.pack_map_header(self._count)
        return head + self._all_pairs

    @property
    def _count(self) -> int:
        return len(self._values) + (0 if self._base is None else self._base._count)

    @property
    def _all_pairs(self) -> bytes:
        if self._pairs is None:
            values = self._values if type(self._values) is dict else dict(self._values)
            own: bytes = _packer.pack(values)
            own = own[1 if len(values) <= _SHORT_MAP_MAX else _LONG_MAP_HEAD_BYTES :]
            self._pairs = own if self._base is None else self._base._all_pairs + own
        return self._pairs


def is_header_text(headers: Mapping[str, str]) -> bool:
    """Whether names and values have only characters that a header may have.

    :raises TypeError: one is no string.
    """
    text = "".join(headers) + "".join(headers.values())
    return (text.isascii() and text.isprintable()) or not _find_forbidden(text)

# SPDX-License-Identifier: Apache-2.0
"""Requests to storage servers and their answers as payloads of the grid
(doc/formats/grid-messages.md). No I/O.
"""

from __future__ import annotations

from functools import lru_cache

import msgpack  # type: ignore[import-untyped]

from proxy.replicas.quorum import Answer
from proxy.wire_headers import WireHeaders, is_header_text

#: The name of each request, by the type of server and the HTTP method.
NAMES = {
    (kind, method): f"{kind.lower()}.{method.lower()}"
    for kind in ("Account", "Container", "Object")
    for method in ("PUT", "GET", "HEAD", "POST", "DELETE")
}

_ARRAY_OF_5 = b"\x95"
_UINT16 = b"\xcd"
_STATUS_500 = (500).to_bytes(2, "big")
_packer = msgpack.Packer(autoreset=True)


class RequestPacker:
    """The payload of one request for each of several devices; what they share is packed once."""

    __slots__ = ("_body", "_place")

    def __init__(self, partition: int, path: str, body: bytes) -> None:
        self._place: bytes = _packer.pack((partition, path))[1:]
        self._body: bytes = _packer.pack(body)

    def pack(self, device: str, headers: WireHeaders) -> bytes:
        """The payload for one device."""
        return b"".join((_ARRAY_OF_5, _text(device), self._place, headers.packed, self._body))


def is_server_error(payload: bytes) -> bool:
    """Whether an answer has a status from 500 on, by its first bytes alone."""
    return payload[1:2] == _UINT16 and payload[2:4] >= _STATUS_500


def unpack_answer(payload: bytes, was_resent: bool) -> tuple[Answer, bool]:
    """The answer, and whether its body is left out.

    :raises ValueError: it is malformed.
    """
    try:
        status, headers, body, *_ = msgpack.unpackb(payload)
        is_answer = (
            type(status) is int
            and 200 <= status <= 599
            and type(headers) is dict
            and is_header_text(headers)
            and (body is None or type(body) is bytes)
        )
    except (ValueError, TypeError) as error:  # msgpack's own errors are of these
        raise ValueError(f"{error!r} in the payload of an answer") from error
    if not is_answer:
        raise ValueError("an answer is no status with headers and a body")
    return Answer(status, headers, body or b"", was_resent), body is None


@lru_cache(4096)  # bounded: rings may change
def _text(text: str) -> bytes:
    packed: bytes = _packer.pack(text)
    return packed

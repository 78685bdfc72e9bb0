# SPDX-License-Identifier: Apache-2.0
"""Decryption of the parts of a multipart/byteranges body; the frame stays unchanged."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from proxy.middleware.encryption.cipher import Transform
from proxy.middleware.encryption.meta import CryptoError

_CONTENT_RANGE = re.compile(rb"\r\ncontent-range:\s*bytes (\d+)-(\d+)", re.IGNORECASE)
_HEAD_END = b"\r\n\r\n"
_HEAD_BYTES_MAX = 64 * 1024


def decrypted_parts(
    chunks: Iterable[bytes], stream_from: Callable[[int], Transform]
) -> Iterator[bytes]:
    """Yield the body with its parts decrypted; ``stream_from`` decrypts from a given byte on.

    :raises CryptoError: it is not a multipart body as storage servers send it.
    """
    buffer = b""
    left = 0
    stream: Transform | None = None
    for chunk in chunks:
        buffer += chunk
        while buffer:
            if stream is not None and left:
                piece, buffer = buffer[:left], buffer[left:]
                left -= len(piece)
                yield stream.update(piece)
                continue
            head, found, rest = buffer.partition(_HEAD_END)
            if not found:
                if len(buffer) > _HEAD_BYTES_MAX:
                    raise CryptoError("a part of a multipart body has no end of its headers")
                break
            span = _CONTENT_RANGE.search(head)
            if span is None:
                raise CryptoError("a part of a multipart body has no Content-Range")
            first, last = int(span[1]), int(span[2])
            left, stream = last - first + 1, stream_from(first)
            yield head + _HEAD_END
            buffer = rest
    if buffer:
        yield buffer  # the last boundary

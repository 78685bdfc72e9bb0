# SPDX-License-Identifier: Apache-2.0
"""Documents of buckets as system metadata of containers; ``doc/formats/s3-settings.md``."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping

from proxy.s3.wire.errors import S3Error

#: Servers limit a header to 8192 bytes.
PIECE_BYTES = 7168
PIECES_MAX = 4
#: Most bytes of a document; a stored one that unpacks to more is damaged.
DOCUMENT_BYTES_MAX = 256 * 1024
SYSMETA = "X-Container-Sysmeta-"
_NAME = "S3Api-Setting-"


def headers_of(name: str, document: bytes) -> dict[str, str]:
    """The headers that store a document; they remove it if it is empty.

    :raises S3Error: InvalidRequest, if the document is too large.
    """
    text = base64.b64encode(zlib.compress(document)).decode() if document else ""
    pieces = [text[at : at + PIECE_BYTES] for at in range(0, len(text), PIECE_BYTES)]
    if len(pieces) > PIECES_MAX or len(document) > DOCUMENT_BYTES_MAX:
        raise S3Error("InvalidRequest", "The configuration is too large.")
    if pieces:
        pieces[0] = f"{len(pieces)}:{pieces[0]}"
    pieces += [""] * (PIECES_MAX - len(pieces))
    return {SYSMETA + _NAME + _piece(name, at): piece for at, piece in enumerate(pieces)}


def document_of(sysmeta: Mapping[str, str], name: str) -> bytes | None:
    """The document in system metadata, whose names are in lower case and without their prefix.

    :raises S3Error: InternalError, if pieces are missing or damaged.
    """
    first = sysmeta.get((_NAME + _piece(name, 0)).lower())
    if not first:
        return None
    count, _, text = first.partition(":")
    try:
        for at in range(1, int(count)):
            text += sysmeta[(_NAME + _piece(name, at)).lower()]
        unpacker = zlib.decompressobj()
        packed = base64.b64decode(text, validate=True)
        document = unpacker.decompress(packed, DOCUMENT_BYTES_MAX + 1)
        if not unpacker.eof or len(document) > DOCUMENT_BYTES_MAX:
            raise ValueError("the document is cut off or too large")
    except (KeyError, ValueError, binascii.Error, zlib.error):
        text = f"The setting {name} of the bucket is damaged. Write it again."
        raise S3Error("InternalError", text) from None
    return document


def _piece(name: str, at: int) -> str:
    return f"{name}-{at}" if at else name

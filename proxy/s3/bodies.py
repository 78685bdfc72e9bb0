# SPDX-License-Identifier: Apache-2.0
"""The body of a request: of an upload as a checked stream, of a document as bytes."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any

from martlet.http.request import Request
from martlet.http.response import HTTPException
from proxy.s3.call import Call
from proxy.s3.wire.checksums import PREFIX, stated_checksum, trailing_algorithm
from proxy.s3.wire.chunked import ChunkedSource, ChunkSigner
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.payload import CheckedBody, Framing, RefusedBody, framing_of

_NO_SUM = "Missing required header for this request: Content-MD5 OR x-amz-checksum-*"


def content_md5(call: Call) -> str | None:
    """Content-MD5 in hexadecimal digits; None without the header.

    :raises S3Error: it is malformed.
    """
    text = call.headers.get("content-md5")
    if text is None:
        return None
    try:
        raw = base64.b64decode(text.strip().encode("latin-1"), validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != 16:
        raise S3Error("InvalidDigest", fields={"Content-MD5": text})
    return raw.hex()


def require_sum(call: Call) -> None:
    """:raises S3Error: nothing but the signature could tell that the body is whole."""
    has_sum = "content-md5" in call.headers or stated_checksum(call.headers)
    if not has_sum and not trailing_algorithm(call.headers):
        raise S3Error("InvalidRequest", _NO_SUM)


def framing(call: Call, *, ignores_checksum: bool = False) -> Framing:
    """The form of the body.

    :param ignores_checksum: a checksum among the headers is not that of the body.
    :raises S3Error: its headers are wrong.
    """
    request = Request(call.environ)
    try:
        length = None if request.is_chunked else request.content_length
    except HTTPException:
        raise S3Error("InvalidArgument", "Content-Length must be a number.") from None
    claim = call.claim
    can_be_chunked = claim.is_anonymous or (claim.chunks is not None and not claim.is_presigned)
    headers = call.headers
    if ignores_checksum:
        headers = {n: v for n, v in headers.items() if not n.startswith(PREFIX)}
    return framing_of(headers, claim.content_sha256, length, can_be_chunked)


def open_body(call: Call, form: Framing) -> CheckedBody:
    """The body as a stream that checks what it reads."""
    source: Any = call.environ["wsgi.input"]
    if not form.is_chunked:
        return CheckedBody(source, form)
    signer = None
    if form.is_signed and call.claim.chunks is not None:
        signer = ChunkSigner(call.claim.chunks, call.proof.signing_key)
    decoded = ChunkedSource(source, signer, form.has_trailer, form.length)
    return CheckedBody(decoded, form, decoded.trailers)


def read_document(call: Call, most: int, *, ignores_checksum: bool = False) -> bytes:
    """The whole body, which is small.

    :param ignores_checksum: a checksum among the headers is not that of the body.
    :raises S3Error: it is too large, or not the one that was signed, or the client is gone.
    """
    form = framing(call, ignores_checksum=ignores_checksum)
    if form.length is not None and form.length > most:
        raise S3Error("MaxMessageLengthExceeded", fields={"MaxMessageLengthBytes": str(most)})
    md5 = content_md5(call)
    body = open_body(call, form)
    text = bytearray()
    try:
        while piece := body.read(min(65536, most + 1 - len(text))):
            text += piece
        if not text:
            body.read(1)  # what was signed may be another body than an empty one
    except RefusedBody as refused:
        raise refused.error from None
    except (OSError, ValueError):
        raise S3Error("IncompleteBody") from None
    if len(text) > most:
        raise S3Error("MaxMessageLengthExceeded", fields={"MaxMessageLengthBytes": str(most)})
    if md5 is not None and hashlib.md5(text, usedforsecurity=False).hexdigest() != md5:
        fields = {"ExpectedDigest": call.headers["content-md5"]}
        raise S3Error("BadDigest", fields=fields)
    return bytes(text)

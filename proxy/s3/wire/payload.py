# SPDX-License-Identifier: Apache-2.0
"""The body of an upload, checked while it is read.

The last bytes are handed out after every check holds. So a write that counts after its last byte
never stores another body than the client signed or summed.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from martlet.http.response import HTTPException, Response
from proxy.s3.wire.checksums import (
    ALGORITHMS,
    PREFIX,
    is_checksum,
    stated_checksum,
    trailing_algorithm,
    wanted_algorithm,
)
from proxy.s3.wire.chunked import other_length
from proxy.s3.wire.errors import S3Error, invalid_argument
from proxy.s3.wire.signature_v4 import UNSIGNED, is_sha256

STREAMING_SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
STREAMING_SIGNED_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
STREAMING_UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
_NO_CHECKSUM = (
    "x-amz-sdk-checksum-algorithm specified, but no corresponding x-amz-checksum-* or "
    "x-amz-trailer headers were found."
)
_STREAMING_ECDSA = "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"
_WORDS = (
    UNSIGNED,
    STREAMING_UNSIGNED_TRAILER,
    STREAMING_SIGNED,
    STREAMING_SIGNED_TRAILER,
    _STREAMING_ECDSA,
    f"{_STREAMING_ECDSA}-TRAILER",
)
_STREAMING = (STREAMING_SIGNED, STREAMING_SIGNED_TRAILER, STREAMING_UNSIGNED_TRAILER)


class Framing(NamedTuple):
    """The form of a body, from its headers.

    :param sha256: the hash that the client states; empty if it states none.
    :param length: of the decoded body; None if it is unknown.
    :param algorithm: the checksum that is computed, if any.
    :param checksum: its value in base64, if a header states it. Without one, and without a trailer,
        the checksum is only computed.
    """

    sha256: str
    length: int | None
    is_chunked: bool
    is_signed: bool
    has_trailer: bool
    algorithm: str | None
    checksum: str | None


def framing_of(
    headers: Mapping[str, str], content_sha256: str, length: int | None, can_be_chunked: bool
) -> Framing:
    """Read the headers about a body.

    :param length: Content-Length; None if the transfer is chunked.
    :param can_be_chunked: whether the signature is of version 4 in a header, or there is none. With
        another one, the body is not decoded, and what stands for its hash is compared as it is.
    :raises S3Error: they are malformed, contradict one another, or are not supported.
    """
    trailing = trailing_algorithm(headers)
    stated = stated_checksum(headers)
    if stated and trailing:
        text = "Expecting a single x-amz-checksum- header"
        raise S3Error("InvalidRequest", text)
    algorithm = trailing or (stated[0] if stated else None)
    wanted = wanted_algorithm(headers)
    if wanted and algorithm and wanted != algorithm:
        text = "Value for x-amz-sdk-checksum-algorithm header is invalid."
        raise S3Error("InvalidRequest", text)
    if "x-amz-sdk-checksum-algorithm" in headers and not algorithm:
        raise S3Error("InvalidRequest", _NO_CHECKSUM)
    checksum = stated[1] if stated else None
    mode = content_sha256
    is_streaming = mode.startswith("STREAMING-")
    if trailing and not is_streaming:
        raise S3Error("MalformedTrailerError")
    if not can_be_chunked:
        if is_streaming and (decoded := _decoded_length(headers)) != length:
            raise other_length(length or 0, decoded)
        sha256 = "" if mode == UNSIGNED else mode
        return Framing(sha256, length, False, False, False, algorithm, checksum)
    if is_streaming:
        check_content_sha256(mode)
        if mode not in _STREAMING:
            raise S3Error("NotImplemented", f"{mode} is not supported.")
        has_trailer = trailing is not None
        decoded = _decoded_length(headers)
        is_signed = mode != STREAMING_UNSIGNED_TRAILER
        return Framing("", decoded, True, is_signed, has_trailer, algorithm, checksum)
    check_content_sha256(mode)
    sha256 = mode if is_sha256(mode) else ""
    return Framing(sha256, length, False, False, False, algorithm, checksum)


def check_content_sha256(value: str) -> None:
    """:raises S3Error: it is neither empty, a SHA-256, nor one of the words in its place."""
    if value and value not in _WORDS and not is_sha256(value):
        text = f"x-amz-content-sha256 must be {', '.join(_WORDS)} or a valid sha256 value."
        raise invalid_argument("x-amz-content-sha256", value, text)


def _decoded_length(headers: Mapping[str, str]) -> int:
    text = headers.get("x-amz-decoded-content-length")
    if text is None or not (text.isascii() and text.isdigit() and len(text) < 20):
        raise S3Error("MissingContentLength")
    return int(text)


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes:
        """Up to ``size`` bytes."""


class RefusedBody(HTTPException):
    """Raised out of a read, through the filters, to the application, which stops the write."""

    def __init__(self, error: S3Error) -> None:
        super().__init__(Response(error.status))
        self.error = error


class CheckedBody:
    """``wsgi.input`` of the write. ``failure`` is the error that a read raised, if one did.

    :param source: the decoded body.
    :param trailers: filled by the source when it ends.
    """

    def __init__(
        self, source: _Readable, framing: Framing, trailers: Mapping[str, str] | None = None
    ) -> None:
        self.failure: S3Error | None = None
        #: The bytes that were read.
        self.size = 0
        self.checksum = framing.checksum
        self._source = source
        self._framing = framing
        self._trailers = {} if trailers is None else trailers
        self._left = framing.length
        self._sha256 = hashlib.sha256() if framing.sha256 else None
        self._sum = ALGORITHMS[framing.algorithm]() if framing.algorithm else None
        self._is_finished = False

    def read(self, size: int | None = -1) -> bytes:
        """Up to ``size`` bytes, or all; none at the end.

        :raises RefusedBody: the body is not the one that was announced.
        :raises OSError: the client is gone.
        """
        if self.failure is not None:
            raise RefusedBody(self.failure)
        try:
            if size is None or size < 0:
                return b"".join(iter(lambda: self._read(1 << 16), b""))
            return self._read(size)
        except S3Error as error:
            self.failure = error
            raise RefusedBody(error) from None

    def readline(self, size: int | None = -1) -> bytes:
        """As ``read``: nothing reads lines of an object."""
        return self.read(size)

    def _read(self, size: int) -> bytes:
        if self._is_finished or size == 0:
            return b""
        wanted = size if self._left is None else min(size, self._left)
        data = self._source.read(wanted) if wanted else b""
        self.size += len(data)
        if self._left is not None:
            self._left -= len(data)
            if not data and self._left:
                raise S3Error("IncompleteBody")
        if self._sha256 is not None:
            self._sha256.update(data)
        if self._sum is not None:
            self._sum.update(data)
        if self._left == 0 or not data:
            self._finish()
        return data

    def _finish(self) -> None:
        self._is_finished = True
        if self._framing.is_chunked:
            self._source.read(1)  # the end, and what follows it
        if self._sha256 is not None and self._sha256.hexdigest() != self._framing.sha256.lower():
            fields = {
                "ClientComputedContentSHA256": self._framing.sha256,
                "S3ComputedContentSHA256": self._sha256.hexdigest(),
            }
            raise S3Error("XAmzContentSHA256Mismatch", fields=fields)
        if self._sum is not None:
            self._check_sum(base64.b64encode(self._sum.digest()).decode("ascii"))

    def _check_sum(self, own: str) -> None:
        algorithm = self._framing.algorithm or ""
        stated = self._framing.checksum
        if self._framing.has_trailer:
            name = f"{PREFIX}{algorithm}"
            if set(self._trailers) != {name}:
                raise S3Error("MalformedTrailerError")
            stated = self._trailers[name]
            if not is_checksum(algorithm, stated):
                raise S3Error("InvalidRequest", f"Value for {name} trailing header is invalid.")
        if stated is not None and stated != own:
            text = f"The {algorithm.upper()} you specified did not match the calculated checksum."
            raise S3Error("BadDigest", text)
        self.checksum = own

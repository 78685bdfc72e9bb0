# SPDX-License-Identifier: Apache-2.0
"""The content encoding ``aws-chunked``: a body in chunks, signed or not, with trailing headers.

    10000;chunk-signature=<64 digits> CRLF <data> CRLF ... 0;chunk-signature=... CRLF
    x-amz-checksum-crc32:<base64> CRLF x-amz-trailer-signature:<64 digits> CRLF CRLF

Each signature covers its chunk and the signature before it. So no chunk can be changed, left out,
repeated or moved.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from typing import NamedTuple, Protocol

from proxy.s3.wire.credentials import Chunks
from proxy.s3.wire.errors import S3Error

_HEADER_BYTES_MAX = 1024
_TRAILER_BYTES_MAX = 4096
_CHUNK_BYTES_MIN = 8192
_PLAIN = re.compile(rb"([0-9A-Fa-f]{1,15})\r\n")
_SIGNED = re.compile(rb"([0-9A-Fa-f]{1,15}) *; *chunk-signature *= *([^;\r\n]{1,128})\r\n")
#: Something else in the place of the signature, which then is no signature that matches.
_OTHER = re.compile(rb"([0-9A-Fa-f]{1,15}) *; *((?!chunk-signature *=)[^=\r\n]+=[^\r\n]*)\r\n")
_OTHER_LENGTH = (
    "You did not provide the number of bytes specified by the Content-Length HTTP header"
)
_EMPTY_HASH = hashlib.sha256().hexdigest()
_TRAILER_SIGNATURE = "x-amz-trailer-signature"


def other_length(provided: int, expected: int | None) -> S3Error:
    """The error about a body of another length than announced."""
    if expected is None:
        return S3Error("IncompleteBody", _OTHER_LENGTH)
    fields = {"NumberBytesExpected": str(expected), "NumberBytesProvided": str(provided)}
    return S3Error("IncompleteBody", _OTHER_LENGTH, fields=fields)


class Source(Protocol):
    """The encoded body."""

    def read(self, size: int, /) -> bytes:
        """Up to ``size`` bytes."""

    def readline(self, size: int, /) -> bytes:
        """A line with its end, or ``size`` bytes of it."""


class ChunkSigner:
    """The chain of signatures.

    :param key: returns the signing key, once the auth filter has accepted the request.
    """

    def __init__(self, chunks: Chunks, key: Callable[[], bytes]) -> None:
        self._chunks = chunks
        self._previous = chunks.seed
        self._key = key

    def accept(self, digest: str, signature: str) -> None:
        """Check the next chunk, whose data has the SHA-256 ``digest``.

        :raises S3Error: the signature is another one.
        """
        self._check("AWS4-HMAC-SHA256-PAYLOAD", f"{_EMPTY_HASH}\n{digest}", signature)

    def accept_trailer(self, trailer: bytes, signature: str) -> None:
        """Check the trailing headers.

        :raises S3Error: the signature is another one.
        """
        self._check("AWS4-HMAC-SHA256-TRAILER", hashlib.sha256(trailer).hexdigest(), signature)

    def _check(self, algorithm: str, rest: str, signature: str) -> None:
        timestamp, scope, _ = self._chunks
        text = f"{algorithm}\n{timestamp}\n{scope}\n{self._previous}\n{rest}"
        own = hmac.digest(self._key(), text.encode("latin-1"), "sha256").hex()
        if not hmac.compare_digest(own.encode("ascii"), signature.encode("latin-1")):
            fields = {"StringToSign": text, "SignatureProvided": signature}
            raise S3Error("SignatureDoesNotMatch", fields=fields)
        self._previous = signature


class _Header(NamedTuple):
    size: int
    signature: str


class ChunkedSource:
    """The decoded body. Trailing headers are in ``trailers`` once it has been read to its end.

    :param signer: checks each chunk; None if they are not signed.
    :param has_trailer: whether trailing headers must follow.
    :param length: of the decoded body; None if it is unknown.
    """

    def __init__(
        self,
        source: Source,
        signer: ChunkSigner | None,
        has_trailer: bool,
        length: int | None = None,
    ) -> None:
        self.trailers: dict[str, str] = {}
        self._source = source
        self._signer = signer
        self._has_trailer = has_trailer
        self._length = length
        self._announced = 0
        self._left = 0
        self._number = 0
        self._is_finished = False
        self._header = _Header(0, "")
        self._digest = hashlib.sha256()

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes; none at the end.

        :raises S3Error: the body is malformed, or a signature does not match.
        """
        if self._is_finished or size <= 0:
            return b""
        if self._left == 0:
            self._next_chunk()
            if self._is_finished:
                return b""
        data = self._source.read(min(size, self._left))
        if not data:
            raise S3Error("IncompleteBody")
        self._left -= len(data)
        if self._signer is not None:
            self._digest.update(data)
        if self._left == 0:
            self._end_chunk()
        return data

    def _next_chunk(self) -> None:
        header = self._read_header()
        self._number += 1
        self._announced += header.size
        if self._length is not None and self._announced > self._length:
            raise other_length(self._announced, self._length)
        if header.size == 0:
            if self._signer is not None:
                self._signer.accept(_EMPTY_HASH, header.signature)
            self._finish()
            return
        if 0 < self._header.size < _CHUNK_BYTES_MIN:
            fields = {"Chunk": str(self._number), "BadChunkSize": str(self._header.size)}
            raise S3Error("InvalidChunkSizeError", fields=fields)
        self._header, self._left = header, header.size
        self._digest = hashlib.sha256()

    def _read_header(self) -> _Header:
        line = self._source.readline(_HEADER_BYTES_MAX)
        if self._signer is None:
            match = _PLAIN.fullmatch(line)
        else:
            match = _SIGNED.fullmatch(line) or _OTHER.fullmatch(line)
        if match is None:
            raise S3Error("IncompleteBody")
        signature = "" if self._signer is None else match[2].strip().decode("latin-1")
        return _Header(int(match[1], 16), signature)

    def _end_chunk(self) -> None:
        if self._source.read(2) != b"\r\n":
            raise S3Error("IncompleteBody")
        if self._signer is not None:
            self._signer.accept(self._digest.hexdigest(), self._header.signature)

    def _finish(self) -> None:
        self._is_finished = True
        if self._length is not None and self._announced < self._length:
            if self._signer is not None:
                raise S3Error("IncompleteBody")
            raise other_length(self._announced, self._length)
        lines, left = self._read_trailers()
        if lines and not self._has_trailer:
            raise S3Error("MalformedTrailerError" if self._signer is None else "IncompleteBody")
        if self._has_trailer:
            self._take_trailers(lines)
            self._skip_rest(left)
        elif self._source.read(1):
            raise other_length(self._announced + 1, self._length)

    def _read_trailers(self) -> tuple[list[bytes], int]:
        """The lines of trailing headers, and how many bytes more may follow.

        minio-go ends lines as in the text that is signed, with a newline alone. Then an empty line
        comes, and the signature, or the empty line of the end.
        """
        lines: list[bytes] = []
        left = _TRAILER_BYTES_MAX
        is_bare = False
        while line := self._source.readline(left):
            left -= len(line)
            if left <= 0:
                raise S3Error("MalformedTrailerError")
            if line == b"\r\n":
                if not is_bare:
                    return lines, left
                is_bare = False
                continue
            is_bare = not line.endswith(b"\r\n")
            if not line.endswith(b"\n"):
                raise S3Error("IncompleteBody")
            lines.append(line)
        if any(not line.endswith(b"\r\n") for line in lines):
            raise S3Error("IncompleteBody")  # in that form, the last empty line is needed
        return lines, left

    def _skip_rest(self, most: int) -> None:
        """Ignore what follows the empty line behind trailing headers, as Amazon does."""
        while data := self._source.read(most):
            most -= len(data)
            if most <= 0:
                raise S3Error("MalformedTrailerError")

    def _take_trailers(self, lines: list[bytes]) -> None:
        signed = b""
        for line in lines:
            name, colon, value = line.rstrip(b"\r\n").partition(b":")
            key = name.decode("latin-1").strip().lower()
            if not colon:
                raise S3Error("MalformedTrailerError")
            self.trailers[key] = value.decode("latin-1").strip()  # the last of a name counts
            if key != _TRAILER_SIGNATURE:
                signed += f"{key}:{self.trailers[key]}\n".encode("latin-1")
        signature = self.trailers.pop(_TRAILER_SIGNATURE, "")
        if self._signer is not None:
            if not signature:
                raise S3Error("IncompleteBody")
            self._signer.accept_trailer(signed, signature)

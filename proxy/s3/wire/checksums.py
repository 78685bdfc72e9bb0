# SPDX-License-Identifier: Apache-2.0
"""The checksums of bodies that clients may send beside or in place of Content-MD5."""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Callable, Mapping
from typing import Protocol

import google_crc32c
from awscrt import checksums as crt

from proxy.s3.wire.errors import S3Error

#: The header ``x-amz-checksum-<algorithm>``.
PREFIX = "x-amz-checksum-"
#: Headers with this prefix that are not checksums.
_OTHERS = frozenset({"x-amz-checksum-mode", "x-amz-checksum-algorithm", "x-amz-checksum-type"})


_UNKNOWN = "The algorithm type you specified in x-amz-checksum- header is invalid."
_SEVERAL = "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed."


class Digest(Protocol):
    """A sum over bytes."""

    def update(self, data: bytes, /) -> None:
        """Add bytes."""

    def digest(self) -> bytes:
        """The sum of all bytes."""


class _Crc:
    """A cyclic redundancy check as a digest, with the most significant byte first."""

    def __init__(self, extend: Callable[[bytes, int], int], size: int) -> None:
        self._extend = extend
        self._size = size
        self._value = 0

    def update(self, data: bytes, /) -> None:
        """Add bytes."""
        self._value = self._extend(data, self._value)

    def digest(self) -> bytes:
        """The sum of all bytes."""
        return self._value.to_bytes(self._size, "big")


class _XxHash:
    """A hash of awscrt as a digest, with the most significant byte first (canonical form)."""

    def __init__(self, hashed: crt.XXHash) -> None:
        self._hashed = hashed

    def update(self, data: bytes, /) -> None:
        """Add bytes."""
        self._hashed.update(data)

    def digest(self) -> bytes:
        """The sum of all bytes."""
        return bytes(self._hashed.finalize())


def _extend_crc32c(data: bytes, value: int) -> int:
    return int(google_crc32c.extend(value, data))


def _extend_crc64(data: bytes, value: int) -> int:
    return int(crt.crc64nvme(data, value))


#: Algorithm in lower case -> a new digest.
ALGORITHMS: dict[str, Callable[[], Digest]] = {
    "crc32": lambda: _Crc(zlib.crc32, 4),
    "crc32c": lambda: _Crc(_extend_crc32c, 4),
    "crc64nvme": lambda: _Crc(_extend_crc64, 8),
    "sha1": lambda: hashlib.sha1(usedforsecurity=False),
    "sha256": hashlib.sha256,
    "sha512": hashlib.sha512,
    "md5": lambda: hashlib.md5(usedforsecurity=False),
    "xxhash64": lambda: _XxHash(crt.XXHash.new_xxhash64()),
    "xxhash3": lambda: _XxHash(crt.XXHash.new_xxhash3_64()),
    "xxhash128": lambda: _XxHash(crt.XXHash.new_xxhash3_128()),
}

#: The algorithm of a body for which the client states no checksum, as at Amazon.
DEFAULT_ALGORITHM = "crc64nvme"


def stated_checksum(headers: Mapping[str, str]) -> tuple[str, str] | None:
    """The algorithm and the base64 of the one checksum among headers; None without one.

    :raises S3Error: there are several, or it is malformed, or of an unknown algorithm.
    """
    names = [n for n in headers if n.startswith(PREFIX) and n not in _OTHERS]
    if not names:
        return None
    if len(names) > 1:
        raise S3Error("InvalidRequest", _SEVERAL)
    algorithm = names[0].removeprefix(PREFIX)
    if algorithm not in ALGORITHMS:
        raise S3Error("InvalidRequest", _UNKNOWN)
    value = headers[names[0]].strip()
    if not is_checksum(algorithm, value):
        raise S3Error("InvalidRequest", f"Value for {names[0]} header is invalid.")
    return algorithm, value


def is_checksum(algorithm: str, value: str) -> bool:
    """Whether it is the base64 of as many bytes as the algorithm gives."""
    try:
        raw = base64.b64decode(value.encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        return False
    is_canonical = base64.b64encode(raw).decode("ascii") == value
    return is_canonical and len(raw) == len(ALGORITHMS[algorithm]().digest())


def trailing_algorithm(headers: Mapping[str, str]) -> str | None:
    """The algorithm of the checksum that x-amz-trailer announces; None without the header.

    :raises S3Error: it announces another trailer.
    """
    trailer = headers.get("x-amz-trailer")
    if trailer is None:
        return None
    names = [name.strip() for name in trailer.strip().rstrip(",").lower().split(",")]
    algorithms = [name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX)]
    if len(algorithms) != len(names) or not set(algorithms) <= set(ALGORITHMS):
        text = "The value specified in the x-amz-trailer header is not supported"
        raise S3Error("InvalidRequest", text)
    if len(algorithms) > 1:
        raise S3Error("InvalidRequest", _SEVERAL)
    return algorithms[0]


def wanted_algorithm(headers: Mapping[str, str]) -> str | None:
    """The algorithm that a header names without a checksum; None without such a header.

    :raises S3Error: it is unknown.
    """
    for name in ("x-amz-sdk-checksum-algorithm", "x-amz-checksum-algorithm"):
        value = headers.get(name)
        if value is not None:
            if value.lower() not in ALGORITHMS:
                raise S3Error(
                    "InvalidRequest", f"Checksum algorithm provided is unsupported: {value}"
                )
            return value.lower()
    return None

# SPDX-License-Identifier: Apache-2.0
"""Checksums of objects that were uploaded in parts, computed from those of the parts.

A *composite* one is the checksum of the parts' checksums, with ``-`` and the number of parts. A
*full* one is that of the whole body. Checksums of the CRC family can be combined to it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from awscrt import checksums as crt

from proxy.s3.wire.checksums import ALGORITHMS, DEFAULT_ALGORITHM, PREFIX, is_checksum
from proxy.s3.wire.errors import S3Error

COMPOSITE, FULL = "COMPOSITE", "FULL_OBJECT"
_COMBINE: Mapping[str, Callable[[int, int, int], int]] = {
    "crc32": crt.combine_crc32,
    "crc32c": crt.combine_crc32c,
    "crc64nvme": crt.combine_crc64nvme,
}


class Kind(NamedTuple):
    """The checksum that an upload was begun with."""

    algorithm: str
    type: str

    def __str__(self) -> str:
        return f"{self.algorithm} {self.type}"

    @classmethod
    def parse(cls, text: str | None) -> Kind | None:
        """The inverse of ``str``; None for another text."""
        algorithm, _, of_type = (text or "").partition(" ")
        known = algorithm in ALGORITHMS and of_type in (COMPOSITE, FULL)
        return cls(algorithm, of_type) if known else None


#: That of an upload which was begun without one. It has it if all of its parts do.
DEFAULT_KIND = Kind(DEFAULT_ALGORITHM, FULL)


class PartSum(NamedTuple):
    """The checksum of a part, in base64, and its size."""

    checksum: str
    size: int


def kind_of_upload(headers: Mapping[str, str]) -> Kind | None:
    """The checksum that the headers of CreateMultipartUpload ask for.

    :raises S3Error: the algorithm is unknown, or has no checksum of this type.
    """
    stated, of_type = headers.get("x-amz-checksum-algorithm"), headers.get("x-amz-checksum-type")
    if stated is None:
        if of_type is not None:
            text = "The x-amz-checksum-type header can only be used with the "
            raise S3Error("InvalidRequest", f"{text}x-amz-checksum-algorithm header.")
        return None
    algorithm = stated.lower()
    if algorithm not in ALGORITHMS:
        raise S3Error("InvalidRequest", "Checksum algorithm provided is unsupported.")
    if of_type is None:
        of_type = FULL if algorithm == "crc64nvme" else COMPOSITE
    is_possible = algorithm in _COMBINE if of_type == FULL else algorithm != "crc64nvme"
    if of_type not in (COMPOSITE, FULL) or not is_possible:
        text = f"The {of_type} checksum type cannot be used with the {algorithm} algorithm."
        raise S3Error("InvalidRequest", text)
    return Kind(algorithm, of_type)


def whole_checksum(kind: Kind, parts: Sequence[PartSum]) -> str:
    """The checksum of the object of these parts, which have one each."""
    raw = [base64.b64decode(part.checksum) for part in parts]
    if kind.type == COMPOSITE:
        digest = ALGORITHMS[kind.algorithm]()
        digest.update(b"".join(raw))
        return f"{base64.b64encode(digest.digest()).decode('ascii')}-{len(parts)}"
    combine, value = _COMBINE[kind.algorithm], int.from_bytes(raw[0], "big")
    for part, more in zip(parts[1:], raw[1:], strict=True):
        value = combine(value, int.from_bytes(more, "big"), part.size)
    return base64.b64encode(value.to_bytes(len(raw[0]), "big")).decode("ascii")


def stated_whole(headers: Mapping[str, str]) -> tuple[str, str] | None:
    """The algorithm and the checksum that CompleteMultipartUpload states; None without one.

    :raises S3Error: it is malformed, or there are several.
    """
    found = [(a, headers[PREFIX + a].strip()) for a in ALGORITHMS if PREFIX + a in headers]
    if len(found) > 1:
        raise S3Error("InvalidRequest", "Expecting a single x-amz-checksum- header.")
    for algorithm, value in found:
        if not is_checksum(algorithm, value.partition("-")[0]):
            text = f"Value for {PREFIX}{algorithm} header is invalid."
            raise S3Error("InvalidRequest", text)
        return algorithm, value
    return None


def type_of(checksum: str) -> str:
    """The type of a checksum, by its form."""
    return COMPOSITE if "-" in checksum else FULL

# SPDX-License-Identifier: Apache-2.0
"""The checksums of the body of an object.

The proxy takes the MD5 once, for all replicas. An object server takes a CRC32C instead, which costs
a tenth. Both sums are headers of a body that is sent in one message. They follow a body in pieces
as footers (doc/formats/wire-object.md). If its own CRC32C is another one, the server stores
nothing.
"""

from __future__ import annotations

import hashlib

import google_crc32c

#: The header that announces or has the sum, and the footer with the CRC32C.
CHECKSUM = "X-Backend-Body-Checksum"
CRC32C = "crc32c"
#: The warning of a proxy whose checksums are slow.
SLOW = (
    "google_crc32c runs without its C extension, which makes uploads slow: install a release of "
    "google-crc32c that has a wheel for this Python and this processor, or build it with libcrc32c"
)


def is_slow() -> bool:
    """Whether the CRC32C is taken in Python, byte by byte."""
    return bool(google_crc32c.implementation == "python")


class BodySums:
    """MD5 and CRC32C of the pieces so far."""

    def __init__(self) -> None:
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._crc = 0

    def add(self, piece: bytes) -> None:
        """Take the next piece."""
        self._md5.update(piece)
        self._crc = google_crc32c.extend(self._crc, piece)

    @property
    def etag(self) -> str:
        """The MD5 in hexadecimal digits."""
        return self._md5.hexdigest()

    def footers(self) -> dict[str, str]:
        """The sums as an object server expects them."""
        return {"Etag": self.etag, CHECKSUM: f"{self._crc:08x}"}

    def headers(self) -> dict[str, str]:
        """The sums as headers of the whole body."""
        return {"Etag": self.etag, CHECKSUM: f"{CRC32C}={self._crc:08x}"}

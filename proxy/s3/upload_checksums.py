# SPDX-License-Identifier: Apache-2.0
"""The checksum of a multipart upload while it is completed.

The filter slo looks at each part before it stores the manifest. There the parts' checksums are
read, compared with those that the client states, and put together.
"""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element

from martlet.http.environ import Environ
from martlet.http.headers import environ_key
from proxy.s3.call import Call
from proxy.s3.object_headers import CHECKSUM
from proxy.s3.uploads import Upload
from proxy.s3.wire.checksums import ALGORITHMS
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.part_checksums import (
    DEFAULT_KIND,
    PartSum,
    stated_whole,
    whole_checksum,
)
from proxy.s3.wire.xml_in import child_text

_REFUSED = "Checksum"


class WholeChecksum:
    """The checksum of the object. ``stored`` is it once the parts are known, empty without one.

    ``failure`` is the error to answer if ``take`` refused the parts, ``size`` their bytes together.
    """

    def __init__(self, call: Call, upload: Upload) -> None:
        """:raises S3Error: the request states a malformed checksum."""
        self.stored = ""
        self.failure: S3Error | None = None
        self.size = 0
        self._kind = upload.checksum_kind
        self._upload = upload
        self._stated = stated_whole(call.headers)
        self._of_parts: dict[int, tuple[str, str]] = {}
        of_type = call.headers.get("x-amz-checksum-type")
        if of_type is not None and self._kind is not None and of_type != self._kind.type:
            text = f"The upload was created with the checksum type {self._kind.type}."
            raise S3Error("InvalidRequest", text)

    def expect(self, number: int, element: Element) -> None:
        """Note the checksum that the client states for a part."""
        for algorithm in ALGORITHMS:
            value = child_text(element, f"Checksum{algorithm.upper()}")
            if value:
                self._of_parts[number] = (algorithm, value)

    def take(self, environ: Environ, entries: list[dict[str, Any]]) -> list[tuple[str, str]]:
        """Put the checksum into the request that stores the manifest; returns the refused parts.

        :param entries: of the manifest, with the headers of the parts.
        """
        self.size = sum(int(entry["bytes"]) for entry in entries)
        kind = self._kind or DEFAULT_KIND
        sums: list[PartSum] = []
        for entry in entries:
            algorithm, _, value = str(entry["headers"].get(CHECKSUM, "")).partition("=")
            number = int(str(entry["name"]).rpartition("/")[2])
            wanted = self._of_parts.get(number)
            if wanted is not None and wanted != (algorithm, value):
                fields = {"UploadId": self._upload.upload_id, "PartNumber": str(number)}
                return self._refuse(entry, S3Error("InvalidPart", fields=fields))
            if algorithm == kind.algorithm:
                sums.append(PartSum(value, int(entry["bytes"])))
        if len(sums) == len(entries):
            self.stored = f"{kind.algorithm}={whole_checksum(kind, sums)}"
        if self._stated is not None and self._contradicts(*self._stated):
            return self._refuse(entries[-1], S3Error("BadDigest", _mismatch(self._stated[0])))
        if self.stored:
            environ[environ_key(CHECKSUM)] = self.stored
        return []

    def _contradicts(self, algorithm: str, value: str) -> bool:
        """Whether the object has another checksum than the client states.

        What is stated may lack the count of a composite one. As at Amazon, it does not matter if
        the upload was begun without a checksum and the object has none of this algorithm.
        """
        own_algorithm, _, own = self.stored.partition("=")
        if algorithm != own_algorithm:
            return self._kind is not None
        return value not in (own, own.partition("-")[0])

    def _refuse(self, entry: dict[str, Any], error: S3Error) -> list[tuple[str, str]]:
        self.failure = error
        return [(str(entry["name"]), _REFUSED)]


def _mismatch(algorithm: str) -> str:
    return f"The {algorithm.upper()} you specified did not match the calculated checksum."

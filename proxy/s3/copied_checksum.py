# SPDX-License-Identifier: Apache-2.0
"""The checksum of a copy: that of the source, or one of the algorithm that the client names.

A checksum that is made of the parts' checksums is not one of the copy, which has no parts. A copy
of such an object gets one of the same algorithm over its whole body, as at Amazon.
"""

from __future__ import annotations

import base64
from collections.abc import MutableMapping
from typing import Protocol

from martlet.http.environ import UPDATE_FOOTERS, Environ
from martlet.http.headers import Headers, environ_key
from proxy.s3.object_headers import CHECKSUM
from proxy.s3.wire.checksums import ALGORITHMS, DEFAULT_ALGORITHM
from proxy.s3.wire.part_checksums import COMPOSITE, FULL, type_of


class _Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes:
        """Up to ``size`` bytes."""


class SummedBody:
    """``wsgi.input`` of a write: a body whose checksum is known when it was read."""

    def __init__(self, body: _Readable, algorithm: str) -> None:
        self._body = body
        self._digest = ALGORITHMS[algorithm]()

    def read(self, size: int = -1) -> bytes:
        """Up to ``size`` bytes, or all; none at the end."""
        data = self._body.read(size)
        self._digest.update(data)
        return data

    @property
    def checksum(self) -> str:
        """The base64 of the sum of what was read."""
        return base64.b64encode(self._digest.digest()).decode("ascii")


def algorithm_of_parts(found: Headers) -> str | None:
    """The algorithm of a stored checksum that is made of those of parts; None for another one."""
    algorithm, _, value = str(found.get(CHECKSUM, "")).partition("=")
    return algorithm if value and type_of(value) == COMPOSITE else None


class CopiedChecksum:
    """The checksum of one copy; ``stored`` is its stored form, empty if there is none.

    With ``is_new`` it is computed while the body is written, by ``sum_of``.
    """

    def __init__(self, found: Headers, wanted: str | None, *, is_hidden: bool = False) -> None:
        """``found`` are the stored headers of the source.

        :param wanted: the algorithm of the copy; None: that of the source.
        :param is_hidden: the copy is encrypted, and the source is not. A checksum is not encrypted,
            so one of the default algorithm, for which the client need not have asked, is not kept.
        """
        kept = str(found.get(CHECKSUM, ""))
        algorithm, _, value = kept.partition("=")
        is_told = is_hidden and wanted is None and algorithm == DEFAULT_ALGORITHM
        is_kept = type_of(value) == FULL and wanted in (None, algorithm) and not is_told
        self.stored = kept if is_kept else ""
        self._new = None if is_kept else wanted

    @property
    def is_new(self) -> bool:
        """Whether it is computed while the body is written."""
        return self._new is not None

    def headers(self) -> dict[str, str]:
        """The header of the copy. An empty one keeps that of the source away."""
        return {CHECKSUM: self.stored}

    def sum_of(self, body: _Readable, write: Environ) -> _Readable:
        """The body for a write, which stores the new checksum, if there is to be one."""
        if self._new is None:
            return body
        summed = SummedBody(body, self._new)
        if write["CONTENT_LENGTH"] == "0":  # a write of no bytes does not read its body
            self.stored = f"{self._new}={summed.checksum}"
            write[environ_key(CHECKSUM)] = self.stored
            return summed

        def add(footers: MutableMapping[str, str]) -> None:
            self.stored = f"{self._new}={summed.checksum}"
            footers[CHECKSUM] = self.stored

        write[UPDATE_FOOTERS] = add
        return summed

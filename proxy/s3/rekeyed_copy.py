# SPDX-License-Identifier: Apache-2.0
"""Copies of objects that a client's key encrypts, or will encrypt.

With the same key for both, the ciphertext is copied as it is. Else the body goes through the proxy,
which decrypts and encrypts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from martlet.conf.options import is_true
from martlet.http.headers import Headers
from proxy.middleware.body_reader import BodyReader
from proxy.middleware.subrequest import Answered, close_body, read_body
from proxy.s3.call import Call
from proxy.s3.copied_checksum import CopiedChecksum
from proxy.s3.customer_keys import SEALED, Place, Sealing, check_key, customer_key, opened
from proxy.s3.encryption import encrypts, is_decrypted, shown_encryption
from proxy.s3.object_headers import CHECKSUM, STORED
from proxy.s3.wire.customer_key import COPY_PREFIX, CustomerKey

_SYSMETA = "x-object-sysmeta-"
_OF_COPIES = ("x-copy-from", "x-copy-from-account", "x-fresh-metadata", "range")


class Keys(NamedTuple):
    """The keys of the source and of the copy."""

    source: CustomerKey | None
    copy: CustomerKey | None

    is_of_parts: bool

    @property
    def differ(self) -> bool:
        """Whether the ciphertext of the source is no use for the copy."""
        if self.source and self.is_of_parts:
            return True  # each part has its own salt
        return (self.source and self.source.key) != (self.copy and self.copy.key)

    def headers(self, found: Headers) -> dict[str, str]:
        """The headers of a copy of the ciphertext."""
        return {SEALED: found[SEALED]} if self.source and not self.differ else {}

    def hides(self, found: Headers) -> bool:
        """Whether the copy is encrypted, and the source ``found`` is not."""
        if self.source or is_decrypted(found):
            return False
        return self.copy is not None or encrypts()

    def shown(self) -> dict[str, str]:
        """The headers of the answer."""
        return self.copy.shown() if self.copy else shown_encryption(None)


def keys_of_copy(call: Call, found: Headers) -> Keys:
    """The keys of a copy; ``found`` are the stored headers of the source.

    :raises S3Error: one is missing, wrong or malformed.
    """
    is_of_parts = is_true(found.get("x-static-large-object"))
    return Keys(check_key(call, found, COPY_PREFIX), customer_key(call), is_of_parts)


def rewrite(
    call: Call,
    source: Place,
    target: tuple[str, str],
    headers: Mapping[str, str],
    key: CustomerKey | None,
    checksum: CopiedChecksum,
) -> Answered:
    """Copy an object, or a range of it, through the proxy.

    :param target: the container and the name of the copy.
    :param headers: of a copy by the pipeline.
    :param key: of the copy.
    :raises S3Error: the source cannot be read.
    """
    ranged = {"range": headers["range"]} if "range" in headers else {}
    environ = call.request("GET", source.bucket, source.key, query=source.query, headers=ranged)
    _, found, chunks = call.send_or_refuse(environ, source.bucket, source.key)
    try:
        own = check_key(call, found, COPY_PREFIX)
        body = opened(call, source, own, found, chunks) if own else chunks
        sealing = Sealing(key) if key else None
        sent = {} if "x-fresh-metadata" in headers else _metadata(found)
        sent |= {name: value for name, value in headers.items() if name not in _OF_COPIES}
        sent = {
            name: value
            for name, value in sent.items()
            if value or not name.lower().startswith(_SYSMETA)  # an empty one would count as an ETag
        }
        sent |= sealing.headers if sealing else {}
        write = call.request("PUT", *target, headers=sent)
        write["CONTENT_LENGTH"] = str(found.get("content-length", ""))
        reader = BodyReader(body)
        plain = checksum.sum_of(reader, write)
        write["wsgi.input"] = sealing.body(plain, None, None) if sealing else plain
        status, given, answer = call.send(write)
        if "x-object-version-id" in found:
            given["x-copied-from-version-id"] = found["x-object-version-id"]
        return Answered(status, given, read_body(answer))
    finally:
        close_body(chunks)


def _metadata(found: Headers) -> dict[str, str]:
    """The headers that a copy takes along."""
    taken = (*STORED, "content-type", "x-delete-at", CHECKSUM.lower())
    return {
        name: str(value)
        for name, value in found.items()
        if name.lower() in taken or name.lower().startswith("x-object-meta-")
    }

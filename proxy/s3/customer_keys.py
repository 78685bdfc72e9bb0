# SPDX-License-Identifier: Apache-2.0
"""Objects that the client's own key encrypts (SSE-C).

The body is encrypted in AES-256-CTR before it goes to the filters on the right. It is decrypted
after it came from them. They see the ciphertext alone, and the ETag is its MD5.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from martlet.conf.options import is_true
from martlet.http.headers import Headers
from proxy.middleware.encryption.cipher import Transform, transform
from proxy.middleware.subrequest import ask_app, close_body
from proxy.replicas.gone_uploads import UPLOAD_ID
from proxy.s3.call import Call, Query
from proxy.s3.object_headers import SYSMETA
from proxy.s3.wire.customer_key import (
    PREFIX,
    CustomerKey,
    Derived,
    key_of_headers,
    seal,
    unseal,
)
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.payload import RefusedBody

#: What is stored with an object that a customer's key encrypts.
SEALED = f"{SYSMETA}Customer-Key"
_RANGE_START = re.compile(r"bytes (\d+)-")
_INSECURE = (
    "Requests specifying Server Side Encryption with Customer provided keys must be made over a "
    "secure connection."
)
_NEEDED = (
    "The object was stored using a form of Server Side Encryption. The correct parameters must be "
    "provided to retrieve the object."
)
_PART_NEEDS = (
    "The multipart upload initiate requested encryption. Subsequent part requests must include the "
    "appropriate encryption parameters."
)
_PART_HAS = (
    "The multipart upload initiate did not request encryption. Please resend the request without "
    "sending encryption parameters."
)


class Place(NamedTuple):
    """An object, with the query that selects its version; text."""

    bucket: str
    key: str
    query: Query


def customer_key(call: Call, prefix: str = PREFIX) -> CustomerKey | None:
    """The key of a request; None without one.

    :raises S3Error: it is malformed, or came over a connection without TLS.
    """
    found = key_of_headers(call.headers, prefix)
    if found is None:
        return None
    is_secure = "https" in (
        call.environ.get("wsgi.url_scheme"),
        call.headers.get("x-forwarded-proto", "").lower(),
    )
    if not is_secure and not call.options.allow_customer_keys_over_http:
        raise S3Error("InvalidRequest", _INSECURE)
    if prefix == PREFIX and call.headers.get("x-amz-server-side-encryption"):
        text = "Server Side Encryption with Customer provided key is incompatible with the "
        raise S3Error("InvalidArgument", f"{text}encryption method specified")
    return found


def sealing_of(call: Call) -> Sealing | None:
    """The encryption that a write asks for; None without a key.

    :raises S3Error: as ``customer_key``.
    """
    key = customer_key(call)
    return None if key is None else Sealing(key)


def key_of_part(call: Call, begun: Headers) -> CustomerKey | None:
    """The key of a part: that of its upload, which the headers ``begun`` tell.

    :raises S3Error: it is another one, or one of both has none.
    """
    sealed, key = str(begun.get(SEALED, "")), customer_key(call)
    if bool(sealed) != (key is not None):
        raise S3Error("InvalidRequest", _PART_NEEDS if sealed else _PART_HAS)
    if key is not None and unseal(key.key, sealed) is None:
        text = "The provided encryption parameters did not match the ones used originally."
        raise S3Error("InvalidRequest", text)
    return key


class Sealing:
    """The encryption of one new object."""

    def __init__(self, key: CustomerKey) -> None:
        self._derived = seal(key.key)
        #: The headers that are stored with the object.
        self.headers = {SEALED: self._derived.stored}
        #: The headers of the answer.
        self.shown = key.shown()

    def body(self, plain: Any, length: int | None, md5: str | None) -> SealedBody:
        """The encrypted body; ``md5`` is what the plain one must have, in hexadecimal digits."""
        derived = self._derived
        return SealedBody(plain, transform(derived.key, derived.iv), length, md5)


class SealedBody:
    """``wsgi.input`` of a write: the body of the client, encrypted as it is read."""

    def __init__(self, plain: Any, stream: Transform, length: int | None, md5: str | None) -> None:
        self._plain = plain
        self._stream = stream
        self._left = length
        self._md5 = md5
        self._sum = None if md5 is None else hashlib.md5(usedforsecurity=False)

    def read(self, size: int | None = -1) -> bytes:
        """Up to ``size`` bytes, or all; none at the end. The last ones come after all checks.

        :raises RefusedBody: the body is not the one that was announced.
        """
        data: bytes = self._plain.read(size)
        if self._left is not None:
            self._left -= len(data)
        if self._sum is not None:
            self._sum.update(data)
            if (self._left == 0 or not data) and self._sum.hexdigest() != self._md5:
                self._plain.failure = S3Error("BadDigest")
                raise RefusedBody(self._plain.failure)
        return self._stream.update(data)

    def readline(self, size: int | None = -1) -> bytes:
        """As ``read``: nothing reads lines of an object."""
        return self.read(size)


# --- reads


def check_key(call: Call, stored: Headers, prefix: str = PREFIX) -> CustomerKey | None:
    """The key of an object, which the request must have; None if none encrypts the object.

    :raises S3Error: the request has no key, another one, or one for an object without one.
    """
    sealed, key = stored.get(SEALED), customer_key(call, prefix)
    if not sealed:
        if key is not None:
            text = "The encryption parameters are not applicable to this object."
            raise S3Error("InvalidRequest", text)
        return None
    if key is None:
        text = "The object was stored using a form of Server Side Encryption. The correct "
        raise S3Error(
            "InvalidRequest", f"{text}parameters must be provided to retrieve the object."
        )
    if unseal(key.key, sealed) is None:
        raise S3Error("AccessDenied")
    return key


def opened(
    call: Call, at: Place, key: CustomerKey, stored: Headers, chunks: Iterable[bytes]
) -> Iterable[bytes]:
    """The plain body of an answer, which has the whole object or one range of it.

    :raises S3Error: it cannot be decrypted.
    """
    found = _RANGE_START.match(stored.get("content-range", ""))
    start = int(found[1]) if found else 0
    if is_true(stored.get("x-static-large-object")):
        return _Opened(chunks, decrypted_parts(chunks, _parts(call, at, key, stored, start)))
    derived = _unsealed(key, stored)
    stream = transform(derived.key, derived.iv, start)
    return _Opened(chunks, map(stream.update, chunks))


def _unsealed(key: CustomerKey, stored: Headers) -> Derived:
    derived = unseal(key.key, stored.get(SEALED, ""))
    if derived is None:
        raise S3Error("AccessDenied")
    return derived


def _parts(
    call: Call, at: Place, key: CustomerKey, stored: Headers, start: int
) -> Iterator[tuple[int, Transform]]:
    """The parts from the byte ``start`` on: how much is left of each, and how it is decrypted.

    :raises S3Error: the object was replaced meanwhile.
    """
    query = {**at.query, "multipart-manifest": "get"}
    manifest = call.ask("GET", at.bucket, at.key, query=query)
    if manifest.headers.get(UPLOAD_ID) != stored.get(UPLOAD_ID):
        raise S3Error("ServiceUnavailable")
    entries = json.loads(manifest.body)

    def each() -> Iterator[tuple[int, Transform]]:
        skipped = start
        for entry in entries:
            size = int(entry["bytes"])
            if skipped >= size:
                skipped -= size
                continue
            derived = _unsealed(key, _headers_of_part(call, str(entry["name"])))
            yield size - skipped, transform(derived.key, derived.iv, skipped)
            skipped = 0

    return each()


def _headers_of_part(call: Call, path: str) -> Headers:
    """The headers of a part, asked for without the client: its rights are about the object."""
    container, _, name = path.removeprefix("/").partition("/")
    request = call.request("HEAD", container, name, pre_authorized=True)
    return ask_app(call.app, request).headers


def decrypted_parts(
    chunks: Iterable[bytes], parts: Iterator[tuple[int, Transform]]
) -> Iterator[bytes]:
    """The plain bytes of parts; each comes with the number of its bytes.

    :raises OSError: the body is longer than the parts.
    """
    left, stream = 0, None
    for chunk in chunks:
        rest = chunk
        while rest:
            if stream is None or not left:
                left, stream = next(parts, (0, None))
            if stream is None:
                raise OSError("an object is longer than its parts")
            piece, rest = rest[:left], rest[left:]
            left -= len(piece)
            yield stream.update(piece)


class _Opened:
    """A decrypted body; close() closes the encrypted one."""

    def __init__(self, sealed: Iterable[bytes], plain: Iterator[bytes]) -> None:
        self._sealed = sealed
        self._plain = plain

    def __iter__(self) -> Iterator[bytes]:
        return self._plain

    def close(self) -> None:
        """Discard the unread rest."""
        close_body(self._sealed)

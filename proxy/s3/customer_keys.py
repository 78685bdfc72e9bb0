# SPDX-License-Identifier: Apache-2.0
"""Objects that the client's own key encrypts (SSE-C).

The body is encrypted in AES-256-CTR before it goes to the filters on the right. It is decrypted
after it came from them. They see the ciphertext alone, and the ETag is its MD5.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

from martlet.http.headers import Headers
from proxy.middleware.encryption.cipher import Transform, transform
from proxy.middleware.subrequest import close_body
from proxy.s3.call import Call
from proxy.s3.object_headers import SYSMETA
from proxy.s3.wire.customer_key import (
    PREFIX,
    CustomerKey,
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


def refuse_customer_key(call: Call) -> None:
    """:raises S3Error: NotImplemented, for a request with a key that would have no effect."""
    if customer_key(call) is not None:
        text = "Uploads in parts with a customer's key are not implemented."
        raise S3Error("NotImplemented", text)


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


def opened(key: CustomerKey, stored: Headers, chunks: Iterable[bytes]) -> Iterable[bytes]:
    """The plain body of an answer, which has the whole object or one range of it."""
    derived = unseal(key.key, stored[SEALED])
    if derived is None:
        raise S3Error("AccessDenied")
    found = _RANGE_START.match(stored.get("content-range", ""))
    return _Opened(chunks, transform(derived.key, derived.iv, int(found[1]) if found else 0))


class _Opened:
    """A decrypted body; close() closes the encrypted one."""

    def __init__(self, sealed: Iterable[bytes], stream: Transform) -> None:
        self._sealed = sealed
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        return map(self._stream.update, self._sealed)

    def close(self) -> None:
        """Discard the unread rest."""
        close_body(self._sealed)

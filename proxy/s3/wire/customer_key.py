# SPDX-License-Identifier: Apache-2.0
"""Encryption with a key that the client sends (SSE-C): its headers, and what is derived from it.

The key itself is never stored. From it and a random salt of each object come the key and the IV of
the body. So does a value that tells later whether a key is the same. doc/formats/s3-customer-key.md
has the form.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Mapping
from typing import NamedTuple

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from proxy.s3.wire.errors import S3Error

PREFIX = "x-amz-server-side-encryption-customer-"
COPY_PREFIX = "x-amz-copy-source-server-side-encryption-customer-"
ALGORITHM = "AES256"
_FORM = "1"
_PURPOSE = b"martlet SSE-C 1"
_KEY_BYTES, _IV_BYTES, _CHECK_BYTES, _SALT_BYTES = 32, 16, 32, 16
_REQUESTS = "Requests specifying Server Side Encryption with Customer provided keys must"


class CustomerKey(NamedTuple):
    """The key of a request, and its MD5 in Base64."""

    key: bytes
    md5: str

    def shown(self) -> dict[str, str]:
        """The headers of an answer about an object that this key encrypts."""
        return {f"{PREFIX}algorithm": ALGORITHM, f"{PREFIX}key-MD5": self.md5}


class Derived(NamedTuple):
    """The keys of one object, derived from the client's key and a salt."""

    key: bytes
    iv: bytes
    stored: str


def key_of_headers(headers: Mapping[str, str], prefix: str = PREFIX) -> CustomerKey | None:
    """The key of a request; None without one.

    :raises S3Error: InvalidArgument, if a header is missing or malformed.
    """
    algorithm, text, md5 = [headers.get(prefix + n) for n in ("algorithm", "key", "key-md5")]
    if algorithm is None and text is None and md5 is None:
        return None
    if algorithm != ALGORITHM:
        raise S3Error("InvalidArgument", f"{_REQUESTS} provide a valid encryption algorithm.")
    if not text:
        raise S3Error("InvalidArgument", f"{_REQUESTS} provide an appropriate secret key.")
    if not md5:
        reason = "provide the client calculated MD5 of the secret key."
        raise S3Error("InvalidArgument", f"{_REQUESTS} {reason}")
    key = _decoded(text)
    if len(key) != _KEY_BYTES:
        reason = "The secret key was invalid for the specified algorithm."
        raise S3Error("InvalidArgument", reason)
    if _decoded(md5) != hashlib.md5(key, usedforsecurity=False).digest():
        reason = "The calculated MD5 hash of the key did not match the hash that was provided."
        raise S3Error("InvalidArgument", reason)
    return CustomerKey(key, md5)


def _decoded(text: str) -> bytes:
    """The bytes of Base64, none if it is malformed."""
    try:
        return base64.b64decode(text.encode("latin-1"), validate=True)
    except (binascii.Error, ValueError):
        return b""


def seal(key: bytes) -> Derived:
    """The keys of a new object; ``stored`` is what is kept with it."""
    return _derive(key, os.urandom(_SALT_BYTES))


def unseal(key: bytes, stored: str) -> Derived | None:
    """The same for an object that was written before; None if another key encrypted it.

    :raises ValueError: what is stored is malformed.
    """
    form, _, rest = stored.partition(":")
    salt = _decoded(rest.partition(":")[0])
    if form != _FORM or len(salt) != _SALT_BYTES:
        raise ValueError("the stored salt of a customer's key is malformed")
    derived = _derive(key, salt)
    return derived if hmac.compare_digest(derived.stored.encode(), stored.encode()) else None


def _derive(key: bytes, salt: bytes) -> Derived:
    size = _KEY_BYTES + _IV_BYTES + _CHECK_BYTES
    found = HKDF(algorithm=SHA256(), length=size, salt=salt, info=_PURPOSE).derive(key)
    body_key, rest = found[:_KEY_BYTES], found[_KEY_BYTES:]
    check = base64.b64encode(rest[_IV_BYTES:]).decode("ascii")
    stored = f"{_FORM}:{base64.b64encode(salt).decode('ascii')}:{check}"
    return Derived(body_key, rest[:_IV_BYTES], stored)

# SPDX-License-Identifier: Apache-2.0
"""AES-256 in counter mode, as everything at rest is encrypted: bodies, metadata, ETags, body keys.

Counter mode keeps lengths as they are, and can begin at any byte, which is what ranges need. It
does not tell whether a ciphertext was changed; that is for checksums to find. Key and IV must never
meet twice: each body has a random key of its own, each value an IV of its own.
"""

from __future__ import annotations

import os
from typing import Protocol

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

#: How the metadata names what is done here.
CIPHER = "AES_CTR_256"
KEY_BYTES = 32
IV_BYTES = 16

_BLOCK_BYTES = 16
_COUNTER_END = 1 << 128


class Transform(Protocol):
    """Encrypts or decrypts a stream, piece by piece."""

    def update(self, data: bytes, /) -> bytes:
        """The next piece, of the same length."""


def new_key() -> bytes:
    """A random key."""
    return os.urandom(KEY_BYTES)


def new_iv() -> bytes:
    """A random IV."""
    return os.urandom(IV_BYTES)


def transform(key: bytes, iv: bytes, offset: int = 0) -> Transform:
    """What encrypts and decrypts (it is the same) a stream from its byte ``offset`` on.

    :raises ValueError: key or IV are not as long as they must be.
    """
    if len(key) != KEY_BYTES or len(iv) != IV_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes, an IV {IV_BYTES}")
    blocks, skipped = divmod(offset, _BLOCK_BYTES)
    if blocks:
        counter = (int.from_bytes(iv, "big") + blocks) % _COUNTER_END
        iv = counter.to_bytes(IV_BYTES, "big")
    stream = Cipher(algorithms.AES(key), modes.CTR(iv)).encryptor()
    if skipped:
        stream.update(bytes(skipped))
    return stream


def apply(key: bytes, iv: bytes, data: bytes) -> bytes:
    """``data`` encrypted or decrypted at once.

    :raises ValueError: key or IV are not as long as they must be.
    """
    return transform(key, iv).update(data)

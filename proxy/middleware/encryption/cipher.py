# SPDX-License-Identifier: Apache-2.0
"""AES-256 in counter mode, for all data at rest: bodies, metadata, ETags, body keys.

Counter mode preserves lengths and can start at any byte, as ranges need. It does not detect a
changed ciphertext; checksums do. A pair of key and IV must never be used twice: each body has its
own random key, each value its own IV.
"""

from __future__ import annotations

import os
from typing import Protocol

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

#: The name of this cipher in the metadata.
CIPHER = "AES_CTR_256"
KEY_BYTES = 32
IV_BYTES = 16

_BLOCK_BYTES = 16
_COUNTER_END = 1 << 128


class Transform(Protocol):
    """Encrypts or decrypts a stream, piece by piece."""

    def update(self, data: bytes, /) -> bytes:
        """Return the next piece, of the same length."""


def new_key() -> bytes:
    """Return a random key."""
    return os.urandom(KEY_BYTES)


def new_iv() -> bytes:
    """Return a random IV."""
    return os.urandom(IV_BYTES)


def transform(key: bytes, iv: bytes, offset: int = 0) -> Transform:
    """Return the transform that encrypts and decrypts a stream from its byte ``offset`` on.

    :raises ValueError: key or IV have the wrong length.
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
    """Encrypt or decrypt ``data`` in one step.

    :raises ValueError: key or IV have the wrong length.
    """
    return transform(key, iv).update(data)

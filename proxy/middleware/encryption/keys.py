# SPDX-License-Identifier: Apache-2.0
"""The interface between a keymaster and the encryption filter, the same as in OpenStack Swift.

The keymaster, left of the encryption filter, puts a callable into the environ. Without an argument
it returns the keys for writing; with the ``key_id`` stored with a ciphertext, the keys for reading.
The result is a mapping. ``object`` and ``container`` are keys of 32 bytes, present if the request's
path has these parts. ``id`` is JSON to be stored with the ciphertext. ``all_ids`` has an id for
each secret that may have been used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from martlet.http.environ import FETCH_KEYS, Environ
from proxy.middleware.encryption.cipher import KEY_BYTES
from proxy.middleware.encryption.meta import CryptoError, KeyId

Keys = Mapping[str, Any]
FetchKeys = Callable[..., Keys]


class UnknownSecretError(CryptoError):
    """A key was made from a root secret that the keymaster does not have."""


def fetch_keys(environ: Environ, key_id: KeyId | None = None) -> Keys:
    """Return the keys that ``key_id`` names, by default those for writing.

    :raises CryptoError: there is no keymaster, or it has no such keys.
    """
    fetch: FetchKeys | None = environ.get(FETCH_KEYS)
    if fetch is None:
        raise CryptoError("no keymaster is left of encryption in the pipeline")
    keys = fetch(key_id=key_id)
    for name in ("container", "object"):
        if name in keys and len(keys[name]) != KEY_BYTES:
            raise CryptoError(f"the keymaster's {name} key does not have {KEY_BYTES} bytes")
    return keys


def all_keys(environ: Environ) -> list[Keys]:
    """Return the keys for writing, then the keys of every other secret.

    :raises CryptoError: see `fetch_keys`.
    """
    active = fetch_keys(environ)
    others = [key_id for key_id in active["all_ids"] if key_id != active["id"]]
    return [active, *(fetch_keys(environ, key_id) for key_id in others)]

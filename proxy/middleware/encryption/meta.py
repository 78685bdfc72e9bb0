# SPDX-License-Identifier: Apache-2.0
"""The encoding of encrypted values and their crypto metadata in headers and listings.

The forms are OpenStack Swift's, so that each system reads the other's data. The crypto metadata of
a value is a percent-encoded JSON object: ``cipher``; ``iv`` in base64; ``key_id``, which only the
keymaster interprets; for a body also ``body_key``, its encrypted key (``key`` and ``iv``). An
encrypted value is base64 followed by its crypto metadata: ``…; swift_meta=…``. See
doc/formats/encryption.md.
"""

from __future__ import annotations

import binascii
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus, unquote_plus

from proxy.middleware.encryption.cipher import CIPHER, IV_BYTES, KEY_BYTES, apply, new_iv

#: JSON that a keymaster returns with a key and uses to find that key again.
KeyId = Mapping[str, Any]

_MARK = "swift_meta="

# The characters of nearly all crypto metadata. Percent-encoding only these gives the result of
# urllib's quote_plus in less time. "+" comes first, because it then replaces the space.
_OFTEN_QUOTED = [(c, f"%{ord(c):02X}") for c in '+":{},=/\\']
_is_often_quoted = re.compile(r"[\w.~\-+\":{},=/\\ ]*", re.ASCII).fullmatch
_encode = json.JSONEncoder(sort_keys=True).encode


class CryptoError(Exception):
    """A failed encryption or decryption; the message contains no secret."""


@dataclass(frozen=True, slots=True)
class WrappedKey:
    """A key, encrypted with another."""

    key: bytes
    iv: bytes

    @classmethod
    def wrap(cls, wrapping_key: bytes, key: bytes) -> WrappedKey:
        """Return ``key`` encrypted with ``wrapping_key``."""
        iv = new_iv()
        return cls(apply(wrapping_key, iv, key), iv)

    def unwrap(self, wrapping_key: bytes) -> bytes:
        """Return the decrypted key.

        :raises CryptoError: the key or its IV have the wrong length.
        """
        if len(self.key) != KEY_BYTES:
            raise CryptoError("the body key has the wrong length")
        try:
            return apply(wrapping_key, self.iv, self.key)
        except ValueError as error:
            raise CryptoError(str(error)) from None


@dataclass(frozen=True, slots=True)
class CryptoMeta:
    """The parameters of a decryption, without the keymaster's keys; parts may be missing."""

    iv: bytes | None = None
    key_id: KeyId | None = None
    body_key: WrappedKey | None = None

    def dump(self) -> str:
        """Return the value for a header."""
        fields: dict[str, Any] = {"cipher": CIPHER}
        if self.iv is not None:
            fields["iv"] = _base64(self.iv)
        if self.key_id is not None:
            fields["key_id"] = self.key_id
        if self.body_key is not None:
            wrapped = self.body_key
            fields["body_key"] = {"key": _base64(wrapped.key), "iv": _base64(wrapped.iv)}
        return _quote(_encode(fields))

    @classmethod
    def load(cls, text: str) -> CryptoMeta:
        """Parse the result of `dump`.

        :raises CryptoError: it is malformed, or names another cipher.
        """
        try:
            fields = json.loads(_unquote(text))
            if fields["cipher"] != CIPHER:
                raise CryptoError(f"the cipher is {fields['cipher']!r:.50}, not {CIPHER}")
            iv = b64decode(fields["iv"]) if "iv" in fields else None
            wrapped = fields.get("body_key")
            body_key = wrapped and WrappedKey(b64decode(wrapped["key"]), b64decode(wrapped["iv"]))
        except (KeyError, TypeError, ValueError, RecursionError, binascii.Error):
            raise CryptoError(f"malformed crypto metadata {text!r:.200}") from None
        if iv is not None and len(iv) != IV_BYTES:
            raise CryptoError(f"an IV has {len(iv)} bytes")
        return cls(iv, fields.get("key_id"), body_key or None)


def encrypt_value(key: bytes, value: bytes, key_id: KeyId | None = None) -> str:
    """Return the encrypted value followed by its crypto metadata."""
    iv = new_iv()
    meta = CryptoMeta(iv, key_id).dump()
    return f"{_base64(apply(key, iv, value))}; {_MARK}{meta}"


def is_encrypted(text: str) -> bool:
    """Whether crypto metadata follow the value."""
    return _MARK in text


def split_value(text: str) -> tuple[str, CryptoMeta | None]:
    """Return a value and its crypto metadata; if it has none, ``text`` and None.

    :raises CryptoError: the metadata is malformed.
    """
    if _MARK not in text:
        return text, None
    value, *parameters = text.split(";")
    for parameter in parameters:
        stripped = parameter.strip()
        if stripped.startswith(_MARK):
            return value.strip(), CryptoMeta.load(stripped.removeprefix(_MARK).strip('"'))
    return text, None


def decrypt_value(key: bytes, value: str, meta: CryptoMeta) -> bytes:
    """Decrypt a value that `split_value` returned.

    :raises CryptoError: it has no IV or is not base64.
    """
    if meta.iv is None:
        raise CryptoError("an encrypted value has no IV")
    try:
        return apply(key, meta.iv, b64decode(value))
    except (ValueError, binascii.Error):
        raise CryptoError("an encrypted value is not base64") from None


def _quote(text: str) -> str:
    if not _is_often_quoted(text):
        return quote_plus(text)
    for character, quoted in _OFTEN_QUOTED:
        text = text.replace(character, quoted)
    return text.replace(" ", "+")


def _unquote(text: str) -> str:
    unquoted = text.replace("+", " ")
    for character, quoted in _OFTEN_QUOTED:
        unquoted = unquoted.replace(quoted, character)
    return unquote_plus(text) if "%" in unquoted else unquoted


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")

# SPDX-License-Identifier: Apache-2.0
"""tempauth's signed tokens: every worker and every proxy can check them without a store.

A token is the reseller prefix, ``tk``, and the base64url of::

    offset size  meaning
    0      1     format version, 1
    1      5     when it expires: seconds since 1970, big-endian
    6      n     user, "account:name" in UTF-8
    6+n    32    HMAC-SHA256 over SHA-256(the user's key) and the bytes before

The signature covers the user's key: a new key invalidates the user's tokens. Groups are not in the
token; they are looked up when it is used.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

_VERSION = b"\x01"
_EXPIRES_BYTES = 5
_HEAD_BYTES = 1 + _EXPIRES_BYTES
_MAC_BYTES = 32
#: Longer texts cannot be tokens and are not decoded.
_TEXT_LENGTH_MAX = 1024


@dataclass(frozen=True, slots=True)
class TokenContents:
    """The contents of a valid token."""

    user: str
    expires: int


class TokenSigner:
    """Issues and checks tokens with one secret."""

    def __init__(self, secret: bytes, prefix: str) -> None:
        """Create a signer; ``prefix`` is the reseller prefix with its underscore."""
        self._secret = secret
        self._prefix = f"{prefix}tk"

    def issue(self, user: str, user_key: str, expires: int) -> str:
        """Return a token for ``user`` that is valid until ``expires``, seconds since 1970."""
        head = _VERSION + expires.to_bytes(_EXPIRES_BYTES, "big") + user.encode("utf-8")
        raw = head + self._mac(user_key, head)
        return self._prefix + urlsafe_b64encode(raw).decode("ascii").rstrip("=")

    def read(self, token: str, key_of: Callable[[str], str | None]) -> TokenContents | None:
        """Return the contents of ``token``; None if it is not tempauth's or was tampered with.

        The caller compares ``expires`` with the clock. ``key_of`` returns a user's key, None if
        there is no such user.
        """
        raw = self._decode(token)
        if raw is None or len(raw) <= _HEAD_BYTES + _MAC_BYTES or raw[:1] != _VERSION:
            return None
        head, mac = raw[:-_MAC_BYTES], raw[-_MAC_BYTES:]
        try:
            user = head[_HEAD_BYTES:].decode("utf-8")
        except UnicodeDecodeError:
            return None
        user_key = key_of(user)
        if user_key is None or not hmac.compare_digest(mac, self._mac(user_key, head)):
            return None
        return TokenContents(user, int.from_bytes(head[1:_HEAD_BYTES], "big"))

    def _decode(self, token: str) -> bytes | None:
        if len(token) > _TEXT_LENGTH_MAX or not token.startswith(self._prefix):
            return None
        text = token[len(self._prefix) :]
        try:
            raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except ValueError:
            return None
        # Several base64 texts decode to the same bytes; only the issued one is valid.
        return raw if urlsafe_b64encode(raw).decode("ascii").rstrip("=") == text else None

    def _mac(self, user_key: str, head: bytes) -> bytes:
        return hmac.digest(self._secret, sha256(user_key.encode("utf-8")).digest() + head, "sha256")

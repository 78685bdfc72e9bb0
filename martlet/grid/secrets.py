# SPDX-License-Identifier: Apache-2.0
"""The secrets of a cluster, by which its servers recognize each other."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

#: Key ids and proofs let an attacker test guesses, so a secret must not be guessable.
SECRET_CHARACTERS_MIN = 32
#: The value of ``grid_secret`` of a cluster that needs none, since its network is its own.
NONE = "none"


@dataclass(frozen=True)
class Secrets:
    """Up to two secrets, the preferred one first; or none.

    The second one is accepted while the secret of the cluster changes.
    """

    keys: tuple[bytes, ...] = field(default=(), repr=False)

    @property
    def ids(self) -> list[bytes]:
        """The key id of each secret."""
        return [key_id(key) for key in self.keys]

    def by_id(self, wanted: bytes) -> bytes | None:
        """The secret of a key id."""
        for key in self.keys:
            if hmac.compare_digest(key_id(key), wanted):
                return key
        return None

    @classmethod
    def parse(cls, grid_secret: str, grid_secret_previous: str = "") -> Secrets:
        """The secrets from the options of these names; the second one may be empty.

        :raises ValueError: one is missing, too short, or there is one too many.
        """
        texts = [text for text in (grid_secret.strip(), grid_secret_previous.strip()) if text]
        if not grid_secret.strip():
            raise ValueError(
                f"grid_secret must be set: at least {SECRET_CHARACTERS_MIN} characters, the same "
                f"on all servers, for example from `openssl rand -hex 32`; or {NONE!r}"
            )
        if texts == [NONE]:
            return cls()
        if NONE in texts:
            raise ValueError(f"grid_secret_previous cannot be combined with {NONE!r}")
        for name, text in zip(("grid_secret", "grid_secret_previous"), texts, strict=False):
            if len(text) < SECRET_CHARACTERS_MIN:
                raise ValueError(
                    f"{name} has {len(text)} characters; it needs {SECRET_CHARACTERS_MIN} or more"
                )
        if len(set(texts)) < len(texts):
            raise ValueError("grid_secret_previous is the same as grid_secret")
        return cls(tuple(text.encode() for text in texts))


def key_id(key: bytes) -> bytes:
    """The name of a secret, from which it cannot be computed."""
    return hmac.digest(key, b"martlet-grid-1 key id", hashlib.sha256)[:8]


def connector_proof(key: bytes, acceptor_nonce: bytes, connector_nonce: bytes) -> bytes:
    """The proof of the side that opened the connection."""
    message = b"martlet-grid-1 connector" + acceptor_nonce + connector_nonce
    return hmac.digest(key, message, hashlib.sha256)


def http_client_proof(key: bytes, server_nonce: bytes, client_nonce: bytes) -> bytes:
    """The proof of a client on a plain HTTP connection."""
    message = b"martlet-grid-1 http client" + server_nonce + client_nonce
    return hmac.digest(key, message, hashlib.sha256)


def http_server_proof(key: bytes, server_nonce: bytes, client_nonce: bytes) -> bytes:
    """The proof of the server on a plain HTTP connection."""
    message = b"martlet-grid-1 http server" + server_nonce + client_nonce
    return hmac.digest(key, message, hashlib.sha256)


def acceptor_proof(key: bytes, acceptor_nonce: bytes, connector_nonce: bytes) -> bytes:
    """The proof of the side that listens."""
    message = b"martlet-grid-1 acceptor" + acceptor_nonce + connector_nonce
    return hmac.digest(key, message, hashlib.sha256)

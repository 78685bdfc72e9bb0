# SPDX-License-Identifier: Apache-2.0
"""The login on a plain HTTP connection, with the same secret as the grid's handshake. No I/O.

Both sides prove that they know a secret of the cluster before the client sends its first request.
The nonces are parameters for tests only; a nonce must never be used twice.
"""

from __future__ import annotations

import binascii
import hmac
import os
from base64 import b64decode, b64encode
from collections.abc import Mapping

from martlet.grid.frames import NONCE_BYTES
from martlet.grid.plain_http import PlainHttp
from martlet.grid.refusals import Refusal
from martlet.grid.secrets import Secrets, http_client_proof, http_server_proof
from martlet.http.backend_client import Address, request_head
from martlet.http.backend_login import LoginError

PATH = "/grid/login"
#: Of the side that sends the header.
NONCE = "X-Grid-Nonce"
#: The key ids that the server accepts.
KEYS = "X-Grid-Keys"
#: The key id of the client's secret.
KEY = "X-Grid-Key"
PROOF = "X-Grid-Proof"

_KEY_ID_BYTES = 8
_PROOF_BYTES = 32


class Logins:
    """Makes the login for each new connection of a client.

    :param plain_http: servers at these addresses are asked without a proof.
    """

    def __init__(self, secrets: Secrets, plain_http: PlainHttp) -> None:
        self._secrets = secrets
        self._plain_http = plain_http

    def __call__(self, address: Address, ip: str) -> ClientLogin | None:
        """The login to the server at an address; None if no proof is needed.

        :param ip: the address of the other end of the connection.
        """
        if not self._secrets.keys or ip in self._plain_http:
            return None
        return ClientLogin(self._secrets, address)


class ClientLogin:
    """The client's side of one connection."""

    def __init__(self, secrets: Secrets, address: Address, nonce: bytes = b"") -> None:
        self._secrets = secrets
        self._address = address
        self._nonce = nonce or os.urandom(NONCE_BYTES)
        self._expected: bytes | None = None

    def start(self) -> bytes:
        """The request for the server's nonce."""
        return request_head("GET", PATH, self._address, b"", 0)

    def answer(self, status: int, headers: Mapping[str, str]) -> bytes:
        """The request with the proof; empty after the server's own proof.

        :param headers: with lower-case names.
        :raises LoginError: one of the sides does not accept the other.
        """
        if status != 200:
            reason = "it has an older release, or does not accept the proof"
            raise LoginError(f"it answers {status} to GET {PATH}: {reason}")
        if self._expected is None:
            return self._prove(headers)
        if not hmac.compare_digest(_bytes(headers, PROOF, _PROOF_BYTES), self._expected):
            raise LoginError("its proof of the secret is wrong")
        return b""

    def _prove(self, headers: Mapping[str, str]) -> bytes:
        nonce = _bytes(headers, NONCE, NONCE_BYTES)
        key_ids = [text.strip() for text in headers.get(KEYS.lower(), "").lower().split(",")]
        if key_ids == [""]:
            raise LoginError("it has no grid_secret, but this side has one")
        for key, key_id in zip(self._secrets.keys, self._secrets.ids, strict=True):
            if key_id.hex() not in key_ids:
                continue
            self._expected = http_server_proof(key, nonce, self._nonce)
            proof = http_client_proof(key, nonce, self._nonce)
            lines = (
                f"{NONCE}: {_text(self._nonce)}\r\n{KEY}: {key_id.hex()}\r\n"
                f"{PROOF}: {_text(proof)}\r\n"
            )
            return request_head("GET", PATH, self._address, lines.encode(), 0)
        raise LoginError("its grid_secret is another one")


class ProofError(Exception):
    """The server does not accept a client; the message says why.

    :param kind: the reason, for counters.
    """

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


class ServerLogin:
    """The server's side of one connection."""

    __slots__ = ("_nonce", "_secrets", "is_proved")

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._nonce = b""  # that the next proof must have been made with
        #: Whether the client may send requests.
        self.is_proved = False

    def challenge(self, nonce: bytes = b"") -> dict[str, str]:
        """The headers of the answer to a request without a proof."""
        self._nonce = nonce or os.urandom(NONCE_BYTES)
        key_ids = ",".join(key_id.hex() for key_id in self._secrets.ids)
        return {NONCE: _text(self._nonce), KEYS: key_ids}

    def check(self, headers: Mapping[str, str]) -> dict[str, str]:
        """The headers of the answer to a proof. The client is proved then.

        :param headers: with lower-case names.
        :raises ProofError: the client is not.
        """
        nonce, self._nonce = self._nonce, b""  # a nonce counts for one proof
        if not nonce:
            raise ProofError(Refusal.OUT_OF_ORDER, f"A proof needs the nonce of GET {PATH} first.")
        try:
            client_nonce = _bytes(headers, NONCE, NONCE_BYTES)
            key_id = _from_hex(headers.get(KEY.lower(), ""))
            proof = _bytes(headers, PROOF, _PROOF_BYTES)
        except LoginError as error:
            raise ProofError(Refusal.MALFORMED, f"The request is malformed: {error}.") from None
        key = self._secrets.by_id(key_id)
        if key is None:
            raise ProofError(Refusal.NO_COMMON_KEY, "The secret of this key id is not known here.")
        if not hmac.compare_digest(proof, http_client_proof(key, nonce, client_nonce)):
            raise ProofError(Refusal.WRONG_PROOF, "The proof of the secret is wrong.")
        self.is_proved = True
        return {PROOF: _text(http_server_proof(key, nonce, client_nonce))}


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _bytes(headers: Mapping[str, str], name: str, length: int) -> bytes:
    """The bytes of a header in Base64.

    :raises LoginError: it is missing, or has another form or length.
    """
    try:
        data = b64decode(headers.get(name.lower(), "").encode("latin-1"), validate=True)
    except binascii.Error:
        data = b""
    if len(data) != length:
        raise LoginError(f"the header {name} is not {length} bytes in Base64")
    return data


def _from_hex(text: str) -> bytes:
    """:raises LoginError: it is no key id."""
    try:
        data = bytes.fromhex(text)
    except ValueError:
        data = b""
    if len(data) != _KEY_ID_BYTES:
        raise LoginError(f"the header {KEY} is not {_KEY_ID_BYTES} bytes in hex")
    return data

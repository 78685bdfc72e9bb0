# SPDX-License-Identifier: Apache-2.0
"""The handshake: both sides prove that they know a secret of the cluster. No I/O.

Each side passes every message to ``receive`` and sends what that returns, until ``peer`` is set.
The nonces are parameters for tests only; a nonce must never be used twice.
"""

from __future__ import annotations

import hmac
import os

from martlet.grid.frames import (
    CHALLENGE,
    HANDSHAKE_BYTES_MAX,
    NONCE_BYTES,
    PROOF,
    REFUSED,
    WELCOME,
    Frame,
    FrameError,
    decode_message,
    encode,
    short_reason,
)
from martlet.grid.options import Options
from martlet.grid.refusals import Refusal
from martlet.grid.secrets import Secrets, acceptor_proof, connector_proof


class RefusedError(Exception):
    """The handshake failed, the message says why; ``frame`` is to be sent before closing.

    :param kind: the reason, for counters.
    """

    def __init__(self, kind: Refusal, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.frame = b"" if kind is Refusal.BY_PEER else encode(REFUSED, short_reason(reason))


class AcceptorHandshake:
    """The side that listens."""

    def __init__(self, secrets: Secrets, options: Options, nonce: bytes = b"") -> None:
        self._secrets = secrets
        self._options = options
        self._nonce = nonce or os.urandom(NONCE_BYTES)
        #: The options of the other side, once it is welcome.
        self.peer: Options | None = None

    def start(self) -> bytes:
        """The first message to send."""
        return encode(CHALLENGE, self._nonce, self._secrets.ids, self._options.as_map())

    def receive(self, message: bytes | bytearray) -> bytes:
        """The message to send in return; ``peer`` is set then.

        :raises RefusedError: the other side is not welcome.
        :raises FrameError: the message is malformed.
        """
        frame = _only_frame(message, self.peer is not None)
        if frame is None:
            return b""
        _, nonce, key_id, proof, options = _expect(PROOF, "PROOF", frame)
        peer = Options.from_map(options)
        if not self._secrets.keys:
            if key_id or proof:
                raise RefusedError(Refusal.NO_KEY, "this side has no secret")
            own_proof = b""
        elif not proof:
            raise RefusedError(Refusal.NO_KEY, "this side demands a proof of the secret")
        else:
            key = self._secrets.by_id(key_id)
            if key is None:
                raise RefusedError(Refusal.NO_COMMON_KEY, "the key id is not accepted here")
            if not hmac.compare_digest(proof, connector_proof(key, self._nonce, nonce)):
                raise RefusedError(Refusal.WRONG_PROOF, "the proof of the secret is wrong")
            own_proof = acceptor_proof(key, self._nonce, nonce)
        self.peer = peer
        return encode(WELCOME, own_proof)


class ConnectorHandshake:
    """The side that opens the connection; the other side sends first."""

    def __init__(self, secrets: Secrets, options: Options, nonce: bytes = b"") -> None:
        self._secrets = secrets
        self._options = options
        self._nonce = nonce or os.urandom(NONCE_BYTES)
        self._expected: bytes | None = None
        self._offered: Options | None = None
        #: The options of the other side, once it has proved that it knows the secret.
        self.peer: Options | None = None

    def receive(self, message: bytes | bytearray) -> bytes:
        """The message to send in return; none after WELCOME, when ``peer`` is set.

        :raises RefusedError: one of the sides does not accept the other.
        :raises FrameError: the message is malformed.
        """
        frame = _only_frame(message, self.peer is not None)
        if frame is None:
            return b""
        if self._expected is None:
            return self._prove(_expect(CHALLENGE, "CHALLENGE", frame))
        _, proof = _expect(WELCOME, "WELCOME", frame)
        if not hmac.compare_digest(proof, self._expected):
            reason = "the other side's proof of the secret is wrong"
            raise RefusedError(Refusal.WRONG_PROOF, reason)
        self.peer = self._offered
        return b""

    def _prove(self, challenge: Frame) -> bytes:
        _, nonce, key_ids, options = challenge
        self._offered = Options.from_map(options)
        if not self._secrets.keys and not key_ids:
            self._expected = b""
            return encode(PROOF, self._nonce, b"", b"", self._options.as_map())
        if not self._secrets.keys:
            raise RefusedError(Refusal.NO_KEY, "this side has no secret, the other one has")
        if not key_ids:
            raise RefusedError(Refusal.NO_KEY, "the other side has no secret")
        for key, key_id in zip(self._secrets.keys, self._secrets.ids, strict=True):
            if key_id in key_ids:
                self._expected = acceptor_proof(key, nonce, self._nonce)
                proof = connector_proof(key, nonce, self._nonce)
                return encode(PROOF, self._nonce, key_id, proof, self._options.as_map())
        raise RefusedError(Refusal.NO_COMMON_KEY, "the sides have no secret in common")


def _only_frame(message: bytes | bytearray, has_ended: bool) -> Frame | None:
    """The frame of a message of the handshake; None if its type is unknown."""
    if len(message) > HANDSHAKE_BYTES_MAX:
        reason = f"a message of the handshake has more than {HANDSHAKE_BYTES_MAX} bytes"
        raise FrameError(reason)
    frames = decode_message(message)
    if len(frames) > 1 or has_ended:
        raise RefusedError(Refusal.OUT_OF_ORDER, "a frame came before the end of the handshake")
    return frames[0] if frames else None


def _expect(kind: int, name: str, frame: Frame) -> Frame:
    if frame[0] == REFUSED:
        raise RefusedError(Refusal.BY_PEER, f"the other side refuses: {frame[1]}")
    if frame[0] != kind:
        raise RefusedError(Refusal.OUT_OF_ORDER, f"type {frame[0]} came instead of {name}")
    return frame

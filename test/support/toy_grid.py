# SPDX-License-Identifier: Apache-2.0
"""A third implementation of the grid, for tests: it was written from ``doc/formats/grid.md`` alone.

It imports nothing of martlet, so it shows what the page says and not what our code does. It blocks,
makes one request at a time and one stream, and can break the rules.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import itertools
import os
import socket
import struct
import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

import msgpack  # type: ignore[import-untyped]

CHALLENGE, PROOF, WELCOME, REFUSED = 1, 2, 3, 4
REQUEST, ANSWER, ERROR, OPEN, DATA, CREDIT, END, PING, PONG = 10, 11, 12, 20, 21, 22, 23, 30, 31
_TEXT, _BINARY, _CLOSE, _WS_PING, _WS_PONG = 1, 2, 8, 9, 10
_CONTINUED = 0
PROTOCOL = "martlet-grid-1"
#: The largest payload of DATA.
DATA_BYTES_MAX = 1 << 16
#: The window of the other side on a new stream, if its options name none.
WINDOW = 1 << 18


class EndedError(Exception):
    """The other side has ended the connection, or said REFUSED; the message has its reason."""


def frame(elements: Sequence[Any], version: int = 1) -> bytes:
    """The bytes of a frame."""
    body: bytes = msgpack.packb(list(elements), use_bin_type=True)
    return struct.pack(">IB", len(body) + 1, version) + body


def prove(key: bytes, text: bytes) -> bytes:
    """A key id, if it is shortened, or a proof."""
    return hmac.new(key, PROTOCOL.encode() + text, hashlib.sha256).digest()


def log_in(connection: http.client.HTTPConnection, secret: str) -> dict[str, str]:
    """Prove the secret on a connection of plain HTTP, and check the proof of the server.

    :return: the headers of the proof, for a test that repeats them.
    """
    key, mine = secret.encode(), os.urandom(32)
    connection.request("GET", "/grid/login")
    answer = connection.getresponse()
    answer.read()
    theirs = b64decode(answer.headers["X-Grid-Nonce"])
    key_id = prove(key, b" key id")[:8].hex()
    assert key_id in answer.headers["X-Grid-Keys"].split(",")
    headers = {
        "X-Grid-Nonce": b64encode(mine).decode(),
        "X-Grid-Key": key_id,
        "X-Grid-Proof": b64encode(prove(key, b" http client" + theirs + mine)).decode(),
    }
    connection.request("GET", "/grid/login", headers=headers)
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200
    proof = b64decode(answer.headers["X-Grid-Proof"])
    assert proof == prove(key, b" http server" + theirs + mine)
    return headers


class ToyGrid:
    """One connection to a server.

    :param secret: of the cluster; empty: none.
    :raises EndedError: the server does not upgrade the connection.
    """

    def __init__(
        self,
        address: tuple[str, int],
        secret: str,
        protocol: str = PROTOCOL,
        timeout: float = 60.0,
    ) -> None:
        self._key = secret.encode()
        #: Whether messages after WELCOME shall have checksums.
        self.wants_checksums = False
        self._has_checksums = False
        self._received = b""
        self._number = -1
        self._window = 0  # of the other side, for the one stream of a connection
        #: The bytes of the own PROOF, for a test that repeats them.
        self.proof = b""
        self._sock = socket.create_connection(address, timeout)
        try:
            self._upgrade(address, protocol)
        except BaseException:
            self._sock.close()
            raise

    def close(self) -> None:
        """End the connection."""
        self._sock.close()

    def __enter__(self) -> ToyGrid:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def shake_hands(self) -> None:
        """Prove the secret, and check the proof of the server.

        :raises EndedError: it refuses.
        """
        kind, theirs, key_ids, options, *_ = self.read_frame()
        assert kind == CHALLENGE
        mine = os.urandom(32)
        key_id = proof = expected = b""
        if self._key:
            key_id = self._hmac(b" key id")[:8]
            proof = self._hmac(b" connector" + theirs + mine)
            expected = self._hmac(b" acceptor" + theirs + mine)
        assert len(key_ids) <= 2
        mine_options = {"name": "toy", "checksum": self.wants_checksums}
        self.send_frame(PROOF, mine, key_id, proof, mine_options)
        kind, answer, *_ = self.read_frame()
        assert kind == WELCOME
        assert answer == expected
        self._window = options.get("window", WINDOW)
        self._has_checksums = self.wants_checksums or options.get("checksum", False)

    def ask(self, name: str, payload: bytes, milliseconds: int = 30_000) -> tuple[int, Any]:
        """Send a request; 0 and the payload of its answer, or the code and the reason of the error.

        :raises EndedError: the connection ends without one.
        """
        self._number += 2
        self.send_frame(REQUEST, self._number, name, milliseconds, 0, payload)
        while True:
            kind, *rest = self.read_frame()
            if kind == PING:
                self.send_frame(PONG, rest[0])
            elif kind == ANSWER and rest[0] == self._number:
                return 0, rest[1]
            elif kind == ERROR and rest[0] == self._number:
                return rest[1], rest[2]

    def exchange(self, name: str, first: bytes, data: bytes) -> bytes:
        """Open a stream, send all data within the windows, and return what comes until its end.

        :raises EndedError: the connection ends meanwhile.
        """
        self._number += 2
        received = b""
        has_ended = False
        self.send_frame(OPEN, self._number, name, 60_000, 0, WINDOW, first)
        while True:
            while data and self._window:
                piece = data[: min(self._window, DATA_BYTES_MAX)]
                data = data[len(piece) :]
                self._window -= len(piece)
                self.send_frame(DATA, self._number, piece)
            if not data and not has_ended:
                has_ended = True
                self.send_frame(END, self._number)
            kind, *rest = self.read_frame()
            if kind == CREDIT:
                self._window += rest[1]
            elif kind == DATA:
                received += rest[1]
                self.send_frame(CREDIT, self._number, len(rest[1]))
            elif kind == END:
                return received
            elif kind == ERROR:
                raise EndedError(f"{rest[1]} {rest[2]}")

    def send_frame(self, *elements: object, version: int = 1) -> None:
        """Send a frame as a message of its own."""
        data = frame(elements, version)
        if elements[0] == PROOF:
            self.proof = data
        self.send_message(data)

    def send_message(self, data: bytes, length: int | None = None, is_text: bool = False) -> None:
        """Send a message of WebSocket.

        :param length: a wrong one, to be announced in place of that of ``data``.
        """
        if self._has_checksums:
            data += struct.pack(">I", zlib.crc32(data))
        self._send_ws(_TEXT if is_text else _BINARY, data, length)

    def read_frame(self) -> list[Any]:
        """The elements of the next frame.

        :raises EndedError: there is none; after REFUSED, the message is its reason.
        """
        while not self._received:
            self._received = self._read_message()
        length, version = struct.unpack_from(">IB", self._received)
        assert version == 1
        body, self._received = self._received[5 : 4 + length], self._received[4 + length :]
        elements: list[Any] = msgpack.unpackb(body, raw=False)
        if elements[0] == REFUSED:
            raise EndedError(elements[1])
        return elements

    def _hmac(self, text: bytes) -> bytes:
        return prove(self._key, text)

    def _upgrade(self, address: tuple[str, int], protocol: str) -> None:
        lines = (
            "GET /grid HTTP/1.1",
            f"Host: {address[0]}:{address[1]}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {b64encode(os.urandom(16)).decode()}",
            f"Sec-WebSocket-Protocol: {protocol}",
        )
        self._sock.sendall("\r\n".join((*lines, "", "")).encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self._read(1)
        status, *headers = head.decode().split("\r\n")
        if status.split()[1] != "101":
            raise EndedError(status)
        names = dict(line.lower().split(": ", 1) for line in headers if line)
        assert names["sec-websocket-protocol"] == PROTOCOL

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            try:
                more = self._sock.recv(count - len(data))
            except ConnectionError as error:
                raise EndedError(str(error)) from error
            if not more:
                raise EndedError("the end of the connection")
            data += more
        return data

    def _send_ws(self, opcode: int, data: bytes, length: int | None = None) -> None:
        length = len(data) if length is None else length
        if length < 126:
            head = struct.pack(">BB", 0x80 | opcode, 0x80 | length)
        elif length < 1 << 16:
            head = struct.pack(">BBH", 0x80 | opcode, 0x80 | 126, length)
        else:
            head = struct.pack(">BBQ", 0x80 | opcode, 0x80 | 127, length)
        mask = os.urandom(4)
        masked = bytes(byte ^ each for byte, each in zip(data, itertools.cycle(mask), strict=False))
        self._sock.sendall(head + mask + masked)

    def _read_message(self) -> bytes:
        """The next message, without its checksum."""
        parts = []
        while True:
            first, second = self._read(2)
            length = second
            if second == 126:
                (length,) = struct.unpack(">H", self._read(2))
            elif second == 127:
                (length,) = struct.unpack(">Q", self._read(8))
            data = self._read(length)
            opcode = first & 0x0F
            if opcode == _CLOSE:
                raise EndedError(data[2:].decode())
            if opcode == _WS_PING:
                self._send_ws(_WS_PONG, data)
            if opcode in (_BINARY, _CONTINUED):
                parts.append(data)
                if first & 0x80:
                    break
        message = b"".join(parts)
        if self._has_checksums:
            message, checksum = message[:-4], message[-4:]
            assert struct.pack(">I", zlib.crc32(message)) == checksum
        return message

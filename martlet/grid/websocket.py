# SPDX-License-Identifier: Apache-2.0
"""Messages to the bytes of a WebSocket and back, and the opening over HTTP. No I/O.

The library is websockets: it is maintained, masks in C, and takes 2 to 4 us for a message of 600 B
or 5 KB; wsproto takes 3 to 15 us.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus

from websockets.client import ClientProtocol
from websockets.datastructures import Headers
from websockets.exceptions import InvalidHandshake
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import OPEN, Protocol
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from martlet.grid.frames import HANDSHAKE_BYTES_MAX, MESSAGE_BYTES_MAX, FrameError
from martlet.http.backend_response import Address
from martlet.http.environ import HeaderList

#: The path of the grid on each server.
PATH = "/grid"
PROTOCOL = Subprotocol("martlet-grid-1")

_CLOSE_NORMAL = 1000
_CLOSE_ERROR = 1002
_CLOSE_REASON_BYTES_MAX = 123


class UpgradeRefusedError(Exception):
    """The server did not take up the protocol; the message has its answer.

    ``is_for_now`` says that it knows the protocol: it has too many handshakes, or is about to stop.
    """

    def __init__(self, reason: str, is_for_now: bool = False) -> None:
        super().__init__(reason)
        self.is_for_now = is_for_now


class Channel:
    """One side of a WebSocket after its opening."""

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol
        self._pieces = bytearray()  # of a message that comes in fragments
        self._is_fragmented = False
        #: Whether the peer has said that it sends no more.
        self.is_closed_by_peer = False

    def wrap(self, message: bytes) -> bytes:
        """The bytes to send for a message, and for what the protocol demands before it."""
        protocol = self._protocol
        protocol.send_binary(message)
        return self.take_bytes()

    @property
    def pongs(self) -> int:
        """Answers to PINGs that ``take_bytes`` has not returned."""
        return len(self._protocol.writes)

    def take_bytes(self) -> bytes:
        """The bytes that the protocol itself demands to be sent."""
        writes = self._protocol.data_to_send()
        return writes[0] if len(writes) == 1 else b"".join(writes)

    def feed(self, data: bytes) -> list[bytes | bytearray]:
        """The messages that are complete with these bytes.

        :raises FrameError: they are no messages of the grid.
        """
        protocol = self._protocol
        protocol.receive_data(data)
        messages: list[bytes | bytearray] = []
        for event in protocol.events_received():
            if not isinstance(event, Frame):
                continue
            if event.opcode is Opcode.BINARY and event.fin and not self._is_fragmented:
                messages.append(event.data)  # type: ignore[arg-type]
            elif event.opcode is Opcode.BINARY or event.opcode is Opcode.CONT:
                self._pieces += event.data
                self._is_fragmented = not event.fin
                if event.fin:
                    messages.append(self._pieces)
                    self._pieces = bytearray()
            elif event.opcode is Opcode.TEXT:
                raise FrameError("a text message came")
            elif event.opcode is Opcode.CLOSE:
                self.is_closed_by_peer = True
        if protocol.parser_exc is not None:
            raise FrameError(f"the bytes are no WebSocket: {protocol.parser_exc}")
        return messages

    def close(self, reason: str = "") -> bytes:
        """The bytes that end the WebSocket; a reason says which rule the peer has broken."""
        if self._protocol.state is OPEN:
            code = _CLOSE_ERROR if reason else _CLOSE_NORMAL
            short = reason.encode()[:_CLOSE_REASON_BYTES_MAX].decode(errors="ignore")
            self._protocol.send_close(code, short)
        return self.take_bytes()


def acceptor_channel(*, is_welcome: bool) -> Channel:
    """The channel of the side that listens; before WELCOME its messages are small.

    A new one takes over after the handshake, when the peer has nothing to send.
    """
    size = MESSAGE_BYTES_MAX if is_welcome else HANDSHAKE_BYTES_MAX
    return Channel(ServerProtocol(state=OPEN, max_size=size))


def accept_upgrade(headers: Iterable[tuple[str, str]]) -> tuple[HeaderList, str]:
    """The headers of the answer 101, or no headers and a sentence for the answer 400."""
    protocol = ServerProtocol(subprotocols=[PROTOCOL])
    try:
        answer = protocol.accept(Request(PATH, Headers(headers)))
    except InvalidHandshake as error:
        return [], _upgrade_sentence(str(error))
    if answer.status_code != 101:
        return [], _upgrade_sentence((answer.body or b"").decode(errors="replace"))
    kept = ("upgrade", "connection", "sec-websocket-accept", "sec-websocket-protocol")
    return [(name, value) for name, value in answer.headers.raw_items() if name.lower() in kept], ""


def _upgrade_sentence(text: str) -> str:
    lines = text.strip().splitlines() or ["not an upgrade"]
    return f"This server speaks {PROTOCOL}. {lines[0]}"


class Opening:
    """The upgrade, on the side that opens the connection."""

    def __init__(self, address: Address) -> None:
        host = f"[{address[0]}]" if ":" in address[0] else address[0]
        uri = parse_uri(f"ws://{host}:{address[1]}{PATH}")
        self._protocol = ClientProtocol(uri, subprotocols=[PROTOCOL], max_size=MESSAGE_BYTES_MAX)
        self._channel = Channel(self._protocol)

    def start(self) -> bytes:
        """The bytes of the request."""
        self._protocol.send_request(self._protocol.connect())
        return self._channel.take_bytes()

    def feed(self, data: bytes) -> tuple[Channel, list[bytes | bytearray]] | None:
        """The channel and the messages that came with the answer; None while it is incomplete.

        No data mean that the server has closed the connection.

        :raises UpgradeRefusedError: the answer is another one.
        :raises FrameError: the answer is no HTTP, or the messages are none.
        :raises ConnectionError: there is no answer.
        """
        protocol = self._protocol
        if data:
            messages = self._channel.feed(data)
        else:
            protocol.receive_eof()
            messages = []
        error = protocol.handshake_exc
        if error is not None:
            response: Response | None = getattr(error, "response", None)
            if response is None and not data:
                raise ConnectionError("the server closed the connection without an answer")
            if response is None:
                raise FrameError(f"no answer to the upgrade: {error}")
            body = response.body or b""
            text = body[:500].decode(errors="replace").strip()
            is_for_now = response.status_code == HTTPStatus.SERVICE_UNAVAILABLE
            raise UpgradeRefusedError(f"{error}: {text}" if text else str(error), is_for_now)
        if protocol.state is not OPEN and not self._channel.is_closed_by_peer:
            return None
        if protocol.subprotocol != PROTOCOL:
            raise UpgradeRefusedError(f"the server does not speak {PROTOCOL}")
        return self._channel, messages

# SPDX-License-Identifier: Apache-2.0
"""Frames that wait to be sent, and what they keep occupied until they are. No I/O."""

from __future__ import annotations

import zlib
from collections import deque

from martlet.grid.frames import CHECKSUM_BYTES, MESSAGE_BYTES_MAX

#: Frames are joined to messages of about this size, bytes.
JOIN_BYTES = 256 * 1024
#: The peer of a queue of so many bytes of answers does not take them.
ANSWER_BYTES_MAX = MESSAGE_BYTES_MAX
#: With so many bytes of refusals and PONGs, too, it is not read from any more.
REFUSAL_BYTES_MAX = 256 * 1024
#: Streams add data only below so many bytes.
STREAM_BYTES_MAX = 1 << 20

_PLAIN = -1
_REFUSAL = -2


class Outbox:
    """A queue of frames.

    An answer keeps its request in flight until a message with it is taken. So a peer that sends
    requests and takes no answers reaches its own limits.
    """

    __slots__ = (
        "_frames",
        "_has_checksum",
        "answer_bytes",
        "queued_bytes",
        "refusal_bytes",
        "unwritten",
        "unwritten_bytes",
    )

    def __init__(self, has_checksum: bool) -> None:
        self._has_checksum = has_checksum
        # Each with the payload bytes of the request that it answers, or the kind of another frame.
        self._frames: deque[tuple[bytes, int]] = deque()
        #: Bytes that wait: of all frames, of answers, of refusals.
        self.queued_bytes = 0
        self.answer_bytes = 0
        self.refusal_bytes = 0
        #: Requests whose answers wait, and the payload bytes of these requests.
        self.unwritten = 0
        self.unwritten_bytes = 0

    def add(self, frame: bytes) -> None:
        """Queue a frame that nothing else depends on."""
        self._frames.append((frame, _PLAIN))
        self.queued_bytes += len(frame)

    def add_answer(self, frame: bytes, request_bytes: int) -> None:
        """Queue the end of a request that had ``request_bytes`` of payload."""
        self._frames.append((frame, request_bytes))
        self.queued_bytes += len(frame)
        self.answer_bytes += len(frame)
        self.unwritten += 1
        self.unwritten_bytes += request_bytes

    def add_refusal(self, frame: bytes) -> None:
        """Queue a frame that the peer can cause without being within its limits."""
        self._frames.append((frame, _REFUSAL))
        self.queued_bytes += len(frame)
        self.refusal_bytes += len(frame)

    def take_message(self) -> bytes | None:
        """The next message, which the caller writes before it takes another; None at the end."""
        frames = self._frames
        if not frames:
            return None
        pieces: list[bytes] = []
        size = 0
        while frames:
            frame, kind = frames[0]
            length = len(frame)
            if pieces and size + length > JOIN_BYTES:
                break
            frames.popleft()
            pieces.append(frame)
            size += length
            if kind >= 0:
                self.answer_bytes -= length
                self.unwritten -= 1
                self.unwritten_bytes -= kind
            elif kind == _REFUSAL:
                self.refusal_bytes -= length
        self.queued_bytes -= size
        if self._has_checksum:
            checksum = 0
            for piece in pieces:
                checksum = zlib.crc32(piece, checksum)
            pieces.append(checksum.to_bytes(CHECKSUM_BYTES, "big"))
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

# SPDX-License-Identifier: Apache-2.0
"""Frames of the grid to bytes and back (``doc/formats/grid.md``). No I/O.

A frame is a list: its type, then its elements. `decode_message` checks all of them, so its callers
need not. The frames that they make are checked where the values come from.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import msgpack  # type: ignore[import-untyped]

VERSION = 1
#: The longest message, bytes.
MESSAGE_BYTES_MAX = 4 << 20
#: The longest message of the handshake, bytes.
HANDSHAKE_BYTES_MAX = 4096
#: The largest payload that any side can accept: its frame fits into a message.
PAYLOAD_BYTES_MAX = MESSAGE_BYTES_MAX - 4096
#: The largest payload of DATA.
DATA_BYTES_MAX = 64 * 1024
NAME_BYTES_MAX = 64
REASON_BYTES_MAX = 1024
NONCE_BYTES = 32
PROOF_BYTES = 32
KEY_ID_BYTES = 8
CHECKSUM_BYTES = 4
#: The largest window of a stream, and the largest integer among the options.
WINDOW_MAX = 2**63 - 1

CHALLENGE = 1
PROOF = 2
WELCOME = 3
REFUSED = 4
REQUEST = 10
ANSWER = 11
ERROR = 12
CANCEL = 13
OPEN = 20
DATA = 21
CREDIT = 22
END = 23
PING = 30
PONG = 31
GOAWAY = 32

#: The flag of a request that may have been executed before.
RESENT = 1

_KEY_IDS_MAX = 2
# Of what later versions may add, and of options.
_ELEMENTS_MAX = 1024

#: A type and its elements.
Frame = list[Any]

_head = struct.Struct(">IB")
_LENGTH_BYTES = 4
_HEAD_BYTES = _head.size
_pack = msgpack.Packer(autoreset=True, use_bin_type=True).pack


class FrameError(Exception):
    """The peer sent what the format does not allow; the message is a sentence."""


def encode(*frame: Any) -> bytes:
    """The bytes of a frame: its type, then its elements."""
    body: bytes = _pack(frame)
    return _head.pack(len(body) + 1, VERSION) + body


def decode_message(message: bytes | bytearray | memoryview) -> list[Frame]:
    """The frames of a message, checked. Unknown types and added elements are left out.

    Payloads are copies: the caller may reuse the buffer.

    :raises FrameError: one of them is malformed, or the message is empty.
    """
    size = len(message)
    if not size:
        raise FrameError("a message is empty")
    view = memoryview(message)
    frames: list[Frame] = []
    start = 0
    while start < size:
        if size - start < _HEAD_BYTES:
            raise FrameError("a message ends within the length of a frame")
        length, version = _head.unpack_from(view, start)
        end = start + _LENGTH_BYTES + length
        if length < 2:
            raise FrameError("a frame is empty")
        if end > size:
            raise FrameError(f"a frame of {length} bytes is longer than its message")
        if version != VERSION:
            raise FrameError(f"a frame has version {version}; this side speaks {VERSION}")
        frame = _decode_body(view[start + _HEAD_BYTES : end])
        if frame is not None:
            frames.append(frame)
        start = end
    return frames


def _decode_body(body: memoryview) -> Frame | None:
    try:
        frame = msgpack.unpackb(
            body,
            raw=False,
            strict_map_key=False,
            max_array_len=_ELEMENTS_MAX,
            max_map_len=_ELEMENTS_MAX,
        )
    except (ValueError, TypeError) as error:  # msgpack's own errors are of these
        raise FrameError(f"a frame is not MessagePack: {_one_line(error)}") from None
    if type(frame) is not list or not frame:
        raise FrameError("a frame is not an array with a type")
    kind = frame[0]
    if type(kind) is not int or kind < 0:
        raise FrameError("the type of a frame is not an unsigned integer")
    shape = _SHAPES.get(kind)
    if shape is None:
        return None
    name, checks = shape
    if len(frame) != len(checks):
        if len(frame) < len(checks):
            raise FrameError(f"{name} has {len(frame) - 1} elements instead of {len(checks) - 1}")
        del frame[len(checks) :]
    for check, value in zip(checks, frame, strict=True):
        if not check(value):
            raise FrameError(f"{name} has a wrong {_MEANINGS[check]}")
    return frame


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _is_unsigned(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_window(value: Any) -> bool:
    return type(value) is int and 0 <= value <= WINDOW_MAX


def _is_name(value: Any) -> bool:
    # A character takes up to four bytes.
    return type(value) is str and (
        len(value) <= NAME_BYTES_MAX // 4 or len(value.encode()) <= NAME_BYTES_MAX
    )


def _is_reason(value: Any) -> bool:
    return type(value) is str and len(value.encode()) <= REASON_BYTES_MAX


def _is_payload(value: Any) -> bool:
    return type(value) is bytes


def _is_data(value: Any) -> bool:
    return type(value) is bytes and len(value) <= DATA_BYTES_MAX


def _is_nonce(value: Any) -> bool:
    return type(value) is bytes and len(value) == NONCE_BYTES


def _is_proof(value: Any) -> bool:
    return type(value) is bytes and len(value) in (0, PROOF_BYTES)


def _is_key_id(value: Any) -> bool:
    return type(value) is bytes and len(value) in (0, KEY_ID_BYTES)


def _is_key_ids(value: Any) -> bool:
    return (
        type(value) is list
        and len(value) <= _KEY_IDS_MAX
        and all(type(one) is bytes and len(one) == KEY_ID_BYTES for one in value)
    )


def _is_options(value: Any) -> bool:
    return type(value) is dict and all(type(key) is str for key in value)


_Check = Callable[[Any], bool]
_MEANINGS: dict[_Check, str] = {
    _is_unsigned: "number",
    _is_window: "window",
    _is_name: "name",
    _is_reason: "reason",
    _is_payload: "payload",
    _is_data: "payload",
    _is_nonce: "nonce",
    _is_proof: "proof",
    _is_key_id: "key id",
    _is_key_ids: "list of key ids",
    _is_options: "map of options",
}
# Name and checks of each type; the first check is that of the type itself.
_SHAPES: dict[int, tuple[str, Sequence[_Check]]] = {
    kind: (name, (_is_unsigned, *checks))
    for kind, name, checks in (
        (CHALLENGE, "CHALLENGE", (_is_nonce, _is_key_ids, _is_options)),
        (PROOF, "PROOF", (_is_nonce, _is_key_id, _is_proof, _is_options)),
        (WELCOME, "WELCOME", (_is_proof,)),
        (REFUSED, "REFUSED", (_is_reason,)),
        (REQUEST, "REQUEST", (_is_unsigned, _is_name, _is_unsigned, _is_unsigned, _is_payload)),
        (ANSWER, "ANSWER", (_is_unsigned, _is_payload)),
        (ERROR, "ERROR", (_is_unsigned, _is_unsigned, _is_reason)),
        (CANCEL, "CANCEL", (_is_unsigned,)),
        (
            OPEN,
            "OPEN",
            (_is_unsigned, _is_name, _is_unsigned, _is_unsigned, _is_window, _is_payload),
        ),
        (DATA, "DATA", (_is_unsigned, _is_data)),
        (CREDIT, "CREDIT", (_is_unsigned, _is_unsigned)),
        (END, "END", (_is_unsigned,)),
        (PING, "PING", (_is_unsigned,)),
        (PONG, "PONG", (_is_unsigned,)),
        (GOAWAY, "GOAWAY", (_is_reason,)),
    )
}


def short_reason(reason: str) -> str:
    """The reason in as many whole characters as the format allows."""
    encoded = reason.encode(errors="replace")
    return encoded[:REASON_BYTES_MAX].decode(errors="ignore")

# SPDX-License-Identifier: Apache-2.0
"""Reports of a session about messages that came, and deadlines that passed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Answered:
    """A request of this side ended with an answer; ``token`` is the one of the request."""

    token: Any
    payload: bytes


@dataclass(slots=True)
class Failed:
    """A request of this side ended without an answer.

    ``code`` is that of the peer's ERROR, or None if the deadline passed here.
    """

    token: Any
    code: int | None
    reason: str


@dataclass(slots=True)
class _Begun:
    """The peer began something for the handler of that name."""

    number: int
    name: str
    payload: bytes
    deadline_at: float
    is_resent: bool


@dataclass(slots=True)
class Requested(_Begun):
    """The peer sent a request; ``answer`` or ``fail`` must be called once for it."""


@dataclass(slots=True)
class Cancelled:
    """The peer no longer waits for this request; its ``answer`` or ``fail`` sends nothing."""

    number: int


@dataclass(slots=True)
class StreamOpened(_Begun):
    """The peer opened a stream; ``end`` or ``abort`` must be called for it."""


@dataclass(slots=True)
class StreamData:
    """Data came; ``consume`` must be called once they have been used."""

    number: int
    payload: bytes


@dataclass(slots=True)
class StreamWritable:
    """The stream takes data again, after ``send_data`` took less than all."""

    number: int


@dataclass(slots=True)
class StreamEnded:
    """The peer sends no more data; ``is_over`` says that it takes none either."""

    number: int
    is_over: bool


@dataclass(slots=True)
class StreamFailed:
    """The stream has ended at once, in both directions."""

    number: int
    code: int
    reason: str


@dataclass(slots=True)
class PeerLeaves:
    """The peer accepts no more requests and streams."""

    reason: str


Event = (
    Answered
    | Failed
    | Requested
    | Cancelled
    | StreamOpened
    | StreamData
    | StreamWritable
    | StreamEnded
    | StreamFailed
    | PeerLeaves
)

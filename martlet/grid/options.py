# SPDX-License-Identifier: Apache-2.0
"""The options that both sides of a connection tell each other in the handshake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from martlet.grid.frames import PAYLOAD_BYTES_MAX, WINDOW_MAX, FrameError

NAME_BYTES_MAX = 256


@dataclass(frozen=True, slots=True)
class Options:
    """The limits of one side; they bind the other one. Sizes are in bytes.

    :param name: the side that these options belong to, for logs.
    :param checksum: each message shall have a checksum; one side that wants it is enough.
    :param max_payload: largest payload of a REQUEST, OPEN or ANSWER.
    :param max_requests: requests in flight.
    :param max_bytes: payload bytes of these requests in all.
    :param max_streams: open streams.
    :param window: DATA accepted on a new stream before its first CREDIT.
    """

    name: str = ""
    checksum: bool = False
    max_payload: int = 1 << 20
    max_requests: int = 1024
    max_bytes: int = 64 << 20
    max_streams: int = 128
    window: int = 256 << 10

    def __post_init__(self) -> None:
        """:raises ValueError: a value is out of its range."""
        if len(self.name.encode()) > NAME_BYTES_MAX:
            raise ValueError(f"the name has more than {NAME_BYTES_MAX} bytes")
        if not 0 < self.max_payload <= PAYLOAD_BYTES_MAX:
            raise ValueError(f"max_payload is not from 1 to {PAYLOAD_BYTES_MAX}")
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is int and not 0 <= value <= WINDOW_MAX:
                raise ValueError(f"{field.name} is not from 0 to {WINDOW_MAX}")

    def as_map(self) -> dict[str, Any]:
        """The options in their form on the wire: defaults are left out, names are sorted."""
        default = Options()
        given = sorted(asdict(self).items())
        return {name: value for name, value in given if value != getattr(default, name)}

    @classmethod
    def from_map(cls, given: Mapping[str, Any]) -> Options:
        """The options that a peer has sent; unknown ones are left out.

        :raises FrameError: one has a wrong type or value.
        """
        kinds = {field.name: type(field.default) for field in fields(cls)}
        known: dict[str, Any] = {}
        for name, value in given.items():
            if name not in kinds:
                continue
            if type(value) is not kinds[name]:
                raise FrameError(f"the option {name} has a wrong type")
            known[name] = value
        try:
            return cls(**known)
        except ValueError as error:
            raise FrameError(f"the options are wrong: {error}") from None

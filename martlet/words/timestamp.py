"""Swift timestamps: the order of all writes in a cluster.

A timestamp is a time in units of 10 microseconds plus an offset. The offset orders writes of the
same time (for instance a POST that must not win over a later PUT). On the wire there are two forms:

* normal: ``%016.05f`` of the seconds, the only one that clients see;
* internal: the normal form, and ``_%016x`` of the offset when it is not zero.

Both are compatible with OpenStack Swift's ``X-Timestamp``.
"""

from __future__ import annotations

import functools
import re
import time
from datetime import UTC, datetime

TICKS_PER_SECOND = 100_000
#: The largest time that still has ten digits before the point, so that text order is time order.
MAX_TICKS = 10_000_000_000 * TICKS_PER_SECOND - 1
MAX_OFFSET = 0xFFFF_FFFF_FFFF_FFFF

_FORM = re.compile(r"^(\d{1,20})(?:\.(\d{1,20}))?(?:_([0-9a-fA-F]{1,16}))?$", re.ASCII)


@functools.total_ordering
class Timestamp:
    """An immutable point in the order of writes.

    Accepts seconds (int, float), either text form, or another timestamp.

    :raises ValueError: the text is not a timestamp, or is out of range.
    """

    __slots__ = ("offset", "ticks")

    ticks: int
    offset: int

    def __init__(self, value: Timestamp | str | float | int, offset: int = 0) -> None:
        if isinstance(value, Timestamp):
            ticks, offset = value.ticks, value.offset + offset
        elif isinstance(value, str):
            ticks, parsed_offset = _parse(value)
            offset += parsed_offset
        else:
            ticks = round(value * TICKS_PER_SECOND)
        if not 0 <= ticks <= MAX_TICKS:
            raise ValueError(f"timestamp out of range: {value!r}")
        if not 0 <= offset <= MAX_OFFSET:
            raise ValueError(f"timestamp offset out of range: {offset}")
        object.__setattr__(self, "ticks", ticks)
        object.__setattr__(self, "offset", offset)

    @classmethod
    def now(cls, offset: int = 0) -> Timestamp:
        """The current time of this host's clock."""
        return cls.from_ticks(time.time_ns() // 10_000, offset)

    @classmethod
    def from_ticks(cls, ticks: int, offset: int = 0) -> Timestamp:
        """A timestamp from its number of 10 microsecond units."""
        self = cls.__new__(cls)
        object.__setattr__(self, "ticks", ticks)
        object.__setattr__(self, "offset", offset)
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Timestamp is immutable: {name}")

    @property
    def normal(self) -> str:
        """The form without the offset: ``1795223541.91251``."""
        seconds, fraction = divmod(self.ticks, TICKS_PER_SECOND)
        return f"{seconds:010d}.{fraction:05d}"

    @property
    def internal(self) -> str:
        """The form with the offset if it is not zero: ``1795223541.91251_0000000000000001``."""
        return f"{self.normal}_{self.offset:016x}" if self.offset else self.normal

    @property
    def isoformat(self) -> str:
        """The time as listings show it, UTC with microseconds: ``2026-11-21T09:00:00.123450``."""
        seconds, fraction = divmod(self.ticks, TICKS_PER_SECOND)
        moment = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
        return f"{moment.isoformat()}.{fraction * 10:06d}"

    def ceil(self) -> int:
        """The time rounded up to a whole second, as in HTTP's Last-Modified."""
        return -(-self.ticks // TICKS_PER_SECOND)

    def __float__(self) -> float:
        return self.ticks / TICKS_PER_SECOND

    def __int__(self) -> int:
        return self.ticks // TICKS_PER_SECOND

    def __bool__(self) -> bool:
        return bool(self.ticks or self.offset)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Timestamp):
            return NotImplemented
        return self.ticks == other.ticks and self.offset == other.offset

    def __lt__(self, other: Timestamp) -> bool:
        if not isinstance(other, Timestamp):
            return NotImplemented
        return (self.ticks, self.offset) < (other.ticks, other.offset)

    def __hash__(self) -> int:
        return hash((self.ticks, self.offset))

    def __str__(self) -> str:
        return self.normal

    def __repr__(self) -> str:
        return f"Timestamp({self.internal!r})"


def _parse(text: str) -> tuple[int, int]:
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"not a timestamp: {text!r}")
    seconds, fraction, offset = match.groups()
    # Digits after the fifth round half up; formatting a float differs in exact ties only.
    padded = ((fraction or "") + "000000")[:6]
    ticks = int(seconds) * TICKS_PER_SECOND + (int(padded) + 5) // 10
    return ticks, int(offset, 16) if offset else 0

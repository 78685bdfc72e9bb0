# SPDX-License-Identifier: Apache-2.0
"""A shard range: a part of the names of a container, and the container that holds its rows.

A range has three groups of values, each with its own timestamp: the bounds, the statistics and the
state. They are merged separately. The later group wins, and of two of the same time the greater.
So ranges may arrive in any order and repeatedly, and the result is the same on every replica. The
names of the values are OpenStack Swift's. No I/O.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from martlet.words.names import BadNameError, check_text
from martlet.words.timestamp import Timestamp

FOUND, CREATED, CLEAVED, ACTIVE = 10, 20, 30, 40
SHRINKING, SHARDING, SHARDED, SHRUNK = 50, 60, 70, 80
#: The states by the names that OpenStack Swift has for them.
STATES = {
    "found": FOUND,
    "created": CREATED,
    "cleaved": CLEAVED,
    "active": ACTIVE,
    "shrinking": SHRINKING,
    "sharding": SHARDING,
    "sharded": SHARDED,
    "shrunk": SHRUNK,
}
STATE_NAMES = {number: name for name, number in STATES.items()}
#: The containers of ranges in these states exist, and take updates.
CREATED_STATES = frozenset({CREATED, CLEAVED, ACTIVE, SHRINKING, SHARDING})
#: The beginning of the accounts of shards, after the prefix of hidden accounts.
SHARDS_PREFIX = "shards_"
#: The metadata that tells a shard which container it is a part of.
QUOTED_ROOT = "X-Container-Sysmeta-Shard-Quoted-Root"
#: ... and the shard that it was split off, unless that is the root.
QUOTED_PARENT = "X-Container-Sysmeta-Shard-Quoted-Parent"

_COUNT_MAX = 2**63 - 1


class BadRange(ValueError):
    """A message that is not a shard range; it may be sent to the client."""


@dataclass(frozen=True, slots=True)
class ShardRange:
    """The names above ``lower`` and up to ``upper``; an empty bound is no bound."""

    name: str  # account/container
    timestamp: str
    lower: str = ""
    upper: str = ""
    object_count: int = 0
    bytes_used: int = 0
    meta_timestamp: str = "0"
    deleted: int = 0
    state: int = FOUND
    state_timestamp: str = "0"
    epoch: str = ""
    reported: int = 0
    tombstones: int = -1

    @property
    def path(self) -> tuple[str, str]:
        """The account and the container."""
        account, _, container = self.name.partition("/")
        return account, container

    def covers(self, name: str) -> bool:
        """Whether a name lies in the range."""
        return is_within(name, self.lower, self.upper)

    def is_around(self, lower: str, upper: str) -> bool:
        """Whether all names between two bounds lie in the range."""
        return self.lower <= lower and not is_below(self.upper, upper)

    def as_dict(self) -> dict[str, Any]:
        """The range as JSON shows it, as in OpenStack Swift."""
        return {
            "name": self.name,
            "timestamp": self.timestamp,
            "meta_timestamp": self.meta_timestamp,
            "lower": self.lower,
            "upper": self.upper,
            "object_count": self.object_count,
            "bytes_used": self.bytes_used,
            "state": self.state,
            "state_timestamp": self.state_timestamp,
            "deleted": self.deleted,
            "epoch": self.epoch or None,
            "reported": self.reported,
            "tombstones": self.tombstones,
        }

    def in_state(self, state: int, now: str) -> ShardRange:
        """The range in another state from now on."""
        return replace(self, state=state, state_timestamp=max(now, self.state_timestamp))

    def with_stats(self, object_count: int, bytes_used: int, now: str) -> ShardRange:
        """The range with other statistics."""
        return replace(self, object_count=object_count, bytes_used=bytes_used, meta_timestamp=now)


def is_within(name: str, lower: str, upper: str) -> bool:
    """Whether a name is above ``lower`` and up to ``upper``."""
    return name > lower and (not upper or name <= upper)


def is_below(upper: str, other: str) -> bool:
    """Whether an upper bound is below another; empty is the greatest."""
    return bool(upper) and (not other or upper < other)


def least(upper: str, other: str) -> str:
    """The lower one of two upper bounds."""
    return upper if is_below(upper, other) else other


def merge_range(one: ShardRange, other: ShardRange) -> ShardRange:
    """Merge two states of the range of a name: the winner of each of its three groups."""
    bounds = max(one, other, key=lambda r: (r.timestamp, r.deleted, r.lower, r.upper))
    stats = max(
        one, other, key=lambda r: (r.meta_timestamp, r.object_count, r.bytes_used, r.tombstones)
    )
    state = max(one, other, key=lambda r: (r.state_timestamp, r.state, r.epoch, r.reported))
    return replace(
        bounds,
        object_count=stats.object_count,
        bytes_used=stats.bytes_used,
        tombstones=stats.tombstones,
        meta_timestamp=stats.meta_timestamp,
        state=state.state,
        epoch=state.epoch,
        reported=state.reported,
        state_timestamp=state.state_timestamp,
    )


def shards_account(account: str, prefix: str) -> str:
    """The hidden account of the shards of an account's containers."""
    hidden = f"{prefix}{SHARDS_PREFIX}"
    return account if account.startswith(hidden) else f"{hidden}{account}"


def shard_name(account: str, root: str, parent: str, timestamp: str, index: int) -> str:
    """The name of a new shard, as in OpenStack Swift.

    :param account: of the shards; ``root`` is the container, ``parent`` the one that is split.
    """
    digest = hashlib.md5(parent.encode(), usedforsecurity=False).hexdigest()
    return f"{account}/{root}-{digest}-{timestamp}-{index}"


def parse_range(item: Any) -> ShardRange:
    """Check a range of a message.

    :raises BadRange: a value is missing or not of its type.
    """
    if not isinstance(item, Mapping):
        raise BadRange("a shard range must be an object")
    try:
        found = ShardRange(
            _text(item, "name"),
            _time(item["timestamp"]),
            _text(item, "lower"),
            _text(item, "upper"),
            _whole(item.get("object_count", 0), 0),
            _whole(item.get("bytes_used", 0), 0),
            _time(item.get("meta_timestamp") or item["timestamp"]),
            _whole(int(item.get("deleted") or 0), 0),
            _whole(item.get("state", CREATED), 0),
            _time(item.get("state_timestamp") or item["timestamp"]),
            _time(item["epoch"]) if item.get("epoch") else "",
            _whole(int(item.get("reported") or 0), 0),
            _whole(item.get("tombstones", -1), -1),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadRange(f"bad shard range: {error}") from None
    if found.name.count("/") != 1 or not all(found.path):
        raise BadRange("the name of a shard range must be account/container")
    if found.state not in STATE_NAMES or found.deleted > 1:
        raise BadRange("no such state of a shard range")
    if found.upper and found.upper < found.lower:
        raise BadRange("the upper bound of a shard range is below the lower one")
    return found


def parse_states(text: str) -> frozenset[int]:
    """The states in a list of names separated by commas; unknown names count as none."""
    return frozenset(STATES[name] for name in map(str.strip, text.split(",")) if name in STATES)


def walk(
    ranges: Sequence[ShardRange], own: ShardRange, lower: str, upper: str
) -> Iterator[ShardRange]:
    """Divide the names between two bounds among ranges, in order and without an overlap.

    Of several ranges for a name the oldest gets it: it may have rows already. Names without a range
    are those of ``own``.
    """
    at = lower
    while True:
        here = [r for r in ranges if r.lower <= at and is_below(at or "\x00", r.upper)]
        later = [r.lower for r in ranges if r.lower > at]
        chosen = min(here, key=age) if here else own
        end = least(upper, chosen.upper if here else "")
        for bound in sorted(later):
            if is_below(bound, end) and _takes_over(ranges, chosen if here else None, bound):
                end = bound
                break
        yield replace(chosen, lower=at, upper=end)
        if not is_below(end, upper):
            return
        at = end


def age(item: ShardRange) -> tuple[str, str]:
    """The order of ranges from the oldest on."""
    return item.timestamp, item.name


def _takes_over(ranges: Iterable[ShardRange], chosen: ShardRange | None, bound: str) -> bool:
    """Whether a range that begins at a bound gets the names above it."""
    starting = [r for r in ranges if r.lower == bound]
    if chosen is None:
        return True
    return any(age(item) < age(chosen) for item in starting)


def _text(item: Mapping[str, Any], name: str) -> str:
    value = item[name]
    if not isinstance(value, str):
        raise BadRange(f"{name} must be text")
    try:
        check_text(value.replace("\x00", ""))
    except BadNameError as error:
        raise BadRange(str(error)) from None
    return value


def _time(text: Any) -> str:
    return Timestamp(text if isinstance(text, str) else "").internal


def _whole(number: Any, least_number: int) -> int:
    if type(number) is not int or not least_number <= number <= _COUNT_MAX:
        raise BadRange(f"not a number from {least_number}: {ascii(number)[:40]}")
    return number

# SPDX-License-Identifier: Apache-2.0
"""The cached ranges of a sharded container: which shard gets the row of a name. No I/O."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

#: An account and a container.
Names = tuple[str, str]


class ShardRanges(NamedTuple):
    """The ranges, in the order of names and without a gap."""

    until: float  # monotonic
    uppers: Sequence[str]  # the last name of each range but the last
    containers: Sequence[Names]

    @classmethod
    def of(cls, items: Sequence[Mapping[str, Any]], own: Names, until: float) -> ShardRanges:
        """The ranges of a container's answer; without any, all names are its own."""
        if not items:
            return cls(until, [], [own])
        names = [str(item["name"]).partition("/") for item in items]
        uppers = [item["upper"] for item in items[:-1]]
        return cls(until, uppers, [(account, container) for account, _, container in names])

    def target_of(self, name: str) -> Names:
        """The container that gets the row of a name."""
        return self.containers[bisect_left(self.uppers, name)]

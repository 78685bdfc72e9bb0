# SPDX-License-Identifier: Apache-2.0
"""When a container repeats its report although nothing has changed: once in each interval.

The time within the interval follows from the hash of the container's name. So the reports of a
server are spread over the interval, and all replicas of a container repeat theirs at about the same
time.
"""

from __future__ import annotations

import os
from collections.abc import Callable

_HASH_DIGITS = 8
_HASHES = 2.0 ** (4 * _HASH_DIGITS)


class ReportSlots:
    """The slots of one process, by the wall clock."""

    def __init__(self, interval: float, since: float) -> None:
        """
        :param interval: seconds; 0: no container is ever due.
        :param since: the time from which on slots count.
        """
        self._interval = interval
        self._since = since

    def due_until(self, now: float) -> Callable[[str], bool]:
        """A test of directories of databases: whether the slot of one was since the last call."""
        interval, since = self._interval, self._since
        self._since = now

        def is_due(directory: str) -> bool:
            try:
                number = int(os.path.basename(directory)[:_HASH_DIGITS], 16)
            except ValueError:
                return False  # a copy that an operator made: its totals may be old
            slot = number / _HASHES * interval
            return (now - slot) // interval > (since - slot) // interval

        return is_due if interval else lambda directory: False

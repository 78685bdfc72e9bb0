# SPDX-License-Identifier: Apache-2.0
"""The rate of a job: pieces of work start at equal distances in time."""

from __future__ import annotations

import time


class Pace:
    """A limit of pieces of work in a second; 0: no limit."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._next_start = 0.0  # monotonic

    def wait(self) -> None:
        """Wait until the next piece may start."""
        if not self._per_second:
            return
        now = time.monotonic()
        start = max(now, self._next_start)
        self._next_start = start + 1.0 / self._per_second
        if start > now:
            time.sleep(start - now)

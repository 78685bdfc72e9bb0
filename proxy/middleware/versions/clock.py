# SPDX-License-Identifier: Apache-2.0
"""Timestamps that are ids of versions: two writes of one name may not share one.

Time is cut into windows of ``SLOTS`` ticks of 10 µs. A process uses one tick of each, its slot, and
each window once. So processes of one host, whose numbers follow each other, never make the same
timestamp, nor does one process twice; two hosts only in the same slot of the same window.
"""

from __future__ import annotations

import os
import time

from martlet.words.timestamp import Timestamp

SLOTS = 16


class VersionClock:
    """One for each process, also after a fork. It does no input or output, so that no other green
    thread comes in between.
    """

    def __init__(self) -> None:
        self._last_window = 0

    def now(self) -> Timestamp:
        """The present time, at most ``SLOTS`` ticks off; later than any that was given before."""
        window = max(time.time_ns() // (10_000 * SLOTS), self._last_window + 1)
        self._last_window = window
        return Timestamp.from_ticks(window * SLOTS + os.getpid() % SLOTS)

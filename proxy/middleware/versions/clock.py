# SPDX-License-Identifier: Apache-2.0
"""Unique timestamps for versions: a timestamp is the id of a version.

Time is divided into windows of ``SLOTS`` ticks of 10 µs. A process uses one tick of each window,
its slot, and each window once. So a process never repeats a timestamp, and processes of one host
with successive ids never share one. Two hosts collide only in the same slot of the same window.
"""

from __future__ import annotations

import os
import time

from martlet.words.timestamp import Timestamp

SLOTS = 16


class VersionClock:
    """The clock of a process, also after a fork; no I/O, so green threads cannot interleave."""

    def __init__(self) -> None:
        self._last_window = 0

    def now(self) -> Timestamp:
        """Return the current time, at most ``SLOTS`` ticks off, later than every earlier result."""
        window = max(time.time_ns() // (10_000 * SLOTS), self._last_window + 1)
        self._last_window = window
        return Timestamp.from_ticks(window * SLOTS + os.getpid() % SLOTS)

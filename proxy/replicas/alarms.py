# SPDX-License-Identifier: Apache-2.0
"""Timers for many waits, nearly all of which end before their timeout.

Under eventlet, each acquire of a lock with a timeout creates a timer and discards it again. Here
one thread checks every TICK_SECONDS which waits are over.

This module uses only the standard library, as `fanout` does: under eventlet's monkey patch the
thread is green.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol

#: The longest delay of an alarm, seconds.
TICK_SECONDS = 0.05


class Sleeper(Protocol):
    """A wait. ``alarm_at`` (time.monotonic()) may change at any time."""

    alarm_at: float

    def wake(self) -> None:
        """Called at each tick while ``alarm_at`` is not later than now."""


class Alarms:
    """Wakes each sleeper at its time."""

    def __init__(self) -> None:
        self._sleepers: set[Sleeper] = set()
        self._lock = threading.Lock()  # guards starting the thread
        self._is_running = False

    def add(self, sleeper: Sleeper) -> None:
        """Watch a sleeper until it is removed."""
        self._sleepers.add(sleeper)
        if not self._is_running:
            self._start()

    def remove(self, sleeper: Sleeper) -> None:
        """End the watch: the sleeper needs no wake-up any more."""
        self._sleepers.discard(sleeper)

    def _start(self) -> None:
        with self._lock:
            if self._is_running:
                return
            self._is_running = True
        try:
            threading.Thread(target=self._run, daemon=True).start()
        except BaseException:  # the next add() tries again
            self._is_running = False
            raise

    def _run(self) -> None:
        try:
            while self._sleepers:
                time.sleep(TICK_SECONDS)
                now = time.monotonic()
                for sleeper in self._sleepers.copy():
                    if sleeper.alarm_at <= now:
                        sleeper.wake()
        finally:
            self._is_running = False
        if self._sleepers:  # an add() before that line saw a running thread and started none
            self._start()

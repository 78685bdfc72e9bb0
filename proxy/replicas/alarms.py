# SPDX-License-Identifier: Apache-2.0
"""Timers for many waits that nearly all end before their time.

Under eventlet a lock that is acquired with a timeout makes a timer and throws it away again. Here
one thread looks every TICK_SECONDS at who has waited too long.

Made of the standard library alone, as `fanout` is: under eventlet's monkey patch the thread is
green.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol

#: An alarm may be so much late.
TICK_SECONDS = 0.05


class Sleeper(Protocol):
    """One who waits. ``alarm_at`` (time.monotonic()) may change at any time."""

    alarm_at: float

    def wake(self) -> None:
        """The time has come; called again at each tick until ``alarm_at`` is later."""


class Alarms:
    """Wakes those who sleep."""

    def __init__(self) -> None:
        self._sleepers: set[Sleeper] = set()
        self._lock = threading.Lock()  # guards starting the thread
        self._is_running = False

    def add(self, sleeper: Sleeper) -> None:
        """Look after somebody, until he is removed."""
        self._sleepers.add(sleeper)
        if not self._is_running:
            self._start()

    def remove(self, sleeper: Sleeper) -> None:
        """Somebody has woken up by himself."""
        self._sleepers.discard(sleeper)

    def _start(self) -> None:
        with self._lock:
            if self._is_running:
                return
            self._is_running = True
        try:
            threading.Thread(target=self._run, daemon=True).start()
        except BaseException:  # the next one who comes tries again
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
        if self._sleepers:  # who was added before that has seen us running
            self._start()

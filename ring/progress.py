# SPDX-License-Identifier: Apache-2.0
"""A progress bar for long operations, on a terminal only."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

_WIDTH = 40
_QUIET_SECONDS = 1.0
_STEP_SECONDS = 0.1


class ProgressBar:
    """A progress bar; call it with the done part and the total. ``close`` removes the bar."""

    def __init__(
        self, stream: TextIO, what: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream
        self._what = what
        self._clock = clock
        self._is_terminal = stream.isatty()
        self._next = clock() + _QUIET_SECONDS
        self._width = 0

    def __call__(self, done: int, total: int) -> None:
        """Draw the bar, unless it was drawn a short time ago."""
        now = self._clock()
        if not self._is_terminal or now < self._next:
            return
        self._next = now + _STEP_SECONDS
        part = min(1.0, done / total) if total else 1.0
        line = f"{self._what} [{'#' * int(_WIDTH * part):{_WIDTH}}] {100 * part:3.0f}%"
        self._stream.write(f"\r{line:{self._width}}")
        self._stream.flush()
        self._width = len(line)

    def close(self) -> None:
        """Clear the line of the bar."""
        if self._width:
            self._stream.write(f"\r{'':{self._width}}\r")
            self._stream.flush()

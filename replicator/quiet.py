# SPDX-License-Identifier: Apache-2.0
"""The databases that have not changed since all peers had everything in them.

They need not be opened. A change is detected by the sizes and times of the database and its log.
"""

from __future__ import annotations

import os

from storage.fingerprint import fingerprint

_HASH_STEPS = 1 << 16


class Quiet:
    """Fingerprints of databases that all peers have; about 200 bytes each."""

    def __init__(self, full_interval: float) -> None:
        self._full_interval = full_interval
        self._seen: dict[str, tuple[int, float]] = {}

    def has(self, path: str, now: float) -> bool:
        """Whether the database is unchanged, and was compared within the full interval.

        :raises FileNotFoundError: there is no such database.
        """
        seen = self._seen.get(path)
        if seen is None or now - seen[1] > self._interval_of(path):
            return False
        return fingerprint(path, now) == seen[0]

    def remember(self, path: str, mark: int | None, now: float) -> None:
        """Record that all peers had everything when the fingerprint was ``mark``."""
        if mark is None:
            self._seen.pop(path, None)
        else:
            self._seen[path] = mark, now

    def _interval_of(self, path: str) -> float:
        """From half of the interval to all of it, so that not all databases are due at once."""
        step = int(os.path.basename(path)[:4], 16) / _HASH_STEPS
        return self._full_interval * (1 + step) / 2

# SPDX-License-Identifier: Apache-2.0
"""The sizes of the databases that a pass has read, for ``GET /metrics``."""

from __future__ import annotations

from bisect import bisect_left

#: Upper bounds, bytes; the last class has no bound. A row of a container takes some 250 bytes.
_BOUNDS = (1 << 20, 1 << 23, 1 << 26, 1 << 29, 1 << 32)


class Sizes:
    """Counts by class of size, and the largest size."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_BOUNDS) + 1)
        self._largest = 0

    def add(self, size: int) -> None:
        """Count a database of this many bytes."""
        self._counts[bisect_left(_BOUNDS, size)] += 1
        self._largest = max(self._largest, size)

    def for_recon(self, kind: str) -> dict[str, object]:
        """The number of databases of at most each bound, and the largest, by the keys of recon."""
        total, at_most = 0, {}
        for bound, count in zip((*map(str, _BOUNDS), "+Inf"), self._counts, strict=True):
            total += count
            at_most[bound] = total
        return {f"{kind}_database_sizes": at_most, f"{kind}_database_largest": self._largest}

# SPDX-License-Identifier: Apache-2.0
"""The figures of a pass of the sharder."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass
class SharderFigures:
    """The work of a pass."""

    containers: int = 0  # databases on the devices of this host
    unsharded: int = 0  # of them, read and without shards
    sharding: int = 0  # of them, whose rows are being given to shards
    sharded: int = 0  # of them, whose rows are all in shards
    shards: int = 0  # of them, shards themselves
    found: int = 0  # ranges that were chosen
    created: int = 0  # shards that were created
    given: int = 0  # ranges that were given to shards
    active: int = 0  # ranges that all replicas have given
    rows: int = 0  # rows that were sent to shards
    moved: int = 0  # rows that had come after their range was given, and were sent on
    removed: int = 0  # rows that were removed here
    shrinking: int = 0  # shards that began to shrink into a neighbour
    joined: int = 0  # shards that were joined with a neighbour, or replaced by their own shards
    failures: int = 0  # databases and devices with work to be repeated
    seconds: float = 0.0

    def as_dict(self) -> dict[str, int | float]:
        """The figures by name."""
        return asdict(self)

    def for_recon(self) -> dict[str, int | float]:
        """The figures by the names that swift-recon shows, and by those of martlet."""
        done = max(0, self.containers - self.failures)
        swift = {"attempted": self.containers, "success": done, "failure": self.failures}
        return swift | self.as_dict()

    @property
    def is_to_be_repeated(self) -> bool:
        """Whether something failed."""
        return self.failures > 0

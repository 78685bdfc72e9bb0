# SPDX-License-Identifier: Apache-2.0
"""``[account-replicator]`` and ``[container-replicator]``."""

from __future__ import annotations

from dataclasses import dataclass

from martlet.conf.options import option
from replicator.priority import IONICE_CLASSES


@dataclass(frozen=True)
class ReplicatorOptions:
    """Options of a replicator of databases."""

    interval: float = option(30.0, "Time between two starts of a pass", "s")
    concurrency: int = option(8, "Databases replicated in parallel on each device")
    databases_per_second: float = option(
        50.0, "Most databases of all devices compared in a second; 0: no limit", "1/s"
    )
    full_interval: float = option(
        86400.0, "Time after which an unchanged database is compared nevertheless", "s"
    )
    per_diff: int = option(1000, "Most rows in one request")
    max_diffs: int = option(100, "Most requests with rows for a database and peer in a pass")
    reclaim_age: float = option(
        604800.0, "Age after which a deletion that all replicas know is forgotten", "s"
    )
    handoffs_only: bool = option(False, "Only move databases to their primaries")
    recon_cache_path: str = option(
        "", "Directory for the figures of passes; empty: that of [filter:recon]"
    )
    conn_timeout: float = option(0.5, "Longest wait for a connection to a server", "s")
    node_timeout: float = option(10.0, "Longest wait for a server's answer", "s")
    nice_priority: int | None = option(None, "Priority from -20 to 19; empty: as started")
    ionice_class: str = option("", "Class of the I/O scheduler; empty: as started")
    ionice_priority: int = option(0, "Priority in that class from 0 to 7; 0 is the highest")

    def __post_init__(self) -> None:
        """:raises ValueError: an option is out of its range."""
        for name in ("concurrency", "per_diff", "max_diffs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        for name in ("interval", "full_interval", "reclaim_age", "conn_timeout", "node_timeout"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0")
        if self.databases_per_second < 0:
            raise ValueError("databases_per_second must not be negative")
        if self.nice_priority is not None and not -20 <= self.nice_priority <= 19:
            raise ValueError("nice_priority must be from -20 to 19")
        if self.ionice_class and self.ionice_class not in IONICE_CLASSES:
            raise ValueError(f"ionice_class must be one of {', '.join(IONICE_CLASSES)}")
        if not 0 <= self.ionice_priority <= 7:
            raise ValueError("ionice_priority must be from 0 to 7")

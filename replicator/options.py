# SPDX-License-Identifier: Apache-2.0
"""The options of the jobs on databases, one class for each kind of job."""

from __future__ import annotations

from dataclasses import dataclass

from martlet.conf.options import option
from replicator.priority import IONICE_CLASSES


@dataclass(frozen=True)
class PriorityOptions:
    """The options that each job has."""

    nice_priority: int | None = option(None, "Priority from -20 to 19; empty: as started")
    ionice_class: str = option("", "Class of the I/O scheduler; empty: as started")
    ionice_priority: int = option(0, "Priority in that class from 0 to 7; 0 is the highest")

    def __post_init__(self) -> None:
        """:raises ValueError: an option is out of its range."""
        if self.nice_priority is not None and not -20 <= self.nice_priority <= 19:
            raise ValueError("nice_priority must be from -20 to 19")
        if self.ionice_class and self.ionice_class not in IONICE_CLASSES:
            raise ValueError(f"ionice_class must be one of {', '.join(IONICE_CLASSES)}")
        if not 0 <= self.ionice_priority <= 7:
            raise ValueError("ionice_priority must be from 0 to 7")

    def check_above_zero(self, *names: str) -> None:
        """:raises ValueError: one of these options is 0 or less."""
        for name in names:
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0")


@dataclass(frozen=True)
class ReplicatorOptions(PriorityOptions):
    """``[account-replicator]`` and ``[container-replicator]``."""

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

    def __post_init__(self) -> None:
        """:raises ValueError: an option is out of its range."""
        super().__post_init__()
        for name in ("concurrency", "per_diff", "max_diffs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        self.check_above_zero(
            "interval", "full_interval", "reclaim_age", "conn_timeout", "node_timeout"
        )
        if self.databases_per_second < 0:
            raise ValueError("databases_per_second must not be negative")


@dataclass(frozen=True)
class ReaperOptions(PriorityOptions):
    """``[account-reaper]``."""

    interval: float = option(3600.0, "Time between two starts of a pass", "s")
    concurrency: int = option(25, "Objects deleted in parallel on each device")
    delay_reaping: float = option(0.0, "Age of a deletion after which it is carried out", "s")
    reap_warn_after: float = option(
        2592000.0, "Further age after which an account that is not empty is logged", "s"
    )
    conn_timeout: float = option(0.5, "Longest wait for a connection to a server", "s")
    node_timeout: float = option(10.0, "Longest wait for a server's answer", "s")

    def __post_init__(self) -> None:
        """:raises ValueError: an option is out of its range."""
        super().__post_init__()
        self.check_above_zero("interval", "concurrency", "conn_timeout", "node_timeout")
        for name in ("delay_reaping", "reap_warn_after"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative")


@dataclass(frozen=True)
class AuditorOptions(PriorityOptions):
    """The common options of both auditors."""

    interval: float = option(1800.0, "Time between two starts of a pass", "s")
    bytes_per_second: int = option(
        10_000_000, "Most bytes read on a device in a second; 0: no limit", "B/s"
    )
    recon_cache_path: str = option(
        "", "Directory for the figures of passes; empty: that of [filter:recon]"
    )

    @property
    def databases_per_second(self) -> float:
        """Most databases of a device audited in a second."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        """:raises ValueError: an option is out of its range."""
        super().__post_init__()
        self.check_above_zero("interval")
        if self.bytes_per_second < 0 or self.databases_per_second < 0:
            raise ValueError("a rate must not be negative")


@dataclass(frozen=True)
class AccountAuditorOptions(AuditorOptions):
    """``[account-auditor]``."""

    accounts_per_second: float = option(
        200.0, "Most accounts of a device audited in a second; 0: no limit", "1/s"
    )

    @property
    def databases_per_second(self) -> float:
        """Most databases of a device audited in a second."""
        return self.accounts_per_second


@dataclass(frozen=True)
class ContainerAuditorOptions(AuditorOptions):
    """``[container-auditor]``."""

    containers_per_second: float = option(
        200.0, "Most containers of a device audited in a second; 0: no limit", "1/s"
    )

    @property
    def databases_per_second(self) -> float:
        """Most databases of a device audited in a second."""
        return self.containers_per_second

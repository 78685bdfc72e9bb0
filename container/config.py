# SPDX-License-Identifier: Apache-2.0
"""``[app:container-server]``."""

from __future__ import annotations

from dataclasses import dataclass

from martlet.config import option
from replicator.storage_server import StorageOptions


@dataclass(frozen=True)
class ContainerOptions(StorageOptions):
    """Options of the container server."""

    conn_timeout: float = option(0.5, "Longest wait for a connection to an account server", "s")
    node_timeout: float = option(3.0, "Longest wait for an account server's answer", "s")
    max_update_bytes: int = option(16 * 1024**2, "Largest body of an UPDATE", "bytes")
    report_interval: float = option(1.0, "Pause between reports to the accounts", "s")
    report_concurrency: int = option(8, "Containers reported at once")
    sweep_interval: float = option(300.0, "Pause between sweeps for unreported containers", "s")
    containers_per_second: int = option(500, "Databases looked at in a sweep, at most", "1/s")
    account_suppression_time: float = option(
        60.0, "Pause in the reports to an account that did not take one", "s"
    )

    def __post_init__(self) -> None:
        """:raises ValueError: an option is out of its range."""
        super().__post_init__()
        for name in ("report_concurrency", "containers_per_second", "max_update_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        for name in ("conn_timeout", "node_timeout", "report_interval", "sweep_interval"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0")

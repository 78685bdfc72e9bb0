# SPDX-License-Identifier: Apache-2.0
"""The options of the container server, of container sync and of the reconciler."""

from __future__ import annotations

from dataclasses import dataclass

from martlet.conf.options import option
from storage.storage_server import StorageOptions


@dataclass(frozen=True)
class ContainerOptions(StorageOptions):
    """Options of the container server."""

    max_update_bytes: int = option(16 * 1024**2, "Largest body of an UPDATE", "bytes")
    report_interval: float = option(1.0, "Pause between reports to the accounts", "s")
    report_concurrency: int = option(8, "Containers reported in parallel")
    report_repeat_interval: float = option(
        86400.0, "Time in which every container is reported once even if unchanged; 0: never", "s"
    )
    sweep_interval: float = option(300.0, "Pause between sweeps for unreported containers", "s")
    containers_per_second: int = option(500, "Most databases read in a sweep", "1/s")
    recon_cache_path: str = option(
        "/var/cache/martlet", "Directory for figures of the sweep, for recon"
    )
    account_suppression_time: float = option(
        60.0, "Pause in the reports to an account that did not accept one", "s"
    )

    allowed_sync_hosts: list[str] = option(
        ["127.0.0.1"], "Hosts allowed in full URLs in X-Container-Sync-To"
    )

    def __post_init__(self) -> None:
        """:raises ValueError: an option is out of its range."""
        super().__post_init__()
        for name in ("report_concurrency", "containers_per_second", "max_update_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        for name in ("report_interval", "sweep_interval"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0")
        if self.report_repeat_interval < 0:
            raise ValueError("report_repeat_interval must not be negative")


@dataclass(frozen=True)
class SyncOptions:
    """``[container-sync]`` in the container server's conf, for ``martlet-container-sync``."""

    sync_proxy: list[str] = option([], "HTTP proxies, one chosen at random; empty: none")
    interval: float = option(300.0, "Time between two starts of a pass", "s")
    container_time: float = option(60.0, "Longest work on one container in a pass", "s")
    conn_timeout: float = option(5.0, "Longest wait for a connection to another cluster", "s")
    request_tries: int = option(3, "Most tries of a request that is answered with 5xx")
    sync_row_concurrency: int = option(8, "Rows of a container synced in parallel")
    internal_client_conf_path: str = option(
        "/etc/martlet/internal-client.conf", "Conf of the daemon's own proxy"
    )

    def __post_init__(self) -> None:
        """:raises ValueError: an option is out of its range."""
        for name in ("interval", "container_time", "conn_timeout"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0")
        for name in ("request_tries", "sync_row_concurrency"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")


@dataclass(frozen=True)
class ReconcilerDefaults:
    """``[DEFAULT]`` of the reconciler's conf."""

    swift_dir: str = option("/etc/martlet", "Directory of martlet.conf and the rings")
    log_level: str = option("INFO", "DEBUG, INFO, WARNING, ERROR or CRITICAL")
    log_style: str = option("text", "Form of the log: text, or json for programs")


@dataclass(frozen=True)
class ReconcilerOptions:
    """Options of the container reconciler."""

    interval: float = option(30.0, "Pause between two passes", "s")
    reclaim_age: float = option(
        604800.0, "Age after which an entry is dropped if its object is not found", "s"
    )
    request_tries: int = option(3, "Most tries of a request that is answered with 5xx")
    concurrency: int = option(1, "Entries processed in parallel")
    processes: int = option(0, "Reconcilers that share the queue; 0: only this one")
    process: int = option(0, "Number of this reconciler among them, from 0")
    recon_cache_path: str = option("/var/cache/martlet", "Directory for figures, for recon")
    conn_timeout: float = option(0.5, "Longest wait for a connection to a container server", "s")
    node_timeout: float = option(10.0, "Longest wait for a container server's answer", "s")

    def __post_init__(self) -> None:
        """:raises ValueError: an option is out of its range."""
        for name in ("request_tries", "concurrency"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        for name in ("interval", "reclaim_age", "conn_timeout", "node_timeout"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0")
        if self.processes < 0 or not 0 <= self.process < max(1, self.processes):
            raise ValueError("process must be from 0 to processes - 1")

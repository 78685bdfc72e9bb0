# SPDX-License-Identifier: Apache-2.0
"""``[app:container-server]``, and ``[container-reconciler]`` of the reconciler's own conf."""

from __future__ import annotations

from dataclasses import dataclass

from martlet.conf.options import option
from storage.storage_server import StorageOptions


@dataclass(frozen=True)
class ContainerOptions(StorageOptions):
    """Options of the container server."""

    max_update_bytes: int = option(16 * 1024**2, "Largest body of an UPDATE", "bytes")
    report_interval: float = option(1.0, "Pause between reports to the accounts", "s")
    report_concurrency: int = option(8, "Containers reported at once")
    sweep_interval: float = option(300.0, "Pause between sweeps for unreported containers", "s")
    containers_per_second: int = option(500, "Databases looked at in a sweep, at most", "1/s")
    account_suppression_time: float = option(
        60.0, "Pause in the reports to an account that did not take one", "s"
    )

    allowed_sync_hosts: list[str] = option(
        ["127.0.0.1"], "Hosts that full URLs in X-Container-Sync-To may name"
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


@dataclass(frozen=True)
class SyncOptions:
    """``[container-sync]`` in the container server's conf, for ``martlet-container-sync``."""

    sync_proxy: list[str] = option([], "HTTP proxies to send through, one at random; empty: none")
    interval: float = option(300.0, "Each container is looked at once in so long", "s")
    container_time: float = option(60.0, "Longest work on one container in a pass", "s")
    conn_timeout: float = option(5.0, "Longest wait for a connection to another cluster", "s")
    request_tries: int = option(3, "How often an object is asked for that gets a 5xx")
    sync_row_concurrency: int = option(8, "Rows of a container worked on at once")
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


@dataclass(frozen=True)
class ReconcilerOptions:
    """Options of the container reconciler."""

    interval: float = option(30.0, "Pause between two passes", "s")
    reclaim_age: float = option(
        604800.0, "Age from which on an entry is dropped if its object is nowhere to be found", "s"
    )
    request_tries: int = option(3, "How often a request is sent that gets a 5xx")
    concurrency: int = option(1, "Entries worked on at once")
    processes: int = option(0, "Reconcilers that share the queue; 0: this one does it all")
    process: int = option(0, "Which of them this is, from 0")
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

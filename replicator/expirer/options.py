# SPDX-License-Identifier: Apache-2.0
"""``[object-expirer]``, in a conf of its own or in that of the object server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from martlet.conf.options import ConfigError, option
from martlet.words.expiring import EXPIRER_CONTAINERS_PER_DIVISOR, EXPIRER_DIVISOR
from replicator.options import PriorityOptions

DELAY_PREFIX = "delay_reaping_"


@dataclass(frozen=True)
class ExpirerDefaults:
    """``[DEFAULT]`` of the expirer's own conf."""

    swift_dir: str = option("/etc/martlet", "Directory of martlet.conf and the rings")
    log_level: str = option("INFO", "DEBUG, INFO, WARNING, ERROR or CRITICAL")
    log_style: str = option("text", "Form of the log: text, or json for programs")


@dataclass(frozen=True)
class ExpirerOptions(PriorityOptions):
    """Options of the object expirer, except ``delay_reaping_*``."""

    interval: float = option(300.0, "Time between two starts of a pass", "s")
    report_interval: float = option(300.0, "Time between two lines in the log in a pass", "s")
    concurrency: int = option(8, "Objects deleted in parallel")
    tasks_per_second: float = option(50.0, "Most objects deleted in a second; 0: no limit", "1/s")
    processes: int = option(0, "Expirers that share the queue; 0: only this one")
    process: int = option(0, "Number of this expirer among them, from 0")
    dequeue_from_legacy: bool = option(True, "Whether this expirer does anything")
    reclaim_age: float = option(
        604800.0, "Age after which a task is dropped if its object is not found", "s"
    )
    request_tries: int = option(3, "Most tries of a request that is answered with 5xx")
    expiring_objects_account_name: str = option(
        "expiring_objects", "Account of the queue, without the dot in front of it"
    )
    expiring_objects_container_divisor: int = option(
        EXPIRER_DIVISOR, "Time span of a container of the queue", "s"
    )
    internal_client_conf_path: str = option(
        "/etc/martlet/internal-client.conf",
        "Conf of the expirer's own proxy; a conf with a [pipeline:main] for it needs none",
    )
    recon_cache_path: str = option(
        "/var/cache/martlet", "Directory for the figures of the last pass, for recon"
    )
    conn_timeout: float = option(0.5, "Longest wait for a connection to a container server", "s")
    node_timeout: float = option(10.0, "Longest wait for a container server's answer", "s")

    def __post_init__(self) -> None:
        """:raises ValueError: an option is out of its range."""
        super().__post_init__()
        for name in ("concurrency", "request_tries"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        self.check_above_zero(
            "interval", "report_interval", "reclaim_age", "conn_timeout", "node_timeout"
        )
        if self.tasks_per_second < 0:
            raise ValueError("tasks_per_second must not be negative")
        if self.processes < 0 or not 0 <= self.process < max(1, self.processes):
            raise ValueError("process must be from 0 to processes - 1")
        if self.expiring_objects_container_divisor <= EXPIRER_CONTAINERS_PER_DIVISOR:
            least = EXPIRER_CONTAINERS_PER_DIVISOR
            raise ValueError(f"expiring_objects_container_divisor must be above {least}")
        if not self.expiring_objects_account_name or "/" in self.expiring_objects_account_name:
            raise ValueError("expiring_objects_account_name must be a name without a slash")


@dataclass(frozen=True)
class Delays:
    """The seconds for which expired objects are kept, by account and container."""

    seconds: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def of(self, account: str, container: str) -> float:
        """The delay of a container, else that of its account, else none."""
        if not self.seconds:
            return 0.0
        own = self.seconds.get((account, container))
        return self.seconds.get((account, ""), 0.0) if own is None else own


def read_delays(values: Mapping[str, str], where: str) -> Delays:
    """The delays of a section: ``delay_reaping_ACCOUNT`` and ``delay_reaping_ACCOUNT/CONTAINER``.

    :raises ConfigError: one of them is wrong.
    """
    delays = {}
    for name, text in values.items():
        if not name.startswith(DELAY_PREFIX):
            continue
        account, slash, container = unquote(name.removeprefix(DELAY_PREFIX)).partition("/")
        if not account or (slash and not container) or "/" in container:
            form = f"{DELAY_PREFIX}ACCOUNT or {DELAY_PREFIX}ACCOUNT/CONTAINER"
            raise ConfigError(f"{where}: option {name} is not of the form {form}")
        try:
            seconds = float(text)
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds < float("inf"):
            raise ConfigError(f"{where}: option {name} = {text!r}: expected a number, 0 or above")
        delays[account, container] = seconds
    return Delays(delays)

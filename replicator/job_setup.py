# SPDX-License-Identifier: Apache-2.0
"""The things that a job on databases needs, from the conf of the server beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar

from martlet.conf.cluster import CONF_NAME, ClusterConf
from martlet.conf.options import load_options, read_ini
from martlet.grid.http_login import Logins
from martlet.http.backend_client import BackendClient
from martlet.log import setup_logging
from martlet.recon.cache import DEFAULT_PATH
from martlet.service.server import ServerOptions, StorageServerOptions, read_server_options
from replicator.options import PriorityOptions
from replicator.priority import set_priority
from ring.device_marker import DeviceMarkers
from ring.hashing import HashPath
from ring.ring import Ring
from storage.device_check import DeviceCheck

Options = TypeVar("Options", bound=PriorityOptions)


@dataclass(frozen=True)
class JobSetup:
    """The server, its cluster and its devices."""

    server: ServerOptions
    cluster: ClusterConf
    hash_path: HashPath
    check: DeviceCheck

    @classmethod
    def of(cls, server: ServerOptions) -> JobSetup:
        """The setup of a job beside a server.

        :raises ConfigError: the conf of the cluster cannot be used.
        """
        cluster = ClusterConf.load(server.swift_dir)
        markers = DeviceMarkers(cluster.hash, server.mount_check)
        return cls(
            server,
            cluster,
            HashPath.from_conf(f"{server.swift_dir}/{CONF_NAME}"),
            DeviceCheck(server.devices, server.mount_check, "0", markers),
        )

    def ring(self, name: str) -> Ring:
        """A ring by the name of its file, such as ``account`` or ``object-1``.

        :raises RingError: there is no ring.
        """
        return Ring(f"{self.server.swift_dir}/{name}.ring.gz", self.hash_path)

    def client(self, conn_timeout: float, node_timeout: float) -> BackendClient:
        """A client of the storage servers."""
        grid = self.cluster.grid
        return BackendClient(
            conn_timeout,
            node_timeout,
            start_login=Logins(grid.secrets, grid.plain_http),
            secure=grid.secure(),
        )

    def usable_path(self, device: str) -> str:
        """The directory of a device.

        :raises HTTPException: it is missing, or another one.
        """
        return self.check.usable_path(device, for_writing=False)


def load_job(
    conf_path: Path, section: str, options_class: type[Options]
) -> tuple[JobSetup, Options]:
    """Load the options of a job, and set up its log and its priority.

    An empty ``recon_cache_path`` becomes that of ``[filter:recon]``, which shows the figures.

    :raises ConfigError: the conf cannot be used.
    :raises ValueError: the log level is invalid.
    :raises OSError: the priority cannot be set.
    """
    parser = read_ini(conf_path)
    defaults: Mapping[str, str] = dict(parser.defaults())
    given = dict(parser.items(section)) if parser.has_section(section) else {}
    values = {name: value for name, value in given.items() if name not in defaults}
    if "recon_cache_path" in {field.name for field in fields(options_class)}:
        shown_in = parser.get("filter:recon", "recon_cache_path", fallback=DEFAULT_PATH)
        values["recon_cache_path"] = values.get("recon_cache_path") or shown_in
    server = read_server_options(defaults, f"{conf_path} [DEFAULT]", StorageServerOptions)
    options = load_options(options_class, values, f"{conf_path} [{section}]")
    setup_logging(server.log_level, server.log_style)
    set_priority(options.nice_priority, options.ionice_class, options.ionice_priority)
    return JobSetup.of(server), options

# SPDX-License-Identifier: Apache-2.0
"""The command ``martlet-container-reconciler``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from container.daemon_arguments import daemon_arguments

if TYPE_CHECKING:
    from container.reconciler import Reconciler

NAME = "martlet-container-reconciler"


def main(argv: list[str] | None = None) -> int:
    """Run the reconciler until a stop signal, or once; return the exit status."""
    arguments = daemon_arguments(
        argv,
        NAME,
        "Moves objects in a wrong storage policy to the policy of their container.",
        "the configuration file",
        "/etc/martlet/container-reconciler.conf",
    )
    from martlet.service.green import patch_standard_library

    patch_standard_library()
    from martlet.conf.options import ConfigError
    from ring.errors import RingError

    try:
        reconciler = load_reconciler(arguments.conf)
    except (ConfigError, RingError, ValueError, OSError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 1
    if not arguments.once:
        from storage.reloadable_job import run_until_stopped

        return run_until_stopped(
            reconciler, lambda: load_reconciler(arguments.conf), lambda loaded: loaded.run_forever()
        )
    return run_once(reconciler)


def run_once(reconciler: Reconciler) -> int:
    """Run one pass and return the exit status; print a sentence if the queue cannot be read."""
    from container.misplaced import Failed

    try:
        return 1 if reconciler.run_once()["failed"] else 0
    except Failed as error:
        print(f"{NAME}: the queue cannot be read: {error}", file=sys.stderr)
        return 1


def load_reconciler(conf_path: Path) -> Reconciler:
    """Load the reconciler from a conf; the pipeline in the same conf is its proxy.

    :raises ConfigError: the conf cannot be used.
    :raises RingError: there is no container ring.
    :raises ValueError: the log level is invalid.
    """
    from container.config import ReconcilerDefaults, ReconcilerOptions
    from container.queue_servers import QueueServers
    from container.reconciler import Reconciler
    from container.version_mover import VersionMover
    from martlet.conf.cluster import ClusterConf
    from martlet.conf.options import ConfigError, load_options, read_ini
    from martlet.grid.client import GridClient
    from martlet.grid.http_login import Logins
    from martlet.grid.options import Options
    from martlet.http.backend_client import BackendClient
    from martlet.http.internal_client import InternalClient
    from martlet.log import setup_logging
    from martlet.service.server import load_pipeline
    from ring.ring import load_rings

    parser = read_ini(conf_path)
    section = "container-reconciler"
    if not parser.has_section(section):
        raise ConfigError(f"{conf_path}: there is no section [{section}]")
    defaults = load_options(ReconcilerDefaults, dict(parser.defaults()), f"{conf_path} [DEFAULT]")
    values = {n: v for n, v in parser.items(section) if n not in parser.defaults()}
    options = load_options(ReconcilerOptions, values, f"{conf_path} [{section}]")
    setup_logging(defaults.log_level, defaults.log_style)
    client = InternalClient(load_pipeline(conf_path), "Container-Reconciler", options.request_tries)
    rings = load_rings(defaults.swift_dir, policies=())
    grid = ClusterConf.load(defaults.swift_dir).grid
    backend = BackendClient(
        options.conn_timeout,
        options.node_timeout,
        start_login=Logins(grid.secrets, grid.plain_http),
        secure=grid.secure(),
    )
    objects = GridClient(
        grid.secrets,
        Options("container-reconciler", checksum=grid.checksum),
        options.conn_timeout,
        options.node_timeout,
        secure=grid.secure(),
    )
    mover = VersionMover(rings, objects, options.node_timeout)
    return Reconciler(options, client, QueueServers(rings.container, backend), mover)


if __name__ == "__main__":
    sys.exit(main())

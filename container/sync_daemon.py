# SPDX-License-Identifier: Apache-2.0
"""The command ``martlet-container-sync``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from container.daemon_arguments import daemon_arguments

if TYPE_CHECKING:
    from container.sync import ContainerSync, Held
    from martlet.service.server import ServerOptions
    from ring.ring import Ring

NAME = "martlet-container-sync"


def main(argv: list[str] | None = None) -> int:
    """Run container sync until a stop signal, or once; return the exit status."""
    arguments = daemon_arguments(
        argv,
        NAME,
        "Copies the writes of containers to other clusters.",
        "the container server's configuration file",
        "/etc/martlet/container-server.conf",
    )
    from martlet.service.green import patch_standard_library

    patch_standard_library()
    from martlet.conf.options import ConfigError
    from ring.errors import RingError

    try:
        daemon = load_daemon(arguments.conf)
    except (ConfigError, RingError, ValueError, OSError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 1
    if not arguments.once:
        from storage.reloadable_job import run_until_stopped

        return run_until_stopped(
            daemon, lambda: load_daemon(arguments.conf), lambda loaded: loaded.run_forever()
        )
    return 1 if daemon.run_once() else 0


def load_daemon(conf_path: Path) -> ContainerSync:
    """Load the daemon from a container server's conf.

    :raises ConfigError: the conf, or that of the internal client, cannot be used.
    :raises RingError: there is no container ring.
    :raises ValueError: the log level is invalid.
    """
    from container.config import ContainerOptions, SyncOptions
    from container.sync import ContainerSync
    from container.sync_remote import Remote
    from martlet.conf.cluster import CONF_NAME
    from martlet.conf.options import load_options, read_ini
    from martlet.conf.sync_realms import SyncRealms
    from martlet.http.internal_client import InternalClient
    from martlet.log import setup_logging
    from martlet.service.disk_calls import limits
    from martlet.service.server import load_pipeline, read_server_options
    from ring.hashing import HashPath
    from ring.ring import Ring

    parser = read_ini(conf_path)
    defaults = dict(parser.defaults())

    def section(name: str, ignore: tuple[str, ...] = ()) -> dict[str, str]:
        if not parser.has_section(name):
            return {}
        return {n: v for n, v in parser.items(name) if n not in defaults and n not in ignore}

    server = read_server_options(defaults, f"{conf_path} [DEFAULT]")
    options = load_options(SyncOptions, section("container-sync"), f"{conf_path} [container-sync]")
    own = section("app:container-server", ("use",))
    allowed = load_options(ContainerOptions, own, f"{conf_path} [app:container-server]")
    limits.threads_per_disk = allowed.threads_per_disk
    limits.disk_timeout = allowed.disk_timeout
    setup_logging(server.log_level, server.log_style)
    pipeline = load_pipeline(Path(options.internal_client_conf_path))
    hash_path = HashPath.from_conf(f"{server.swift_dir}/{CONF_NAME}")
    ring = Ring(f"{server.swift_dir}/container.ring.gz", hash_path)
    return ContainerSync(
        options,
        allowed.allowed_sync_hosts,
        SyncRealms(server.swift_dir),
        InternalClient(pipeline, "Container-Sync", options.request_tries),
        Remote(options.conn_timeout, options.sync_proxy),
        hash_path,
        databases_of(server, ring),
    )


def databases_of(server: ServerOptions, ring: Ring) -> Callable[[], Iterator[Held]]:
    """Make a function that yields the primary container databases on the devices of ``server``."""
    from martlet.log import get_logger
    from martlet.service.disk_calls import DiskStuck
    from storage.database_files import entries

    log = get_logger("martlet.container.sync")

    def databases() -> Iterator[Held]:
        for device in entries(server.devices):
            try:
                yield from _databases_on(device, server, ring)
            except DiskStuck as error:
                log.error("pass skips a device: %s", error)

    return databases


def _databases_on(device: str, server: ServerOptions, ring: Ring) -> Iterator[Held]:
    """
    :raises DiskStuck: the device does not answer.
    """
    from container.sync import Held
    from martlet.service.addresses import is_local
    from martlet.service.disk_calls import on_disk
    from storage.database_files import entries

    disk = os.path.join(server.devices, device)
    top = os.path.join(disk, "containers")
    for partition in on_disk(disk, entries, top):
        if not partition.isdigit() or int(partition) >= ring.partition_count:
            continue
        nodes = ring.get_part_nodes(int(partition))
        own = [
            node["index"]
            for node in nodes
            if node["device"] == device
            and node["port"] == server.bind_port
            and is_local(node["ip"])
        ]
        if not own:
            continue  # a hand-off: the primaries sync the container
        for suffix in on_disk(disk, entries, os.path.join(top, partition)):
            for name in on_disk(disk, entries, os.path.join(top, partition, suffix)):
                path = os.path.join(top, partition, suffix, name, f"{name}.db")
                yield Held(path, own[0], len(nodes))


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""The command ``martlet-container-sync``."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from container.daemon_arguments import daemon_arguments

if TYPE_CHECKING:
    from container.sync import ContainerSync, Held
    from martlet.server import ServerOptions
    from ring.ring import Ring

NAME = "martlet-container-sync"


def main(argv: list[str] | None = None) -> int:
    """Sync until told to stop, or once; returns the exit status."""
    arguments = daemon_arguments(
        argv,
        NAME,
        "Brings what is written to containers to other clusters.",
        "the container server's configuration file",
        "/etc/martlet/container-server.conf",
    )
    from martlet.server import patch_standard_library

    patch_standard_library()
    from martlet.config import ConfigError
    from ring.errors import RingError

    try:
        daemon = load_daemon(arguments.conf)
    except (ConfigError, RingError, ValueError, OSError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 1
    if not arguments.once:
        try:
            daemon.run_forever()
        except KeyboardInterrupt:
            return 0
    return 1 if daemon.run_once() else 0


def load_daemon(conf_path: Path) -> ContainerSync:
    """The daemon of a container server's conf.

    :raises ConfigError: the conf, or that of the internal client, cannot be used.
    :raises RingError: there is no container ring.
    :raises ValueError: the log level is none.
    """
    from container.config import ContainerOptions, SyncOptions
    from container.sync import ContainerSync
    from container.sync_remote import Remote
    from martlet.cluster_conf import CONF_NAME
    from martlet.config import load_options, read_ini
    from martlet.internal_client import InternalClient
    from martlet.log import setup_logging
    from martlet.server import load_pipeline, read_server_options
    from martlet.sync_realms import SyncRealms
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
    setup_logging(server.log_level)
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
    """Gives the container databases on the devices of ``server`` that are primary there."""
    from container.sync import Held

    def own_index(device: str, partition: int) -> tuple[int, int] | None:
        nodes = ring.get_part_nodes(partition)
        for node in nodes:
            is_there = node["device"] == device and node["port"] == server.bind_port
            if is_there and _is_local(node["ip"]):
                return node["index"], len(nodes)
        return None

    def databases() -> Iterator[Held]:
        for device in _entries(server.devices):
            top = os.path.join(server.devices, device, "containers")
            for partition in _entries(top):
                if not partition.isdigit() or int(partition) >= ring.partition_count:
                    continue
                index = own_index(device, int(partition))
                if index is None:
                    continue  # a hand-off: the primaries do it
                for suffix in _entries(os.path.join(top, partition)):
                    for name in _entries(os.path.join(top, partition, suffix)):
                        path = os.path.join(top, partition, suffix, name, f"{name}.db")
                        yield Held(path, *index)

    return databases


def _entries(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _is_local(address: str) -> bool:
    """Whether an address is one of this host's: only such can be bound."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())

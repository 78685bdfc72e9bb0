# SPDX-License-Identifier: Apache-2.0
"""The programs of a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cluster.errors import ClusterError
from cluster.layout import Home, Layout
from martlet.service.programs import ProgramMissing, find_object_server, find_script

#: Time for the background jobs of a node to end, seconds.
BACKGROUND_STOP_SECONDS = 2.0
#: The status file in the directory of a node's ``martlet-background`` (doc/background.md).
STATUS_NAME = "background.json"


@dataclass(frozen=True)
class Service:
    """One process to run; ``is_front`` marks the one for clients.

    A supervisor of background jobs has a ``status_path``, and no ``port``.
    """

    name: str
    command: tuple[str, ...]
    port: int | None
    is_front: bool = False
    status_path: Path | None = None

    @property
    def is_background(self) -> bool:
        return self.status_path is not None


def services_of(home: Home, layout: Layout) -> list[Service]:
    """The processes of the cluster: the storage services, the proxy, the background jobs.

    :raises ClusterError: a program is not installed.
    """
    try:
        return [*_storage_services(home, layout), _proxy(home, layout), *_background(home, layout)]
    except ProgramMissing as error:
        raise ClusterError(str(error)) from None


def _storage_services(home: Home, layout: Layout) -> Iterator[Service]:
    programs = {
        "account": find_script("martlet-account-server"),
        "container": find_script("martlet-container-server"),
        "object": find_object_server(),
    }
    for node in layout.nodes:
        for kind, program in programs.items():
            name = service_name(layout, f"{kind}-server", node.name)
            conf = home.node_etc(layout, node) / f"{kind}-server.conf"
            yield Service(name, (program, str(conf)), node.ports[kind])


def _proxy(home: Home, layout: Layout) -> Service:
    command = (find_script("martlet-proxy-server"), str(home.etc / "proxy-server.conf"))
    return Service("proxy-server", command, layout.proxy_port, is_front=True)


def _background(home: Home, layout: Layout) -> Iterator[Service]:
    program = find_script("martlet-background")
    for node in layout.nodes:
        run = home.node_run(node)
        command = (
            program,
            str(home.node_etc(layout, node)),
            f"--run={run}",
            f"--stop-seconds={BACKGROUND_STOP_SECONDS}",
        )
        name = service_name(layout, "background", node.name)
        yield Service(name, command, None, status_path=run / STATUS_NAME)


def service_name(layout: Layout, kind: str, node_name: str) -> str:
    """The name: ``object-server``, or ``object-server-node2`` if there are several nodes."""
    return kind if len(layout.nodes) == 1 else f"{kind}-{node_name}"

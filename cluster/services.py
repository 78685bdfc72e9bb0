# SPDX-License-Identifier: Apache-2.0
"""The programs of a cluster, and the search for them."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from cluster.errors import ClusterError
from cluster.layout import Home, Layout

OBJECT_SERVER = "martlet-object-server"
OBJECT_SERVER_VARIABLE = "MARTLET_OBJECT_SERVER"


@dataclass(frozen=True)
class Service:
    """One process to run; ``is_front`` marks the one for clients."""

    name: str
    command: tuple[str, ...]
    port: int
    is_front: bool = False


def services_of(home: Home, layout: Layout) -> list[Service]:
    """The processes of the cluster, the storage services first.

    :raises ClusterError: a program is not installed.
    """
    programs = {
        "account": find_script("martlet-account-server"),
        "container": find_script("martlet-container-server"),
        "object": find_object_server(),
    }
    services = []
    for node in layout.nodes:
        for kind, program in programs.items():
            name = service_name(layout, kind, node.name)
            conf = home.node_etc(layout, node) / f"{kind}-server.conf"
            services.append(Service(name, (program, str(conf)), node.ports[kind]))
    proxy = (find_script("martlet-proxy-server"), str(home.etc / "proxy-server.conf"))
    return [*services, Service("proxy-server", proxy, layout.proxy_port, is_front=True)]


def service_name(layout: Layout, kind: str, node_name: str) -> str:
    """The name: ``object-server``, or ``object-server-node2`` if there are several nodes."""
    return f"{kind}-server" if len(layout.nodes) == 1 else f"{kind}-server-{node_name}"


def find_script(name: str) -> str:
    """Find a program installed with this package.

    :raises ClusterError: it is not installed.
    """
    beside = Path(sysconfig.get_path("scripts")) / name
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(name)
    if found is None:
        raise ClusterError(f"{name} is not installed in {beside.parent} nor in PATH")
    return found


def find_object_server() -> str:
    """Find the Go server: from MARTLET_OBJECT_SERVER, beside this environment, or in PATH.

    :raises ClusterError: it is in none of these places.
    """
    named = os.environ.get(OBJECT_SERVER_VARIABLE)
    if named:
        if not os.access(named, os.X_OK) or os.path.isdir(named):
            raise ClusterError(f"{OBJECT_SERVER_VARIABLE}={named} is not a program")
        return os.path.abspath(named)
    prefix = Path(sys.prefix)
    for beside in (prefix / "bin" / OBJECT_SERVER, prefix.parent / "build" / "bin" / OBJECT_SERVER):
        if os.access(beside, os.X_OK):
            return str(beside)
    found = shutil.which(OBJECT_SERVER)
    if found is None:
        raise ClusterError(
            f"{OBJECT_SERVER} is not found: build it with `make build`, or set "
            f"{OBJECT_SERVER_VARIABLE}"
        )
    return found

"""The services of one host of the nemesis: `host.py HOME NUMBER`, in the network of the host."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cluster.errors import Stopped
from cluster.layout import Home, Layout
from cluster.processes import Supervisor
from cluster.services import Service, services_of
from martlet.service.green import patch_standard_library


def services_of_host(home: Home, layout: Layout, number: int) -> list[Service]:
    """The services of a node, and a proxy with a conf and a name of its own."""
    node = layout.nodes[number - 1]
    services = []
    for service in services_of(home, layout):
        if service.is_front:
            conf = home.node_etc(layout, node) / "proxy-server.conf"
            command = (service.command[0], str(conf))
            services.append(replace(service, name=proxy_of(number), command=command))
        elif service.name.endswith(f"-{node.name}"):
            services.append(service)
    return services


def proxy_of(number: int) -> str:
    """The name of the proxy on a host."""
    return f"proxy-server-node{number}"


def main() -> None:
    home, number = Home(Path(sys.argv[1])), int(sys.argv[2])
    layout = home.read_layout()
    assert layout is not None
    run(home, services_of_host(home, layout, number))


def run(home: Home, services: Sequence[Service]) -> None:
    """Run the services until a stop signal."""
    patch_standard_library()  # as `martlet up` does: the services are forks
    supervisor = Supervisor(services, home.logs, home.run, lambda text: print(text, flush=True))
    try:
        supervisor.start()
        supervisor.start(is_background=True)
        supervisor.watch()
    except Stopped:
        pass
    finally:
        supervisor.stop()


if __name__ == "__main__":
    main()

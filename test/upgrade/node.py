"""The services of one node of a cluster with two releases: `node.py HOME NUMBER`.

They run through the link of the node. So a service that is started or reloaded after the link has
changed is of the other release, as after an upgrade of a package.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from host import run, services_of_host

from cluster.layout import Home, Layout
from cluster.services import Service


def link_of(home: Home, number: int) -> Path:
    """The link to the tree of the release that the node has."""
    return home.root / "releases" / f"node{number}"


def services_through_link(home: Home, layout: Layout, number: int) -> Iterator[Service]:
    """The services of the node and its proxy, with the programs behind its link."""
    link = link_of(home, number)
    scripts = link / ".venv" / "bin"
    for service in services_of_host(home, layout, number):
        program, *arguments = service.command
        name = Path(program).name
        if name == "martlet-object-server":
            command: tuple[str, ...] = (str(link / "build" / "bin" / name), *arguments)
        else:
            command = (str(scripts / "python"), str(scripts / name), *arguments)
        yield replace(service, command=command)


def without_modules(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for programs of another tree, which must not import from this one."""
    return {name: value for name, value in environment.items() if name != "PYTHONPATH"}


def main() -> None:
    home, number = Home(Path(sys.argv[1])), int(sys.argv[2])
    layout = home.read_layout()
    assert layout is not None
    os.environ.pop("PYTHONPATH", None)  # the services inherit the rest
    run(home, list(services_through_link(home, layout, number)))


if __name__ == "__main__":
    main()

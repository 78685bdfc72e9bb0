"""A cluster on this machine, each node of which has a release of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import node
from prepared_child import prepare_child
from release_tree import version_of
from running_cluster import RunningCluster, await_true, descendants, free_port
from storage_connection import StorageConnection

from cluster.layout import Home, Layout
from cluster.ports import HOST
from cluster.readiness import answers, read_jobs
from cluster.services import Service

NODES = 4
_STOP_SECONDS = 60.0
#: The services that take up a release by a reload, in the order of the Debian package.
_RELOADED = ("proxy-server", "account-server", "container-server")


class MixedCluster(RunningCluster):
    """Four nodes, each with storage services, background jobs and a proxy.

    Confs and rings are those that `martlet up` of the first release writes.
    """

    def __init__(self, home: Path, first: Path) -> None:
        """``first`` is the tree of the release with which all nodes begin."""
        super().__init__(home, "--nodes", str(NODES))
        self._first = first
        self._paths = Home(home)
        self._ports = [self.port, *(free_port() for _ in range(NODES - 1))]
        self._supervisors: list[subprocess.Popen[bytes]] = []
        self._services: dict[int, list[Service]] = {}

    @property
    def nodes(self) -> range:
        return range(1, NODES + 1)

    @property
    def proxies(self) -> list[tuple[str, int]]:
        return [(HOST, port) for port in self._ports]

    @property
    def environment(self) -> dict[str, str]:
        server = self._first / "build" / "bin" / "martlet-object-server"
        mine = {**super().environment, "MARTLET_OBJECT_SERVER": str(server)}
        return node.without_modules(mine)

    def start(self) -> MixedCluster:
        """Write confs and rings by the first release, and start all nodes with it."""
        self.program = str(self._first / ".venv" / "bin" / "martlet")
        super().start()
        super().stop()
        layout = self._paths.read_layout()
        assert layout is not None
        for number in self.nodes:
            self._write_proxy_conf(number, layout)
            self._link(number, self._first)
            services = node.services_through_link(self._paths, layout, number)
            self._services[number] = list(services)
        self._supervisors = [self._start(number) for number in self.nodes]
        for number in self.nodes:
            self._await_all(number, version_of(self._first))
        return self

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop all nodes; return 0, or the status of one that failed."""
        if self.is_running:
            return super().stop(number)
        for supervisor in self._supervisors:
            supervisor.send_signal(number)
        return max((one.wait(_STOP_SECONDS) for one in self._supervisors), key=abs, default=0)

    def change_release(self, number: int, tree: Path) -> None:
        """Give a node another release, as the Debian package does, and wait until all of it runs.

        The proxy, account and container servers reload. The object server and the background jobs
        start anew.
        """
        self._link(number, tree)
        for service in self._services[number]:
            if service.name.startswith(_RELOADED):
                self._reload(service)
        for service in self._services[number]:
            if not service.name.startswith(_RELOADED):
                self._restart(service)
        self._await_all(number, version_of(tree))

    def services(self) -> dict[str, dict[str, Any]]:
        """The state of each service of all nodes, by name."""
        return {
            service.name: {"state": self._state(service)}
            for services in self._services.values()
            for service in services
        }

    def log_of(self, name: str) -> str:
        """All that a service has logged."""
        return (self.home / "logs" / f"{name}.log").read_text(errors="replace")

    def recon(self) -> str:
        """The faults that `martlet recon` reports; empty if there is none."""
        found = self.command("recon", "-d", str(self.home / "etc"))
        return "" if found.returncode == 0 else found.stdout + found.stderr

    def _state(self, service: Service) -> str:
        pid = self.pid_of(service.name)
        if not service.is_background:
            return "ok" if answers(service, pid) else "no answer"
        states = {str(job["state"]) for job in read_jobs(service, pid) or [{"state": "no jobs"}]}
        return "ok" if states == {"running"} else f"{sorted(states)}"

    def _await_all(self, number: int, version: str) -> None:
        """Wait until all services of the node are well, and those of storage have the version."""
        for service in self._services[number]:
            await_true(partial(self._is_well, service, version), f"{service.name} is well")

    def _is_well(self, service: Service, version: str) -> bool:
        try:
            if self._state(service) != "ok":
                return False
            if service.port is None or service.is_front:
                return True
            connection = StorageConnection(self.home, HOST, service.port)
            connection.request("GET", "/recon/version")
            found = json.loads(connection.getresponse().read())["version"]
            connection.close()
        except OSError:  # it starts: there is no pid, or no listener yet
            return False
        return str(found) == version

    def _reload(self, service: Service) -> None:
        """Reload, and wait until other workers serve: the parent keeps its process id."""
        pid = self.pid_of(service.name)
        before = descendants(pid)
        lines = self.log_of(service.name).count(" listening ip=")
        os.kill(pid, signal.SIGHUP)
        await_true(
            lambda: (
                self.log_of(service.name).count(" listening ip=") > lines
                and descendants(pid) - before
            ),
            f"{service.name} reloads",
        )

    def _restart(self, service: Service) -> None:
        pid = self.pid_of(service.name)
        os.kill(pid, signal.SIGTERM)
        await_true(lambda: self.pid_of(service.name) != pid, f"{service.name} starts anew")

    def _link(self, number: int, tree: Path) -> None:
        link = node.link_of(self._paths, number)
        link.parent.mkdir(exist_ok=True)
        new = link.with_suffix(".new")
        new.symlink_to(tree)
        new.rename(link)

    def _write_proxy_conf(self, number: int, layout: Layout) -> None:
        text = (self.home / "etc" / "proxy-server.conf").read_text()
        port = f"bind_port = {self.port}\n"
        assert text.count(port) == 1
        text = text.replace(port, f"bind_port = {self._ports[number - 1]}\n")
        lines = ["workers = 1" if x.startswith("workers = ") else x for x in text.splitlines()]
        own = self._paths.node_etc(layout, layout.nodes[number - 1]) / "proxy-server.conf"
        own.write_text("\n".join(lines) + "\n")

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        link = node.link_of(self._paths, number)
        server = link / "build" / "bin" / "martlet-object-server"
        with (self.home / "logs" / f"node{number}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, node.__file__, str(self.home), str(number)],
                env={**os.environ, "MARTLET_OBJECT_SERVER": str(server)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=prepare_child,
            )

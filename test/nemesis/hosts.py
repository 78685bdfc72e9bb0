"""A cluster on several hosts: each in a network of its own, with its own proxy, confs and rings."""

from __future__ import annotations

import http.client
import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import host
from networks import Networks, address_of, in_network_of
from prepared_child import prepare_child
from running_cluster import RunningCluster, await_true

from cluster.confs import write_confs
from cluster.layout import KINDS, Home, Layout, StorageNode
from cluster.policies import read_cluster_policies
from cluster.ports import HOST
from cluster.readiness import read_jobs
from cluster.services import Service
from ring.builder import RingBuilder
from ring.builder_file import save_builder
from ring.file_format import encode_ring
from ring.files import replace_file

PORTS = {"account": 6202, "container": 6201, "object": 6200}
PROXY_PORT = 8080
_PART_POWER = 10
_STOP_SECONDS = 60.0
_ANSWER_SECONDS = 5.0
#: Files of all hosts, of which each gets a copy with its address and its own rings.
_SHARED_CONFS = ("martlet.conf", "proxy-server.conf", "internal-client.conf")

_CONTAINER_APP = "[app:container-server]\n"
_REPEATED_REPORTS = "sweep_interval = 5.0\nreport_repeat_interval = 30.0\n"


class HostsCluster(RunningCluster):
    """One node on each host. The process must be in networks of its own (``networks``)."""

    def __init__(
        self, home: Path, count: int, in_rings: Sequence[int], skews: Sequence[int]
    ) -> None:
        """
        :param in_rings: the hosts whose devices are in the first rings.
        :param skews: seconds that the clock of each host is ahead. Programs in Go do not see it.
        """
        super().__init__(home, port=PROXY_PORT, background=True)
        self.networks = Networks(count)
        self._in_rings = in_rings
        self._skews = skews
        self._supervisors: list[subprocess.Popen[bytes]] = []
        self._services: dict[int, list[Service]] = {}

    @property
    def hosts(self) -> range:
        return self.networks.hosts

    @property
    def proxies(self) -> list[tuple[str, int]]:
        return [(address_of(number), PROXY_PORT) for number in self.hosts]

    def start(self) -> HostsCluster:
        """Make the networks and the home, start all hosts, and wait until all services are well."""
        home = Home(self.home)
        layout = Layout.create(len(self.hosts))
        nodes = [replace(node, ports=PORTS) for node in layout.nodes]
        layout = replace(layout, nodes=tuple(nodes), proxy_port=PROXY_PORT)
        self.home.mkdir(parents=True, exist_ok=True)
        home.write_layout(layout)
        for directory in home.directories(layout):
            directory.mkdir(parents=True, exist_ok=True)
        write_confs(home, layout, read_cluster_policies(home, []), proxy_workers=1)
        for number in self.hosts:
            self._write_confs_of(number)
            self._services[number] = host.services_of_host(home, layout, number)
        for kind in KINDS:
            self._make_ring(kind, layout.nodes)
        self.push_rings(self.hosts)
        self.networks.make()
        self._supervisors = [self._start(number) for number in self.hosts]
        try:
            await_true(lambda: not self.ill(), "all services answer")
        except AssertionError as error:
            self.stop()
            raise AssertionError(f"{error}: {self.ill()}") from None
        return self

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Stop all hosts and remove their networks; return 0, or the status of one that failed."""
        for supervisor in self._supervisors:
            supervisor.send_signal(number)
        statuses = [supervisor.wait(_STOP_SECONDS) for supervisor in self._supervisors]
        self.networks.remove()
        return max(statuses, key=abs, default=0)

    def push_rings(self, hosts: Iterable[int]) -> None:
        """Copy the rings to some hosts, as an operator does."""
        for kind in KINDS:
            content = self._ring_path(kind).read_bytes()
            for number in hosts:
                replace_file(self.etc_of(number) / self._ring_path(kind).name, content)

    def etc_of(self, number: int) -> Path:
        """The directory with the confs and the rings of a host."""
        return self.home / "etc" / f"node{number}"

    def services(self) -> dict[str, dict[str, Any]]:
        """The state of each service of all hosts, by name."""
        return {
            service.name: {"state": self._state(number, service)}
            for number, services in self._services.items()
            for service in services
        }

    def ill(self) -> list[str]:
        """The services that are not well."""
        return [name for name, entry in self.services().items() if entry["state"] != "ok"]

    def clock_of(self, number: int) -> str:
        """The time of the proxy on a host, as its answers say it."""
        connection = http.client.HTTPConnection(*self.proxies[number - 1], timeout=_ANSWER_SECONDS)
        connection.request("GET", "/healthcheck")
        date = connection.getresponse().headers["Date"]
        connection.close()
        return str(date)

    def _state(self, number: int, service: Service) -> str:
        try:
            if service.is_background:
                jobs = read_jobs(service, self.pid_of(service.name)) or [{"state": "no jobs"}]
                states = {str(job["state"]) for job in jobs}
                return "ok" if states == {"running"} else f"{sorted(states)}"
            address, port = address_of(number), service.port
            connection = http.client.HTTPConnection(address, port, timeout=_ANSWER_SECONDS)
            connection.request("GET", "/healthcheck")
            connection.getresponse().read()
            connection.close()
        except (OSError, ValueError, http.client.HTTPException) as error:
            return repr(error)
        return "ok"

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        with (self.home / "logs" / f"host{number}.log").open("ab") as log:
            return subprocess.Popen(
                [
                    *in_network_of(number),
                    sys.executable,
                    host.__file__,
                    str(self.home),
                    str(number),
                ],
                env=clock_ahead(self._skews[number - 1]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=prepare_child,
            )

    def _write_confs_of(self, number: int) -> None:
        etc = self.home / "etc"
        own = self.etc_of(number)
        for name in _SHARED_CONFS:
            (own / name).write_text((etc / name).read_text())
        for conf in own.glob("*.conf"):
            text = conf.read_text()
            text = text.replace(f"bind_ip = {HOST}\n", f"bind_ip = {address_of(number)}\n")
            text = text.replace(f"swift_dir = {etc}\n", f"swift_dir = {own}\n")
            # As a cluster comes to the right totals of accounts within a day, but faster.
            text = text.replace(_CONTAINER_APP, f"{_CONTAINER_APP}{_REPEATED_REPORTS}")
            conf.write_text(text.replace(f"= {etc}/internal-", f"= {own}/internal-"))

    def _make_ring(self, kind: str, nodes: Sequence[StorageNode]) -> None:
        builder = RingBuilder.create(_PART_POWER, replicas=3.0, min_part_hours=1)
        for number in self._in_rings:
            device = {
                "ip": address_of(number),
                "port": PORTS[kind],
                "region": 1,
                "zone": number,
                "weight": 100.0,
            }
            builder.add_device({**device, "device": nodes[number - 1].devices[0]})
        builder.rebalance(seed="nemesis")
        save_builder(builder, self._ring_path(kind).with_name(f"{kind}.builder"))
        path = self._ring_path(kind)
        replace_file(path, encode_ring(builder.ring_data(), path.name))

    def _ring_path(self, kind: str) -> Path:
        return self.home / "etc" / f"{kind}.ring.gz"


def can_skew() -> bool:
    """Whether the library is installed that lets a program see another time of day."""
    return _faketime() is not None


def clock_ahead(seconds: int) -> dict[str, str]:
    """The environment of a program whose time of day is so many seconds ahead.

    Its time-outs stay as they are. A program in Go reads the clock without the library.
    """
    if not seconds:
        return dict(os.environ)
    clock = {"FAKETIME": f"{seconds:+d}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    return {**os.environ, **clock, "LD_PRELOAD": str(_faketime())}


def _faketime() -> Path | None:
    """Find the library without importing its package, which is for tests within one process."""
    found = importlib.util.find_spec("libfaketime")
    for folder in found.submodule_search_locations or () if found else ():
        library = Path(folder) / "vendor" / "libfaketime" / "src" / "libfaketime.so.1"
        if library.exists():
            return library
    return None

"""An operator raises the part power of a cluster in use, as with OpenStack Swift."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

from running_cluster import RunningCluster, await_true
from swift_api import Account
from uploader import Uploader, content_of

from cluster.ports import HOST
from cluster.rings import PART_POWER
from martlet.service.programs import find_object_server
from ring.ring import load_rings

NAMES_MAX = 160
CLIENTS = 4
NODES = 4
CONTAINER = "raised"
LARGE = os.urandom((2 << 20) + 17)
COLOR = {"X-Object-Meta-Color": "blue"}
BUILDER = str(Path(sysconfig.get_path("scripts")) / "martlet-ring-builder")


class Clients(Uploader):
    """Threads that upload new objects and continuously read acknowledged ones."""

    def __init__(self, port: int) -> None:
        super().__init__(port, CONTAINER, CLIENTS, NAMES_MAX // CLIENTS)
        self.unreadable: list[str] = []
        self._choice = random.Random(1)

    def _between_uploads(self, account: Account) -> None:
        for name in self._choice.choices(self.acknowledged, k=5) if self.acknowledged else ():
            answer = account.call("GET", CONTAINER, name)
            if answer.status != 200 or answer.body != content_of(name):
                self.unreadable.append(f"{name}: {answer.status} {answer.body[:80]!r}")


class Operator:
    """The commands that an operator runs."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.cluster = cluster
        self.etc = cluster.home / "etc"

    def builder(self, *arguments: str) -> str:
        done = subprocess.run(
            [BUILDER, str(self.etc / "object.builder"), *arguments],
            env=self.cluster.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done
        return done.stdout

    def relinkers(self, step: str) -> list[subprocess.Popen[str]]:
        confs = sorted(self.etc.rglob("object-server.conf"))
        assert len(confs) == NODES
        return [
            subprocess.Popen(
                [find_object_server(), "relinker", step, str(conf), "--json"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for conf in confs
        ]

    def relink(self, step: str) -> list[dict[str, Any]]:
        return [outcome(relinker) for relinker in self.relinkers(step)]


def outcome(relinker: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the figures of each device after completion."""
    output, errors = relinker.communicate(timeout=300)
    assert relinker.returncode == 0, (output, errors)
    figures: dict[str, Any] = json.loads(output)["devices"]
    assert figures
    return figures


def powers(answers: list[dict[str, Any]]) -> set[tuple[int, int | None]]:
    return {
        (figures["0"]["part_power"], figures["0"]["next_part_power"])
        for answer in answers
        for figures in answer.values()
    }


def parts_done(cluster: RunningCluster, node: int) -> int:
    port = cluster.storage_port("object", node)
    connection = http.client.HTTPConnection(HOST, port, timeout=60)
    try:
        connection.request("GET", "/recon/relinker")
        devices = json.loads(connection.getresponse().read())["devices"]
        return sum(figures["0"]["parts_done"] for figures in devices.values())
    finally:
        connection.close()


def kill(cluster: RunningCluster, service: str) -> None:
    before = cluster.pid_of(service)
    os.kill(before, signal.SIGKILL)
    await_true(lambda: cluster.pid_of(service) != before, f"a new process for {service}")
    await_true(lambda: cluster.services()[service]["state"] == "ok", f"{service} answers again")


def test_the_session(new_cluster: Callable[..., RunningCluster]) -> None:
    cluster = new_cluster("--nodes", str(NODES)).start()
    operator, account = Operator(cluster), Account(cluster.port)
    assert account.call("PUT", CONTAINER).status == 201
    for name in ("large-1", "large-2", "large-3"):
        assert account.call("PUT", CONTAINER, name, body=LARGE, headers=COLOR).status == 201
    assert account.call("PUT", CONTAINER, "gone", body=b"x").status == 201
    assert account.call("DELETE", CONTAINER, "gone").status == 204

    with Clients(cluster.port).running() as clients:
        await_true(lambda: len(clients.acknowledged) > NAMES_MAX // 2, "uploads")
        assert "next partition power" in operator.builder("prepare_increase_partition_power")
        operator.builder("write_ring")
        assert powers(operator.relink("relink")) == {(PART_POWER, PART_POWER + 1)}
        operator.builder("increase_partition_power")
        operator.builder("write_ring")
        relinkers = operator.relinkers("cleanup")
        await_true(lambda: parts_done(cluster, 2) >= 3, "some partitions are split")
        kill(cluster, "object-server-node2")
        assert powers([outcome(relinker) for relinker in relinkers]) == {(PART_POWER + 1, None)}
        operator.builder("finish_increase_partition_power")
        operator.builder("write_ring")
    kill(cluster, "proxy-server")  # so that it loads the new ring immediately
    assert_all_is_there(cluster, clients)


def assert_all_is_there(cluster: RunningCluster, clients: Clients) -> None:
    assert clients.unreadable == []
    assert len(clients.acknowledged) > NAMES_MAX // 2
    account = Account(cluster.port)
    for name in clients.acknowledged:
        answer = account.call("GET", CONTAINER, name)
        assert (answer.status, answer.body == content_of(name)) == (200, True), name
    for name in ("large-1", "large-2", "large-3"):
        answer = account.call("GET", CONTAINER, name)
        assert (answer.status, answer.body == LARGE) == (200, True), name
        assert answer.headers["x-object-meta-color"] == "blue"
    assert account.call("GET", CONTAINER, "gone").status == 404
    partitions = {
        int(path.name)
        for path in cluster.home.glob("devices/**/bundles/*")
        if path.is_dir() and path.name.isdecimal()
    }
    rings = load_rings(cluster.home / "etc")
    assert rings.object_ring(0).part_power == PART_POWER + 1
    names = [*clients.acknowledged, "large-1", "large-2", "large-3", "gone"]
    account_name = account.path.rsplit("/", 1)[1]
    expected = {rings.object_ring(0).get_nodes(account_name, CONTAINER, n)[0] for n in names}
    assert expected <= partitions

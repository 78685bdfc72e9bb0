"""Rows of objects from Go to a real container server over the grid: in batches, and none is lost.

The container server is killed and stopped under load: rows become pending, and arrive later.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from frozen import frozen
from running_cluster import await_true, descendants
from source_tree import ROOT

from cluster.ports import PortPicker

MODULE = ROOT / "object-server"
PROGRAM = ROOT / "test" / "support" / "rows_peer.go"
PATH = "/d1/0/AUTH_test/gr%C3%B6%C3%9Fe"
CONF = """
[DEFAULT]
bind_port = {port}
devices = {home}/devices
mount_check = false
swift_dir = {home}
[pipeline:main]
pipeline = container-server
[app:container-server]
use = egg:martlet#container
sweep_interval = 3600
"""

CLUSTER = """
[swift-hash]
swift_hash_path_suffix = test
[grid]
grid_secret = none
"""

pytestmark = pytest.mark.skipif(
    not (ROOT / "martlet" / "service" / "gate.py").exists(),
    reason="the services have no grid yet",
)


class ContainerProcess:
    """A container server on a port of its own; it can be killed and started again."""

    def __init__(self, home: Path) -> None:
        self.port = PortPicker(taken=0).keep_or_pick(0)
        self.log = home / "log"
        self._conf = home / "container-server.conf"
        self._conf.write_text(CONF.format(port=self.port, home=home))
        (home / "martlet.conf").write_text(CLUSTER)
        (home / "devices" / "d1").mkdir(parents=True)
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "container.server", str(self._conf)]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(command, stderr=log, cwd=ROOT, start_new_session=True)
        await_true(self._answers, "an answer of the container server")

    def _answers(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def call(self, method: str, query: str = "") -> tuple[int, bytes]:
        """Ask over HTTP."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, f"{PATH}{query}", headers={"X-Timestamp": "1600000000.00000"})
        response = connection.getresponse()
        status, body = response.status, response.read()
        connection.close()
        return status, body

    def names(self) -> list[str]:
        status, body = self.call("GET", "?format=json&limit=10000")
        assert status in (200, 204)
        return [entry["name"] for entry in json.loads(body or b"[]")]

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the server and its worker."""
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.process.wait()

    def lines_of_log(self, words: str) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if words in line]


class Sender:
    """The Go program."""

    def __init__(self, binary: Path, home: Path, port: int, *arguments: str) -> None:
        (home / "pending").mkdir()
        command = [str(binary), "-host", f"127.0.0.1:{port}", "-root", str(home / "pending")]
        self.process = subprocess.Popen(
            [*command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def begin(self, command: str) -> None:
        assert self.process.stdin is not None
        print(command, file=self.process.stdin, flush=True)

    def pending(self) -> int:
        """The answer to the command that was begun."""
        assert self.process.stdout is not None
        return int(self.process.stdout.readline())

    def ask(self, command: str) -> int:
        self.begin(command)
        return self.pending()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Go program, built as if it were a package of the object server."""
    folder = tmp_path_factory.mktemp("rows")
    overlay = folder / "overlay.json"
    place = MODULE / "cmd" / "rows-peer" / "main.go"
    overlay.write_text(json.dumps({"Replace": {str(place): str(PROGRAM)}}))
    binary = folder / "rows-peer"
    command = ["go", "build", "-overlay", str(overlay), "-o", str(binary), "./cmd/rows-peer"]
    subprocess.run(command, cwd=MODULE, check=True)
    return binary


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ContainerProcess]:
    running = ContainerProcess(tmp_path)
    assert running.call("PUT")[0] == 201
    yield running
    running.kill()


@pytest.fixture
def sender(program: Path, tmp_path: Path, server: ContainerProcess) -> Iterator[Sender]:
    yield from sending(program, tmp_path, server)


@pytest.fixture
def impatient(program: Path, tmp_path: Path, server: ContainerProcess) -> Iterator[Sender]:
    """It waits two seconds for an answer, not thirty: a busy machine makes rows late, too."""
    yield from sending(program, tmp_path, server, "-node-timeout", "2s")


def sending(
    program: Path, tmp_path: Path, server: ContainerProcess, *arguments: str
) -> Iterator[Sender]:
    running = Sender(program, tmp_path, server.port, *arguments)
    yield running
    running.process.kill()
    running.process.wait()


def wanted(count: int) -> list[str]:
    return [f"ö/{number:06d}" for number in range(count)]


def test_rows_gather_into_updates(server: ContainerProcess, sender: Sender) -> None:
    count = 3000
    assert sender.ask(f"write 0 {count}") == 0
    assert server.names() == wanted(count)
    updates = server.lines_of_log("request method=UPDATE")
    assert 0 < len(updates) < count / 4
    assert all("status=202" in line for line in updates)


def test_rows_of_a_server_that_is_killed_arrive_later(
    server: ContainerProcess, sender: Sender
) -> None:
    count = 6000
    late = 0
    for _ in range(10):
        sender.begin(f"write 0 {count}")
        await_true(lambda: len(server.names()) > 100, "rows")
        server.kill()
        late = sender.pending()
        server.start()
        if late:
            break  # otherwise all had arrived before the kill; the same rows are sent again
    assert late > 0
    await_true(lambda: sender.ask("pending") == 0, "no row to be pending")
    assert server.names() == wanted(count)


def test_a_server_that_stands_still_does_not_hold_up_writes(
    server: ContainerProcess, impatient: Sender
) -> None:
    impatient.ask("write 0 64")
    await_true(lambda: impatient.ask("pending") == 0, "no row to be pending")
    with frozen(server.process.pid, *descendants(server.process.pid)):
        began = time.monotonic()
        # After the first failure further rows become pending at once, for a second.
        assert impatient.ask("write 64 640") == 640
        assert time.monotonic() - began < 30
    await_true(lambda: impatient.ask("pending") == 0, "no row to be pending")
    assert server.names() == wanted(704)

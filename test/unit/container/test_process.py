"""Real processes: an account and a container server, killed in the midst of batches."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from storage_calls import stamp, write_cluster

from ring.builder import RingBuilder
from ring.file_format import encode_ring
from ring.hashing import HashPath
from ring.ring import Ring

C = "/d1/0/AUTH_test/c"

CONF = """
[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
workers = {workers}
devices = {home}/devices
mount_check = false
swift_dir = {home}
log_level = ERROR
[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:martlet#{kind}
"""


def until(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """The first true value of a condition."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)
    return value


class Service:
    """One server process, on a port that it keeps when it is started again."""

    def __init__(self, home: Path, kind: str, workers: int, filter_section: str = "") -> None:
        """``filter_section`` is of a filter ``x`` that stands before the server."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._module = f"{kind}.server"
        self._conf = home / f"{kind}-server.conf"
        text = CONF.format(home=home, kind=kind, port=self.port, workers=workers)
        if filter_section:
            text = text.replace("pipeline = ", "pipeline = x ") + filter_section
        self._conf.write_text(text)

    def start(self) -> None:
        self.process = subprocess.Popen([sys.executable, "-m", self._module, str(self._conf)])
        until(self._answers)

    def _answers(self) -> bool:
        assert self.process.poll() is None, "the server ended"
        try:
            return self.request("GET", "/")[0] == 400
        except OSError:
            return False

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(20)

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            data = None if body is None else json.dumps(body)
            sent = {"X-Timestamp": stamp(1)} | {k.replace("_", "-"): v for k, v in headers.items()}
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


@pytest.fixture(params=[0, 2])
def workers(request: pytest.FixtureRequest) -> int:
    """In the one process, and in two that write the same databases."""
    return int(request.param)


@pytest.fixture
def container(tmp_path: Path, workers: int) -> Iterator[Service]:
    service = Service(write_cluster(tmp_path), "container", workers)
    service.start()
    yield service
    service.kill()


def rows(names: list[str]) -> list[dict[str, Any]]:
    common = {"created_at": stamp(2), "size": 1, "content_type": "a/b", "etag": "e"}
    return [{"name": name, **common} for name in names]


def listed(service: Service) -> set[str]:
    names: list[str] = []
    while True:
        marker = names[-1] if names else ""
        status, body = service.request("GET", f"{C}?marker={marker}")
        assert status in (200, 204)
        page = body.decode().splitlines()
        if not page:
            return set(names)
        names += page


def test_kill_during_batches_loses_no_acknowledged_row(container: Service) -> None:
    assert container.request("PUT", C)[0] == 201
    acknowledged: list[str] = []
    for run in range(2):
        enough = threading.Event()

        def send(thread: int, run: int = run, enough: threading.Event = enough) -> None:
            for n in range(10**6):
                names = [f"{run}-{thread}-{n}-{i}" for i in range(5)]
                try:
                    status, _ = container.request("UPDATE", C, rows(names))
                except (OSError, http.client.HTTPException):
                    return
                assert status == 202
                acknowledged.extend(names)
                if n == 20:
                    enough.set()

        threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        assert enough.wait(20)
        container.kill()
        for thread in threads:
            thread.join()
        container.start()
        stored = listed(container)
        assert set(acknowledged) <= stored
        batches = {name.rpartition("-")[0] for name in stored}
        assert len(stored) == 5 * len(batches)  # whole batches only
    counted = container.request("GET", f"{C}?format=json&limit=1")
    assert counted[0] == 200
    assert container.stop() == 0


@pytest.mark.parametrize("workers", [0], indirect=True)
def test_reports_reach_the_account(container: Service, tmp_path: Path) -> None:
    """Also those that were due when the server was killed, and the account was out of reach."""
    account = Service(tmp_path, "account", 0)
    builder = RingBuilder.create(4, 1, 0)
    place = {"region": 1, "zone": 1, "ip": "127.0.0.1", "port": account.port}
    builder.add_device({**place, "device": "d2", "weight": 1.0})
    builder.rebalance()
    name = "account.ring.gz"
    (tmp_path / name).write_bytes(encode_ring(builder.ring_data(), name))
    ring = Ring(tmp_path / "account.ring.gz", HashPath(b"", b"test"))
    path = f"/d2/{ring.get_part('AUTH_test')}/AUTH_test"
    container.request("PUT", C)
    container.request("UPDATE", C, rows(["a", "b"]))
    container.kill()
    account.start()
    try:
        assert account.request("PUT", path)[0] == 201
        container.start()
        until(lambda: totals(account, path) == [(2, 2)])
        container.request("UPDATE", C, rows(["c"]))
        until(lambda: totals(account, path) == [(3, 3)])
        assert account.stop() == 0
    finally:
        account.kill()


def totals(account: Service, path: str) -> list[tuple[int, int]]:
    status, body = account.request("GET", f"{path}?format=json")
    assert status == 200
    return [(entry["count"], entry["bytes"]) for entry in json.loads(body)]


@pytest.mark.parametrize("kind", ["account", "container"])
def test_so_many_requests_a_second_for_a_device(tmp_path: Path, kind: str) -> None:
    limits = "[filter:x]\nuse = egg:martlet#backend_ratelimit\n"
    limits += "head_requests_per_device_per_second = 0.001\nrequests_per_device_rate_buffer = 0\n"
    service = Service(write_cluster(tmp_path), kind, 0, limits)
    service.start()
    try:
        path = C if kind == "container" else C.rpartition("/")[0]
        assert [service.request("HEAD", path)[0] for _ in range(3)] == [404, 529, 529]
        assert service.request("GET", path)[0] == 404
    finally:
        service.kill()

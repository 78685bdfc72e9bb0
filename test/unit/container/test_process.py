"""Real processes: an account and a container server, killed in the midst of batches."""

import http.client
import json
import os
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
from running_cluster import free_port
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


def until(condition: Callable[[], Any], seconds: float = 150.0) -> Any:
    """The first true value of a condition.

    A report that a busy account server does not take in time is repeated after a minute.
    """
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)
    return value


class Service:
    """One server process, on a port that it keeps when it is started again."""

    def __init__(self, home: Path, kind: str, workers: int, filter_section: str = "") -> None:
        """``filter_section`` is of a filter ``x`` that stands before the server."""
        self.port = free_port()
        self._module = f"{kind}.server"
        self._conf = home / f"{kind}-server.conf"
        text = CONF.format(home=home, kind=kind, port=self.port, workers=workers)
        if filter_section:
            text = text.replace("pipeline = ", "pipeline = x ") + filter_section
        self._conf.write_text(text)

    def leave_out(self, option: str) -> None:
        """Take an option out of the conf."""
        lines = self._conf.read_text().splitlines(keepends=True)
        self._conf.write_text("".join(x for x in lines if not x.startswith(f"{option} =")))

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
        self.process.wait(60)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(60)

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
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
        assert enough.wait(60)
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


LOST_FILTER = """
import ctypes, ctypes.util, os
from eventlet.patcher import original
from martlet.service.disk_calls import on_disk_later

VFS_MUTEX = 11  # SQLITE_MUTEX_STATIC_VFS1: SQLite holds it while it opens and closes files

class Lose:
    def __init__(self, app):
        self.app = app

    def __call__(self, environ, start_response):
        if environ["PATH_INFO"] != "/lose":
            return self.app(environ, start_response)
        on_disk_later(environ["HTTP_X_DISK"], hang)
        start_response("200 OK", [("Content-Length", "0"), ("X-Pid", str(os.getpid()))])
        return []

def hang():
    # A call to a disk that does not return, and has SQLite's lock of the process.
    sqlite = ctypes.CDLL(ctypes.util.find_library("sqlite3"))
    sqlite.sqlite3_mutex_alloc.restype = ctypes.c_void_p
    sqlite.sqlite3_mutex_enter(ctypes.c_void_p(sqlite.sqlite3_mutex_alloc(VFS_MUTEX)))
    original("time").sleep(3600)

def factory(global_conf, **conf):
    return Lose
"""


def test_a_worker_that_a_disk_makes_useless_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lost_filter.py").write_text(LOST_FILTER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    home = write_cluster(tmp_path)
    section = "[filter:x]\npaste.filter_factory = lost_filter:factory\n"
    service = Service(home, "container", 0, section)
    service.start()
    try:
        assert service.request("PUT", C)[0] == 201
        first = until(lambda: workers_of(service))
        lost = f"{home}/devices/ill"
        assert service.request("POST", "/lose", X_Disk=lost)[0] == 200
        started = time.monotonic()
        # It is not in the databases that are open, but in those that are opened now.
        statuses = {service.request("PUT", f"{C}{number}")[0] for number in range(20)}
        assert statuses <= {201, 503}
        until(lambda: service.request("PUT", f"{C}-new")[0] in (201, 202))
        assert time.monotonic() - started < 60  # the disk would hang for an hour
        until(lambda: not workers_of(service) & first)
        assert len(workers_of(service)) == 1
        assert service.process.poll() is None
        assert service.stop() == 0
    finally:
        service.kill()


def workers_of(service: Service) -> set[str]:
    """The process ids of the server's workers."""
    pid = service.process.pid
    return set(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


@pytest.mark.parametrize("kind", ["account", "container"])
def test_without_an_address_only_this_host_is_served(tmp_path: Path, kind: str) -> None:
    service = Service(write_cluster(tmp_path), kind, 0)
    service.leave_out("bind_ip")
    service.start()
    try:
        # Another address of this host.
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", service.port), timeout=60)
    finally:
        service.kill()

# SPDX-License-Identifier: Apache-2.0
"""A reload: new workers with the new conf, old ones finish, no connection is refused."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from late_waits import late_waits
from sample_service import Service, wait_until

from martlet.service.reload import WORD

Start = Callable[..., Service]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    processes: list[subprocess.Popen[str]] = []

    def starter(workers: int = 2, word: str = "old", at_execution: str = "") -> Service:
        service = Service(tmp_path, workers, at_execution)
        service.write_conf(f"bind_port = {service.port}\nworkers = {workers}\n", word)
        processes.append(service.start(into_log=True))
        wait_until(service.get_pid)
        return service

    yield starter
    for process in processes:
        process.kill()
        process.wait()


def rewrite(service: Service, word: str, workers: int = 2, more: str = "") -> None:
    service.write_conf(f"bind_port = {service.port}\nworkers = {workers}\n{more}", word)


def tell(service: Service, number: signal.Signals) -> None:
    assert service.process is not None
    service.process.send_signal(number)


def await_word(service: Service, word: str) -> None:
    """Until each of several new connections is answered by a worker with that conf."""
    wait_until(lambda: {service.get("/word") for _ in range(8)} == {word})


def await_end(worker: int) -> None:
    wait_until(lambda: not Path(f"/proc/{worker}").exists())


def preload(library: Path) -> str:
    """Code that gives the library to the program that the process executes next."""
    return f"os.environ['LD_PRELOAD'] = {str(library)!r}"


def begin_put(service: Service) -> http.client.HTTPConnection:
    """A request that a worker is at, and that waits for a body of 8 bytes."""
    connection = service.connect()
    connection.putrequest("PUT", "/")
    connection.putheader("Content-Length", "8")
    connection.putheader("Expect", "100-continue")
    connection.endheaders()
    assert b"100 Continue" in connection.sock.recv(64)
    return connection


class Load:
    """Clients that each ask again and again; what goes wrong is counted."""

    def __init__(self, service: Service, keeps: bool) -> None:
        self.outcomes: Counter[str] = Counter()
        self._service = service
        self._keeps = keeps
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(4)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._service.port, timeout=60)
        while not self._is_over.is_set():
            try:
                connection.request("GET", "/word")
                self.outcomes[connection.getresponse().read().decode()] += 1
            except (OSError, http.client.HTTPException) as error:
                self.outcomes[repr(error)] += 1
                connection.close()
            if not self._keeps:
                connection.close()
        connection.close()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1])
@pytest.mark.parametrize("keeps", [False, True], ids=["connect", "keep"])
def test_no_request_is_lost_in_a_reload(start: Start, number: signal.Signals, keeps: bool) -> None:
    service = start()
    with Load(service, keeps) as load:
        for word in ("new", "newer"):
            rewrite(service, word)
            tell(service, number)
            await_word(service, word)
            seen = load.outcomes[word]
            wait_until(lambda word=word, seen=seen: load.outcomes[word] > seen + 100)
    assert set(load.outcomes) == {"old", "new", "newer"}, load.outcomes
    assert f"reload signal={number.name}" in service.log


def test_a_reload_keeps_the_process_and_replaces_the_workers(start: Start) -> None:
    service = start(workers=0)
    assert service.process is not None
    old = service.get_pid()
    rewrite(service, "new", workers=0)
    tell(service, signal.SIGHUP)
    await_word(service, "new")
    new = service.get_pid()
    assert new != old
    assert service.process.poll() is None
    await_end(old)
    os.kill(new, signal.SIGKILL)  # the reloaded process watches over its workers, too
    wait_until(lambda: service.get_pid() != new)
    tell(service, signal.SIGTERM)
    assert service.process.wait(60) == 0
    assert "stopping signal=SIGTERM" in service.log


def test_a_worker_that_serves_just_before_its_parent_waits_is_heard(
    start: Start, tmp_path: Path
) -> None:
    service = start(workers=0, at_execution=preload(late_waits(tmp_path, 500)))
    old = service.get_pid()
    rewrite(service, "new", workers=0)
    tell(service, signal.SIGHUP)
    await_word(service, "new")
    await_end(old)


def test_a_worker_that_is_told_just_before_it_waits_ends(start: Start, tmp_path: Path) -> None:
    service = start(workers=0, at_execution=preload(late_waits(tmp_path, 500)))
    old = service.get_pid()
    with (tmp_path / "sample_app.py").open("a") as app:
        app.write("import martlet.metrics.of_service as metrics\n")
        app.write("metrics._GAUGE_SECONDS = 1000.0\n")  # else this would wake the worker up
    tell(service, signal.SIGHUP)
    await_end(old)
    kept = service.connect()  # its end would wake the worker up
    kept.request("GET", "/")
    worker = int(kept.getresponse().read())
    os.kill(worker, WORD)  # as its parent does
    began = time.monotonic()
    await_end(worker)
    assert time.monotonic() - began < 30, "the hub waits for a minute"
    kept.close()


def test_idle_connections_do_not_hold_an_old_worker(start: Start) -> None:
    service = start(workers=0)
    more = "keepalive_timeout = 1000\nclient_timeout = 1000\n"
    rewrite(service, "patient", workers=0, more=more)
    tell(service, signal.SIGHUP)
    await_word(service, "patient")
    old = service.get_pid()
    idle = [service.connect() for _ in range(3)]
    idle[1].request("GET", "/")
    assert int(idle[1].getresponse().read()) == old
    idle[2].sock.sendall(b"\r\n")  # an empty line may stand before a request
    rewrite(service, "new", workers=0)
    tell(service, signal.SIGHUP)
    await_word(service, "new")
    await_end(old)
    for connection in idle:
        assert connection.sock.recv(1) == b""
        connection.close()


def test_an_old_worker_finishes_its_request(start: Start) -> None:
    service = start()
    under_way = begin_put(service)
    under_way.send(b"half")
    rewrite(service, "new")
    tell(service, signal.SIGHUP)
    await_word(service, "new")
    under_way.send(b"half")
    answer = under_way.getresponse()
    assert (answer.status, answer.read()) == (201, b"8")
    assert answer.getheader("Connection") == "close"


def test_an_old_worker_that_is_told_to_stop_leaves_the_socket(start: Start) -> None:
    service = start(workers=0)
    old = service.get_pid()
    under_way = begin_put(service)
    rewrite(service, "new", workers=0)
    tell(service, signal.SIGHUP)
    await_word(service, "new")
    new = service.get_pid()
    os.kill(old, signal.SIGTERM)
    assert {service.get_pid() for _ in range(20)} == {new}
    under_way.send(b"8 bytes.")
    assert under_way.getresponse().status == 201
    await_end(old)
    assert service.get_pid() == new
    assert "worker died" not in service.log


def test_an_old_worker_that_does_not_finish_is_ended(start: Start) -> None:
    service = start(workers=0)
    rewrite(service, "limited", workers=0, more="stale_worker_timeout = 1\n")
    tell(service, signal.SIGHUP)
    await_word(service, "limited")
    worker = service.get_pid()
    endless = begin_put(service)
    tell(service, signal.SIGHUP)
    await_end(worker)
    endless.close()
    assert service.get("/word") == "limited"


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ("bnid_ip = 1\n", "unknown option 'bnid_ip'"),
        ("no option\n", "not a valid ini file"),
        ("devices = /50%x\n", "'%' must be followed by"),
    ],
)
def test_a_conf_that_cannot_be_used_leaves_the_old_workers(
    start: Start, more: str, sentence: str
) -> None:
    service = start(workers=0)
    worker = service.get_pid()
    rewrite(service, "new", workers=0, more=more)
    tell(service, signal.SIGHUP)
    wait_until(lambda: "reload refused" in service.log)
    assert sentence in service.log
    assert "Traceback" not in service.log
    assert service.get_pid() == worker
    rewrite(service, "repaired", workers=0)
    tell(service, signal.SIGHUP)
    await_word(service, "repaired")


def test_an_address_that_is_taken_leaves_the_old_workers(start: Start) -> None:
    service = start(workers=0)
    worker = service.get_pid()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        service.write_conf(f"bind_port = {port}\n", "new")
        tell(service, signal.SIGHUP)
        wait_until(lambda: "reload refused" in service.log)
    assert f"127.0.0.1:{port} is in use by another program" in service.log
    assert service.get_pid() == worker


def test_a_worker_that_has_something_to_say_does_not_end_the_reload(start: Start) -> None:
    service = start(workers=0)
    rewrite(service, "new", workers=0)
    tell(service, signal.SIGHUP)

    def has_started_over() -> bool:
        tell(service, signal.SIGRTMIN)
        assert service.process is not None
        assert service.process.poll() is None
        return service.log.count("listening") == 2

    wait_until(has_started_over)
    await_word(service, "new")


def test_a_stop_in_the_midst_of_a_reload_is_a_stop(start: Start) -> None:
    service = start(at_execution="os.kill(os.getpid(), signal.SIGTERM)")
    assert service.process is not None
    tell(service, signal.SIGHUP)
    assert service.process.wait(60) == 0
    assert service.log.count("stopping signal=SIGTERM") == 1


def test_a_conf_that_breaks_after_its_check_leaves_the_old_workers(start: Start) -> None:
    service = start(workers=0, at_execution="os.rename(sys.argv[1], sys.argv[1] + '.away')")
    assert service.process is not None
    worker = service.get_pid()
    tell(service, signal.SIGHUP)
    wait_until(lambda: "the workers from before the reload go on" in service.log)
    assert service.get_pid() == worker
    service.write_main()  # for the next but one
    rewrite(service, "new", workers=0)
    tell(service, signal.SIGHUP)
    wait_until(lambda: service.log.count("the workers from before the reload go on") == 2)
    assert service.get_pid() == worker
    rewrite(service, "new", workers=0)
    tell(service, signal.SIGHUP)
    await_word(service, "new")
    tell(service, signal.SIGTERM)
    assert service.process.wait(60) == 0


def test_workers_and_address_follow_the_conf(start: Start) -> None:
    service = start(workers=0)
    rewrite(service, "two", workers=2)
    tell(service, signal.SIGHUP)
    await_word(service, "two")
    wait_until(lambda: len({service.get_pid() for _ in range(20)}) == 2)
    other = Service(service.directory, 0)
    other.write_conf(f"bind_port = {other.port}\nworkers = 2\n", "moved")
    tell(service, signal.SIGHUP)
    await_word(other, "moved")


def test_a_signal_without_a_meaning_is_logged(start: Start) -> None:
    service = start()
    worker = service.get_pid()
    tell(service, signal.SIGUSR2)
    wait_until(lambda: "signal SIGUSR2 has no meaning here" in service.log)
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):  # as `pkill` sends them
        os.kill(worker, number)
    wait_until(lambda: worker in {service.get_pid() for _ in range(20)})
    assert "worker died" not in service.log


def test_a_conf_is_checked_without_a_start(tmp_path: Path) -> None:
    service = Service(tmp_path, 0)
    assert service.check().returncode == 0
    service.write_conf(f"bind_port = {service.port}\nbnid_ip = 1\n")
    done = service.check()
    assert done.returncode == 1
    assert "unknown option 'bnid_ip'" in done.stderr

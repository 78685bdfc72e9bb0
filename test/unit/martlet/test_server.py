"""The prefork server as an operator meets it: real processes, real sockets, real signals."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from sample_service import Service, wait_until

from martlet.service.server import read_server_options


@pytest.fixture(params=[0, 2], ids=["single", "prefork"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path, request.param)
    process = service.start()
    wait_until(service.get_pid)
    yield service
    process.kill()
    process.communicate()


def test_serves_and_stops_within_its_grace(service: Service) -> None:
    assert service.process is not None
    idle = service.connect()
    idle.request("GET", "/")
    worker = int(idle.getresponse().read())
    service.process.send_signal(signal.SIGTERM)
    assert service.process.wait(timeout=60) == 0, "an idle connection must not hold it up"
    wait_until(lambda: not Path(f"/proc/{worker}").exists())
    with pytest.raises(ConnectionRefusedError):
        service.connect()


@pytest.mark.parametrize("workers", [0, 2])
def test_lines_of_requests_come_soon_and_at_the_end(tmp_path: Path, workers: int) -> None:
    service = Service(tmp_path, workers)
    process = service.start(into_log=True)
    try:
        wait_until(service.get_pid)
        for number in range(20):
            service.get(f"/logged-{number}")
        wait_until(lambda: service.log.count("request path=/logged-") == 20)
        service.get("/logged-last")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
        wait_until(lambda: service.log.count("request path=/logged-last\n") == 1)
        assert service.log.count("request path=/logged-") == 21
    finally:
        process.kill()
        process.wait()


def test_too_many_headers_are_refused_and_the_next_request_is_served(service: Service) -> None:
    flood = b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X-A: 1\r\n" * 10_000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", service.port), timeout=60) as client:
        try:
            client.sendall(flood)
        except ConnectionError:
            pass  # it may answer and close before it has read all of it
        assert client.recv(12)[9:12] in (b"400", b"431")
    long_line = b"GET / HTTP/1.1\r\nX-A: " + b"x" * 10_000 + b"\r\n\r\n"
    with socket.create_connection(("127.0.0.1", service.port), timeout=60) as client:
        client.sendall(long_line)
        assert client.recv(12)[9:12] in (b"400", b"431")
    assert service.get_pid()


def test_every_worker_gets_connections(tmp_path: Path) -> None:
    service = Service(tmp_path, 2)
    process = service.start()
    try:
        workers: set[int] = set()

        def is_known_by_both() -> bool:
            workers.add(service.get_pid())
            return len(workers) == 2

        wait_until(is_known_by_both)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_worker_is_replaced(tmp_path: Path, number: signal.Signals) -> None:
    service = Service(tmp_path, 1)
    process = service.start()
    try:
        wait_until(service.get_pid)
        first = service.get_pid()
        os.kill(first, number)
        wait_until(lambda: service.get_pid() != first)
        worker = service.get_pid()
        process.kill()
        wait_until(lambda: not Path(f"/proc/{worker}").exists())
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("defaults", "sentence"),
    [
        ("", "bind_port must be set"),
        ("bind_port = 1x\n", "expected a whole number"),
        ("bind_port = 1\nbnid_ip = 1\n", "unknown option 'bnid_ip'"),
        ("bind_port = 1\nlog_level = LOUD\n", "log_level must be one of"),
        ("bind_port = 1\nstale_worker_timeout = 0\n", "stale_worker_timeout must be above 0"),
        ("bind_port = 1\ndevices = /50%x\n", "'%' must be followed by"),
    ],
)
def test_a_bad_conf_is_one_sentence(tmp_path: Path, defaults: str, sentence: str) -> None:
    service = Service(tmp_path, 0)
    service.write_conf(defaults)
    _, errors = service.start().communicate(timeout=60)
    assert sentence in errors
    assert "Traceback" not in errors
    assert service.process is not None
    assert service.process.returncode == 1


def test_a_conf_may_lie_anywhere(tmp_path: Path) -> None:
    directory = tmp_path / "a b#c"
    directory.mkdir()
    service = Service(directory, 0)
    process = service.start()
    try:
        wait_until(service.get_pid)
    finally:
        process.kill()
        process.communicate()


def test_the_longest_request_line_is_an_option_of_its_own(tmp_path: Path) -> None:
    service = Service(tmp_path, 0)
    with (tmp_path / "martlet.conf").open("a") as conf:
        conf.write("[swift-constraints]\nmax_request_line = 100\n")
    process = service.start()
    try:
        wait_until(service.get_pid)
        for length, status in ((60, 200), (100, 414)):
            connection = service.connect()
            connection.request("GET", "/" + "x" * length, headers={"X-Long": "x" * 200})
            assert connection.getresponse().status == status
            connection.close()
    finally:
        process.kill()
        process.communicate()


def test_a_port_in_use_is_one_sentence(service: Service) -> None:
    first = service.process
    _, errors = service.start().communicate(timeout=60)
    assert f"127.0.0.1:{service.port} is in use by another program" in errors
    assert "Traceback" not in errors
    service.process = first


def test_a_worker_for_each_processor() -> None:
    options = read_server_options({"bind_port": "1", "workers": "auto"}, "x.conf [DEFAULT]")
    assert options.workers == len(os.sched_getaffinity(0))

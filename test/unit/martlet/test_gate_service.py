# SPDX-License-Identifier: Apache-2.0
"""A storage service with real processes: its gate, the grid in each worker, and new secrets."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from grid_peers import patient_client
from sample_service import Service, wait_until

from martlet.grid.client import GridClient
from martlet.grid.connecting import connect
from martlet.grid.errors import GridRefusedError
from martlet.grid.http_login import Logins
from martlet.grid.options import Options
from martlet.grid.plain_http import PlainHttp
from martlet.grid.secrets import Secrets
from martlet.http.backend_client import BackendClient, BackendError, ConnectError

OLD = "the-old-secret-of-this-cluster-0123456789"
NEW = "the-new-secret-of-this-cluster-0123456789"

Start = Callable[..., Service]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    services: list[Service] = []

    def starter(workers: int = 1, grid: str = f"grid_secret = {OLD}\n") -> Service:
        service = Service(tmp_path, workers, kind="StorageServerOptions")
        service.write_grid(grid)
        services.append(service)
        service.start(into_log=True)
        wait_until(lambda: service.get("/healthcheck"))
        return service

    yield starter
    for service in services:
        assert service.process is not None
        service.process.kill()
        service.process.wait()


def word(service: Service, secrets: Secrets, path: str = "/") -> str:
    """The answer over a new connection."""
    client = BackendClient(30, 30, start_login=Logins(secrets, PlainHttp()))
    try:
        return client.request(("127.0.0.1", service.port), "GET", path, {}).body().decode()
    finally:
        client.close()


def is_refused(service: Service, secrets: Secrets) -> bool:
    try:
        word(service, secrets)
    except ConnectError:
        return True
    return False


def pid_over_grid(service: Service, client: GridClient) -> int:
    return int(client.request(("127.0.0.1", service.port), "pid", b""))


def reload(service: Service) -> None:
    assert service.process is not None
    service.process.send_signal(signal.SIGHUP)


def test_without_a_secret_in_its_conf_it_does_not_start(start: Start, tmp_path: Path) -> None:
    service = Service(tmp_path, 1, kind="StorageServerOptions")
    service.write_grid("")
    process = service.start()
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert "martlet.conf [grid]: grid_secret must be set" in errors
    assert service.check().returncode == 1


def test_a_pipeline_without_any_filter_has_the_gate(start: Start) -> None:
    service = start()
    assert "set the same grid_secret in martlet.conf" in service.get("/")
    assert int(word(service, Secrets.parse(OLD))) > 0
    assert is_refused(service, Secrets.parse(NEW))
    assert service.log.count("event=grid_request_refused kind=unproved remote_addr=127.0.0.1") == 1


def test_each_worker_serves_the_grid(start: Start) -> None:
    service = start(workers=2)
    clients: list[GridClient] = []

    def pids() -> set[int]:
        # The kernel chooses the worker of a connection.
        clients.append(patient_client(Secrets.parse(OLD)))
        return {pid_over_grid(service, client) for client in clients}

    wait_until(lambda: len(pids()) == 2)
    for client in clients:
        client.close()


def test_the_figures_are_those_of_all_workers(start: Start) -> None:
    service = start(workers=2)
    clients: list[GridClient] = []

    def figures() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(service.get("/recon/grid"))
        return found

    def has(**wanted: int) -> bool:
        found = figures()
        return all(found[name] == value for name, value in wanted.items())

    def pids() -> set[int]:
        clients.append(patient_client(Secrets.parse(OLD)))
        return {pid_over_grid(service, client) for client in clients}

    def requests() -> int:
        return sum(range(1, len(clients) + 1))  # each call of pids asks all once

    wait_until(lambda: len(pids()) == 2)
    count = len(clients)
    # Each connection to the service may reach either worker.
    wait_until(lambda: has(workers=2, connections=count, handshakes=count, served=requests()))
    assert "grid_secret" in service.get("/")  # refused, without a proof
    stranger = patient_client(Secrets.parse(NEW))
    with pytest.raises(GridRefusedError):
        pid_over_grid(service, stranger)
    wait_until(lambda: has(refused_http=1))
    wait_until(lambda: figures()["refused"]["by_peer"] == 1)
    victim = pid_over_grid(service, clients[0])
    wait_until(lambda: has(served=requests() + 1))
    os.kill(victim, signal.SIGKILL)
    # The next worker takes its place, and what the other one counted stays.
    wait_until(lambda: has(workers=2) and figures()["connections"] < count)
    assert figures()["served"] == requests() + 1
    assert figures()["refused"]["by_peer"] == 1
    for client in clients:
        client.close()


def test_checksums_are_an_option(start: Start) -> None:
    service = start(grid=f"grid_secret = {OLD}\ngrid_checksum = yes\n")
    found = connect(("127.0.0.1", service.port), Secrets.parse(OLD), Options(), 30, 30)
    found.sock.close()
    assert found.peer.checksum
    assert found.peer.name == f"martlet-sample-server 127.0.0.1:{service.port}"


def test_a_worker_that_retires_ends_the_requests_under_way(start: Start, tmp_path: Path) -> None:
    service = start()
    client = patient_client(Secrets.parse(OLD))
    first = pid_over_grid(service, client)
    path = tmp_path / "go_on"
    answers: list[Any] = []

    def ask() -> None:
        address = ("127.0.0.1", service.port)
        try:
            answers.append(int(client.request(address, "await", str(path).encode())))
        except BackendError as error:
            answers.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    wait_until(Path(f"{path}.begun").exists)
    reload(service)
    wait_until(lambda: pid_over_grid(service, client) != first)  # over another connection
    assert not answers
    path.touch()
    thread.join(60)
    assert answers == [first]
    wait_until(lambda: not os.path.exists(f"/proc/{first}"))
    client.close()


def test_a_reload_takes_up_other_secrets(start: Start) -> None:
    service = start()
    old, new = Secrets.parse(OLD), Secrets.parse(NEW)
    assert is_refused(service, new)
    service.write_grid(f"grid_secret = {NEW}\ngrid_secret_previous = {OLD}\n")
    reload(service)
    wait_until(lambda: not is_refused(service, new))
    assert not is_refused(service, old)
    service.write_grid(f"grid_secret = {NEW}\n")
    reload(service)
    wait_until(lambda: is_refused(service, old))
    assert not is_refused(service, new)


def test_a_reload_with_a_bad_secret_changes_nothing(start: Start) -> None:
    service = start()
    service.write_grid("grid_secret = short\n")
    reload(service)
    wait_until(lambda: "reload refused" in service.log)
    assert "grid_secret has 5 characters; it needs 32 or more" in service.log
    assert not is_refused(service, Secrets.parse(OLD))

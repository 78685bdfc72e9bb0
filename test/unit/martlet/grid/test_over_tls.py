# SPDX-License-Identifier: Apache-2.0
"""The grid over TLS: all that holds without it, and refusals of its own."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import Authority
from green_pytest import assert_pass_over_tls
from grid_peers import ServiceProcess, patient_client, service
from running_cluster import await_true

from martlet.grid.client import FanOut
from martlet.grid.errors import GridRefusedError, may_have_run
from martlet.http.backend_client import ConnectError, ConnectionLost, ConnectTimeout
from martlet.tls.contexts import ClientTls

HERE = Path(__file__).parent


@pytest.mark.parametrize("is_green", [False, True], ids=["threads", "green"])
def test_all_that_holds_without_tls(tmp_path: Path, is_green: bool) -> None:
    assert_pass_over_tls(tmp_path, HERE / "test_connections.py", is_green=is_green)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def server(authority: Authority) -> Iterator[ServiceProcess]:
    made = authority.issue("127.0.0.1")
    with service("--certificate", str(made.certificate), "--key", str(made.key)) as running:
        yield running


def await_refused(server: ServiceProcess, authority: Authority, count: int) -> None:
    """Wait until the server has refused so many connections."""
    client = patient_client(secure=ClientTls(authority.path))

    def refused() -> int:
        counters = json.loads(client.request(server.address, "counters", b""))
        return int(counters["tls_refused"])

    await_true(lambda: refused() == count, "the refusal")
    client.close()


def test_a_server_of_another_authority_is_refused(
    server: ServiceProcess, authority: Authority, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "other")
    client = patient_client(secure=ClientTls(other.path))
    with pytest.raises(ConnectError, match="its certificate is not accepted: ") as caught:
        client.request(server.address, "echo", b"")
    assert not may_have_run(caught.value)
    await_refused(server, authority, 1)
    log = server.end()
    assert "event=tls_refused remote_addr=127.0.0.1 reason='tlsv1 alert unknown ca'" in log
    assert "Traceback" not in log


def test_neither_side_falls_back_to_plain_text(
    server: ServiceProcess, authority: Authority
) -> None:
    with pytest.raises(GridRefusedError, match=r"503.*This server speaks TLS"):
        patient_client().request(server.address, "echo", b"")
    with service() as plain, pytest.raises(ConnectError, match="no TLS: wrong version number"):
        patient_client(secure=ClientTls(authority.path)).request(plain.address, "echo", b"")
    await_refused(server, authority, 1)
    log = server.end()
    assert "event=tls_refused remote_addr=127.0.0.1 reason='http request'" in log
    assert "Traceback" not in log


def test_the_handshake_of_a_server_that_hangs_has_an_end(authority: Authority) -> None:
    client = patient_client(secure=ClientTls(authority.path), handshake_timeout=0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with pytest.raises(ConnectTimeout):
            client.request(silent.getsockname(), "echo", b"")
        assert time.monotonic() - began < 30


def test_the_end_of_a_connection_has_a_reason(server: ServiceProcess, authority: Authority) -> None:
    client = patient_client(secure=ClientTls(authority.path))
    client.connection(server.address)
    fan_out = FanOut(client)
    fan_out.send(server.address, "never", b"")
    server.send(signal.SIGKILL)
    [call] = fan_out.wait(1)
    assert isinstance(call.error, ConnectionLost)
    assert call.error.reason in (
        "connection lost: the connection was cut off",
        "connection lost: Connection reset by peer",
    )

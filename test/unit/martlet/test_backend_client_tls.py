# SPDX-License-Identifier: Apache-2.0
"""The backend client over TLS, against the HTTP server over TLS. Also run under eventlet."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import Authority, Certificate
from running_cluster import await_true
from tls_pairs import in_parallel
from wsgi_calls import LIMITS, serving, show_request

from martlet.http import backend_client
from martlet.http.backend_client import (
    Address,
    BackendClient,
    BackendUpload,
    ConnectError,
    ConnectionLost,
    ReadTimeout,
)
from martlet.tls.contexts import ClientTls, server_context
from martlet.tls.tls_socket import TlsSocket
from martlet.wsgi.listener import HttpServer
from martlet.wsgi.tls_door import TlsDoor

HEADERS = {"X-Timestamp": "1"}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def issued(authority: Authority) -> Certificate:
    return authority.issue("127.0.0.1")


@pytest.fixture
def server(issued: Certificate) -> Iterator[tuple[Address, HttpServer]]:
    context = server_context(issued.certificate, issued.key)
    door = TlsDoor(context, logging.getLogger("test.wsgi"))
    with serving(show_request, LIMITS, door=door) as (port, server):
        yield ("127.0.0.1", port), server


@pytest.fixture
def client(authority: Authority) -> Iterator[BackendClient]:
    client = BackendClient(30.0, 30.0, secure=ClientTls(authority.path))
    yield client
    client.close()


def put(client: BackendClient, address: Address, body: bytes) -> bytes:
    response = client.request(address, "PUT", "/d/0/a", HEADERS, body)
    assert response.status == 200
    return response.body()


@pytest.mark.parametrize("size", [0, 10, 65536, 1 << 20])
def test_requests_share_a_connection(
    client: BackendClient, server: tuple[Address, HttpServer], size: int
) -> None:
    address, listener = server
    body = b"x" * size
    for _ in range(3):
        assert put(client, address, body).endswith(b"body=" + body)
    assert len(listener._connections) == 1


def test_uploads(client: BackendClient, server: tuple[Address, HttpServer]) -> None:
    address, _ = server
    for length in (None, 3 * 70_000):
        upload: BackendUpload = client.start_upload(address, "PUT", "/d/0/a", HEADERS, length)
        assert upload.expect_continue() is None
        for _ in range(3):
            upload.send(b"x" * 70_000)
        assert upload.finish().body().endswith(b"body=" + b"x" * 210_000)


def test_an_aborted_upload_is_incomplete(
    client: BackendClient, server: tuple[Address, HttpServer]
) -> None:
    address, listener = server
    upload = client.start_upload(address, "PUT", "/d/0/a", HEADERS, 100)
    assert upload.expect_continue() is None
    upload.send(b"x")
    upload.abort()
    await_true(lambda: not listener._connections, "the end of the connection")


def test_a_pooled_connection_that_the_server_has_closed(
    client: BackendClient, issued: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = server_context(issued.certificate, issued.key)
    door = TlsDoor(context, logging.getLogger("test.wsgi"))
    with serving(door=door) as (port, listener):
        address = ("127.0.0.1", port)
        for seconds in (0.0, 60.0):  # the client looks, or sends and learns it then
            monkeypatch.setattr(backend_client, "FRESH_SECONDS", seconds)
            put(client, address, b"1")
            [connection] = listener._connections
            connection.sock.shutdown(socket.SHUT_RDWR)
            await_true(lambda: not listener._connections, "the end of the connection")
            exchange = client.start(address, "PUT", "/d/0/a", HEADERS, b"2")
            assert exchange.response().body().endswith(b"body=2")


def test_a_server_of_another_authority(server: tuple[Address, HttpServer], tmp_path: Path) -> None:
    client = BackendClient(30.0, 30.0, secure=ClientTls(Authority(tmp_path, "other").path))
    reason = "no TLS: its certificate is not accepted: unable to get local issuer certificate"
    with pytest.raises(ConnectError, match=reason):
        put(client, server[0], b"body")
    with pytest.raises(ConnectError, match=reason):  # more than may wait for the handshake
        put(client, server[0], bytes(1 << 20))
    upload = client.start_upload(server[0], "PUT", "/d/0/a", HEADERS, None)
    with pytest.raises(ConnectError, match=reason):
        upload.expect_continue()


def test_a_server_that_hangs_delays_no_other(
    client: BackendClient, server: tuple[Address, HttpServer]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        hanging = client.start(silent.getsockname(), "PUT", "/d/0/a", HEADERS, b"1")
        other = client.start(server[0], "PUT", "/d/0/a", HEADERS, b"2")
        for _ in range(2):
            with pytest.raises(ReadTimeout):
                hanging.response(0.05)
        assert other.response().status == 200
        assert time.monotonic() - began < 20
        hanging.abort()


def test_a_slow_handshake_is_waited_for(client: BackendClient, issued: Certificate) -> None:
    context = server_context(issued.certificate, issued.key)
    go = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            sock, _ = listener.accept()
            go.wait(30)
            peer = TlsSocket(sock, context)
            assert peer.recv(65536).startswith(b"PUT /d/0/a HTTP/1.1\r\n")
            peer.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
            peer.recv(1)
            peer.close()

        with in_parallel(serve) as raised:
            exchange = client.start(listener.getsockname(), "PUT", "/d/0/a", HEADERS, b"1")
            with pytest.raises(ReadTimeout):
                exchange.response(0.05)
            go.set()
            assert exchange.response().status == 201
            client.close()
        assert raised == []


def test_an_answer_that_is_cut_off(client: BackendClient, issued: Certificate) -> None:
    """Without a length, only the farewell tells that the body is complete."""
    context = server_context(issued.certificate, issued.key)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve(has_farewell: bool) -> None:
            sock, _ = listener.accept()
            peer = TlsSocket(sock, context)
            peer.recv(65536)
            peer.sendall(b"HTTP/1.1 200 OK\r\n\r\nbody")
            if has_farewell:
                peer.close()
            sock.close()

        with in_parallel(lambda: serve(True)):
            response = client.request(listener.getsockname(), "GET", "/d/0/a", HEADERS)
            assert response.body() == b"body"
        with in_parallel(lambda: serve(False)):
            response = client.request(listener.getsockname(), "GET", "/d/0/a", HEADERS)
            with pytest.raises(ConnectionLost, match="cut off"):
                response.body()

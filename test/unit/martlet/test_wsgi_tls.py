# SPDX-License-Identifier: Apache-2.0
"""The HTTP server over TLS: clients that break off, are silent or speak no TLS harm no other."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import Authority
from running_cluster import await_true
from wsgi_calls import exchange, serving, show_request, status_of

from martlet.http.environ import Environ, StartResponse
from martlet.http.response import Response
from martlet.tls.contexts import server_context
from martlet.wsgi.listener import HttpServer
from martlet.wsgi.tls_door import TlsDoor

REQUEST = b"PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def make_door(authority: Authority, seconds: float = 30.0) -> TlsDoor:
    made = authority.issue("127.0.0.1")
    context = server_context(made.certificate, made.key)
    return TlsDoor(context, logging.getLogger("test.wsgi"), seconds)


@pytest.fixture
def secure(authority: Authority) -> Iterator[tuple[int, HttpServer]]:
    with serving(door=make_door(authority)) as serves:
        yield serves


@contextlib.contextmanager
def client(authority: Authority, port: int) -> Iterator[ssl.SSLSocket]:
    context = ssl.create_default_context(cafile=authority.path)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1", suppress_ragged_eofs=False) as sock,
    ):
        yield sock


def read_answer(sock: ssl.SSLSocket) -> bytes:
    answer = b""
    while not answer.endswith((b"body=body", b"body=" + bytes(300_000))):
        piece = sock.recv(65536)
        assert piece, answer[:1000]
        answer += piece
    return answer


def test_requests_over_one_connection(authority: Authority, secure: tuple[int, HttpServer]) -> None:
    port, _ = secure
    with client(authority, port) as sock:
        for _ in range(2):
            sock.sendall(REQUEST)
            assert status_of(read_answer(sock)) == 200
        head = b"PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 300000\r\nConnection: close\r\n\r\n"
        sock.sendall(head + bytes(300_000))
        assert status_of(read_answer(sock)) == 200
        assert sock.recv(100) == b""  # with a farewell


def test_the_scheme(authority: Authority) -> None:
    schemes = []

    def app(environ: Environ, start_response: StartResponse) -> object:
        schemes.append(environ["wsgi.url_scheme"])
        return Response(200, body=b"body=body")(environ, start_response)

    with serving(app, door=make_door(authority)) as (port, _), client(authority, port) as sock:
        sock.sendall(REQUEST)
        read_answer(sock)
    assert schemes == ["https"]


def test_silent_clients_delay_no_other(authority: Authority) -> None:
    with (
        serving(door=make_door(authority, 0.5), requests=1) as (port, server),
        contextlib.ExitStack() as stack,
    ):
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            for _ in range(20)
        ]
        with client(authority, port) as sock:
            sock.sendall(REQUEST)
            assert status_of(read_answer(sock)) == 200
        for one in silent:
            assert one.recv(100) == b""  # at the end of their time
        assert server.door is not None
        assert server.door.refused == 20


def test_a_crowd_of_silent_clients_makes_room(authority: Authority) -> None:
    with serving(door=make_door(authority), connections=3) as (port, _):
        silent = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(3)]
        with client(authority, port) as sock:
            sock.sendall(REQUEST)
            assert status_of(read_answer(sock)) == 200
        assert silent[0].recv(100) == b""
        for one in silent:
            one.close()


def test_a_stop_does_not_wait_for_handshakes(authority: Authority) -> None:
    with serving(door=make_door(authority)) as (port, server):
        silent = socket.create_connection(("127.0.0.1", port), timeout=30)
        await_true(lambda: bool(server._idle), "the connection")
    assert silent.recv(100) == b""
    silent.close()


def test_plain_text_gets_an_answer_that_is_none_of_the_application(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    door = make_door(authority)
    with serving(door=door) as (port, _):
        for _ in range(2):
            answer = exchange(port, REQUEST)
            assert status_of(answer) == 503
            assert answer.endswith(b"\r\n\r\nThis server speaks TLS (https).\n")
            assert b"Content-Length: 32\r\n" in answer
        exchange(port, b"\x16\x03\x01\x00\x04nix!")
    assert door.refused == 3
    [record] = caplog.records
    wanted = "event=tls_refused remote_addr=127.0.0.1 reason='http request' not_logged=0"
    assert record.getMessage() == wanted


def test_seldom_a_line_of_the_log(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    now = 1000.0
    made = authority.issue("127.0.0.1")
    context = server_context(made.certificate, made.key)
    door = TlsDoor(context, logging.getLogger("test.wsgi"), clock=lambda: now)
    with serving(door=door) as (port, _):
        for _ in range(3):
            exchange(port, b"nix")
        now += 11
        exchange(port, b"nix")
    assert [record.getMessage()[-12:] for record in caplog.records] == [
        "not_logged=0",
        "not_logged=2",
    ]


def test_a_client_that_breaks_off_is_no_error_of_the_server(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    met: list[BaseException] = []

    def app(environ: Environ, start_response: StartResponse) -> object:
        try:
            environ["wsgi.input"].read()
        except OSError as error:
            met.append(error)
            raise
        return show_request(environ, start_response)

    with serving(app, door=make_door(authority)) as (port, server):
        for garbage in (b"", b"\x17\x03\x03\x00\x20" + bytes(32)):
            with client(authority, port) as sock:
                sock.sendall(REQUEST[:-1])
                plain = socket.socket(fileno=sock.detach())
                plain.settimeout(30)
                plain.sendall(garbage)
                plain.shutdown(socket.SHUT_WR)
                while plain.recv(65536):
                    pass
                plain.close()
        await_true(lambda: not server._connections, "the end of the connections")
    assert len(met) == 2
    assert all(isinstance(error, ConnectionError) for error in met)
    assert [record for record in caplog.records if record.exc_info] == []

"""Idle, slow and many connections keep no other request waiting."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterable

import pytest
from running_cluster import await_true
from wsgi_calls import exchange, serving, status_of

from martlet.http.environ import Environ, StartResponse
from martlet.http.response import Response
from martlet.wsgi.limits import Limits


def test_the_wait_for_a_request_does_not_limit_the_answer() -> None:
    times: list[float | None] = []

    def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        (connection,) = server._connections
        times.append(connection.sock.gettimeout())
        return Response(200)(environ, start_response)

    with (
        serving(app, Limits(client_timeout=80.0, idle_timeout=40.0)) as (port, server),
        socket.create_connection(("127.0.0.1", port), timeout=10) as client,
    ):
        for _ in range(2):
            client.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            assert status_of(client.recv(1000)) == 200
    assert times == [80.0, 80.0]


def test_dripping_heads_end_in_time() -> None:
    with serving(limits=Limits(client_timeout=1.0, idle_timeout=1.0)) as (port, server):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.setblocking(False)
            for _ in range(100):
                try:
                    client.send(b"G")
                    if client.recv(100) == b"":
                        break
                except BlockingIOError:
                    pass
                except ConnectionError:
                    break  # a byte that came before the end, and was not read, makes it a reset
                time.sleep(0.1)  # a byte each: no wait for a byte takes too long
            else:
                raise AssertionError("the connection is still open after 10 s")
        await_true(lambda: not server._connections, "the end of the connection")


def test_idle_connections_take_no_places() -> None:
    with serving(requests=1, connections=50) as (port, _), contextlib.ExitStack() as stack:
        for number in range(100):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            client.sendall(b"GET / HTTP/1.1\r\nHo"[: number % 10])
        assert status_of(exchange(port, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")) == 200


def test_the_oldest_idle_connection_goes_first() -> None:
    with serving(connections=3) as (port, server), contextlib.ExitStack() as stack:
        clients = []
        for number in range(3):
            clients.append(stack.enter_context(socket.create_connection(("127.0.0.1", port))))
            await_true(lambda n=number: len(server._idle) == n + 1, "an idle connection")
        clients[0].sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert status_of(clients[0].recv(1000)) == 200
        await_true(lambda: len(server._idle) == 3, "the first one idle again")
        assert status_of(exchange(port, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")) == 200
        clients[1].settimeout(10)
        assert clients[1].recv(10) == b""
        for client in (clients[0], clients[2]):
            client.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            assert status_of(client.recv(1000)) == 200


def test_a_request_beyond_the_places_waits() -> None:
    started, go = threading.Event(), threading.Event()

    def wait(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/slow":
            started.set()
            assert go.wait(10)
        return Response(200, body=b"ok")(environ, start_response)

    with serving(wait, requests=1) as (port, _):
        slow = socket.create_connection(("127.0.0.1", port), timeout=10)
        slow.sendall(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
        assert started.wait(10)
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            client.settimeout(0.2)
            with pytest.raises(TimeoutError):
                client.recv(1)
            go.set()
            client.settimeout(10)
            assert status_of(client.recv(1000)) == 200
        slow.close()


def test_stop_ends_idle_connections_and_lets_requests_end() -> None:
    started, go = threading.Event(), threading.Event()

    def wait(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        started.set()
        assert go.wait(10)
        return Response(200, body=b"ok")(environ, start_response)

    with serving(wait) as (port, server):
        idle = socket.create_connection(("127.0.0.1", port), timeout=10)
        busy = socket.create_connection(("127.0.0.1", port), timeout=10)
        busy.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert started.wait(10)
        await_true(lambda: len(server._idle) == 1, "an idle connection")
        server.stop()
        assert idle.recv(10) == b""
        go.set()
        answer = busy.recv(1000)
        assert status_of(answer) == 200
        assert b"Connection: close" in answer
        idle.close()
        busy.close()

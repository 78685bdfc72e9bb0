"""Idle, slow and many connections keep no other request waiting."""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
import threading
import time
from collections.abc import Iterable

import pytest
from running_cluster import await_true
from wsgi_calls import exchange, serving, show_request, status_of

from martlet.http.environ import Environ, StartResponse
from martlet.http.response import Response
from martlet.service.disk_calls import is_green
from martlet.wsgi import listener
from martlet.wsgi.limits import Limits
from martlet.wsgi.listener import HttpServer


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


GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
PATIENT = Limits(client_timeout=100.0, idle_timeout=100.0)


def leave(server: HttpServer) -> None:
    """Let the server leave its connections to another one, as in a reload."""
    server.retire(keeps_idle=True)
    server._listener.shutdown(socket.SHUT_RDWR)  # wakes up ``accept``


def test_a_reload_ends_idle_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "LAST_REQUEST_SECONDS", 0.3)
    with serving(limits=PATIENT) as (port, server), contextlib.ExitStack() as stack:
        for sent in (b"", GET, b"\r\n", b"\r", GET + b"\r"):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            client.sendall(sent)
            if sent.startswith(GET):
                assert status_of(client.recv(1000)) == 200
        await_true(lambda: len(server._idle) == 5, "idle connections")
        leave(server)
        await_true(lambda: not server._connections, "the end of all connections")


def test_a_connection_idle_for_long_ends_at_once_in_a_reload() -> None:
    with (
        serving(limits=PATIENT) as (port, server),
        socket.create_connection(("127.0.0.1", port), timeout=10) as client,
    ):
        await_true(lambda: bool(server._idle), "an idle connection")
        (connection,) = server._idle
        server._idle[connection] -= listener.LAST_REQUEST_SECONDS
        server.retire(keeps_idle=True)
        assert client.recv(1) == b""


def test_a_connection_has_time_for_a_request_in_a_reload() -> None:
    with serving(limits=PATIENT) as (port, server), contextlib.ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            for _ in range(2)
        ]
        clients[0].sendall(GET)
        assert status_of(clients[0].recv(1000)) == 200
        await_true(lambda: len(server._idle) == 2, "idle connections")
        leave(server)
        for client in clients:
            client.sendall(GET)
            answer = client.recv(1000)
            assert status_of(answer) == 200
            assert b"Connection: close" in answer


def test_a_connection_that_becomes_idle_after_a_reload_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener, "LAST_REQUEST_SECONDS", 0.3)
    go = threading.Event()

    def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [("Content-Length", "2")])
        yield b"a"
        assert go.wait(10)
        yield b"b"

    with (
        serving(app, PATIENT) as (port, server),
        socket.create_connection(("127.0.0.1", port), timeout=10) as client,
    ):
        client.sendall(GET)
        answer = client.recv(1000)
        assert b"Connection: close" not in answer
        leave(server)
        time.sleep(1)
        go.set()
        while not answer.endswith(b"ab"):
            answer += client.recv(1000)
        assert client.recv(1) == b""
        await_true(lambda: not server._connections, "the end of the connection")


def test_a_request_that_comes_at_the_end_of_an_idle_connection_is_not_cut_off() -> None:
    class Waiting:
        """A connection whose thread has not run since a request came."""

        is_between_requests = True

        def __init__(self, sock: socket.socket) -> None:
            self.sock = sock

    with serving() as (_, server):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.settimeout(10)
            theirs.settimeout(10)
            with server.idling(Waiting(ours)):  # type: ignore[arg-type]
                theirs.sendall(GET)
                server.retire()
            ours.sendall(b"answer")
            assert ours.recv(1000) == GET
            assert theirs.recv(1000) == b"answer"


@pytest.mark.skipif(not is_green(), reason="a thread cannot be woken up")
def test_a_server_without_descriptors_leaves_in_order() -> None:
    import eventlet

    class Full:
        """A listener of a process whose descriptors are all in use."""

        def accept(self) -> tuple[socket.socket, object]:
            raise OSError(errno.EMFILE, "too many open files")

        def shutdown(self, how: int) -> None:
            """Nothing waits."""

    logger = logging.getLogger("test.wsgi")
    server = HttpServer(Full(), show_request, PATIENT, logger, eventlet.spawn_n, 1, 1)
    acceptor = eventlet.spawn(server.run)
    eventlet.sleep(0.02)
    server.retire(keeps_idle=True)
    eventlet.kill(acceptor, OSError(errno.EBADF, "this worker retires"))
    acceptor.wait()

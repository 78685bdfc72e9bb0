"""A connection leaves HTTP after an answer 101, and its successor learns that the server stops."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterable

from running_cluster import await_true
from wsgi_calls import serving, status_of

from martlet.http.environ import HAND_OVER, Environ, StartResponse, WSGIApp
from martlet.http.response import Response


class Shouter:
    """A protocol that sends everything back in capitals, until it is retired."""

    def __init__(self) -> None:
        self.retired = 0
        self.sock: socket.socket | None = None
        self.is_running = threading.Event()

    def run(self, sock: socket.socket, received: bytes) -> None:
        self.sock = sock
        self.is_running.set()
        while received or (received := sock.recv(1000)):
            sock.sendall(received.upper())
            received = b""

    def retire(self) -> None:
        self.retired += 1
        if self.sock is not None:
            with contextlib.suppress(OSError):  # it may have ended
                self.sock.shutdown(socket.SHUT_RDWR)


def upgrading(shouter: Shouter) -> WSGIApp:
    def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/shout":
            return Response(200)(environ, start_response)
        environ[HAND_OVER](shouter)
        start_response("101 Switching Protocols", [("Connection", "Upgrade"), ("Upgrade", "shout")])
        return []

    return app


REQUEST = b"GET /shout HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n"


def read_head(client: socket.socket) -> bytes:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += client.recv(1)
    return head


def test_the_bytes_after_the_head_belong_to_the_successor() -> None:
    shouter = Shouter()
    with (
        serving(upgrading(shouter)) as (port, server),
        socket.create_connection(("127.0.0.1", port), timeout=10) as client,
    ):
        client.sendall(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
        assert status_of(client.recv(1000)) == 200
        client.sendall(REQUEST + b"early ")
        head = read_head(client)
        assert status_of(head) == 101
        assert b"Connection: Upgrade\r\n" in head
        assert b"close" not in head
        assert b"Content-Length" not in head
        assert b"Transfer-Encoding" not in head
        assert client.recv(6, socket.MSG_WAITALL) == b"EARLY "
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert client.recv(18, socket.MSG_WAITALL) == b"GET / HTTP/1.1\r\n\r\n"
        client.shutdown(socket.SHUT_WR)
        assert client.recv(10) == b""
        await_true(lambda: not server._connections, "the end of the connection")
    assert shouter.retired == 0


def test_a_successor_takes_no_place_of_requests() -> None:
    shouter = Shouter()
    with (
        serving(upgrading(shouter), requests=1) as (port, _),
        socket.create_connection(("127.0.0.1", port), timeout=10) as client,
        socket.create_connection(("127.0.0.1", port), timeout=10) as other,
    ):
        client.sendall(REQUEST)
        assert shouter.is_running.wait(10)
        other.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert status_of(other.recv(1000)) == 200


def test_a_successor_is_retired_when_the_server_stops() -> None:
    shouter = Shouter()
    with (
        serving(upgrading(shouter)) as (port, server),
        socket.create_connection(("127.0.0.1", port), timeout=10) as client,
    ):
        client.sendall(REQUEST)
        assert shouter.is_running.wait(10)
        server.retire(keeps_idle=True)
        read_head(client)
        assert client.recv(10) == b""
    assert shouter.retired >= 1


def test_a_successor_is_retired_at_once_if_the_server_stops_already() -> None:
    shouter = Shouter()
    with (
        serving(upgrading(shouter)) as (port, server),
        socket.create_connection(("127.0.0.1", port), timeout=10) as client,
    ):
        client.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert status_of(client.recv(1000)) == 200
        server.retire(keeps_idle=True)
        assert shouter.retired == 0
        client.sendall(REQUEST)
        read_head(client)
        assert shouter.retired == 1
        client.shutdown(socket.SHUT_WR)
        assert client.recv(10) == b""

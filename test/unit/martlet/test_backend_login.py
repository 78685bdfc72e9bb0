"""The backend client logs in on each new connection before it sends a request."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

import pytest
from scripted_server import Peer, Serve, scripted_servers

from martlet.http.backend_client import (
    Address,
    BackendClient,
    ConnectError,
    ConnectionLost,
    ReadTimeout,
)
from martlet.http.backend_login import LoginError

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-One: 1\r\n\r\nok"


@pytest.fixture
def serve() -> Iterator[Serve]:
    with scripted_servers() as start:
        yield start


class TwoSteps:
    """A login of two requests, which a server accepts with the header X-Yes."""

    def __init__(self) -> None:
        self.answered = 0

    def start(self) -> bytes:
        return b"GET /1 HTTP/1.1\r\n\r\n"

    def answer(self, status: int, headers: Mapping[str, str]) -> bytes:
        if status != 200 or "x-yes" not in headers:
            raise LoginError(f"it answers {status}")
        self.answered += 1
        return b"GET /2 HTTP/1.1\r\n\r\n" if self.answered == 1 else b""


class LoginClient(BackendClient):
    def __init__(self, node_timeout: float = 20) -> None:
        super().__init__(20, node_timeout, start_login=self.start_login)
        self.started: list[tuple[Address, str]] = []

    def start_login(self, address: Address, ip: str) -> TwoSteps:
        self.started.append((address, ip))
        return TwoSteps()


YES = b"HTTP/1.1 200 OK\r\nX-Yes: 1\r\nContent-Length: 0\r\n\r\n"


def accept_login(peer: Peer) -> None:
    for number in (b"1", b"2"):
        assert peer.read_head() == b"GET /%b HTTP/1.1" % number
        peer.sock.sendall(YES)


class TestLogin:
    def test_the_request_follows_it(self, serve: Serve) -> None:
        def script(peer: Peer) -> None:
            accept_login(peer)
            for _ in range(2):  # the login counts for the whole connection
                assert peer.read_head().startswith(b"PUT /x ")
                assert peer.read(3) == b"abc"
                peer.sock.sendall(OK)

        client = LoginClient()
        server = serve(script)
        for _ in range(2):
            assert client.request(server.address, "PUT", "/x", {}, b"abc").body() == b"ok"
        assert client.started == [(server.address, "127.0.0.1")]
        client.close()

    def test_a_slow_one_does_not_delay_the_caller(self, serve: Serve) -> None:
        go_on = threading.Event()

        def script(peer: Peer) -> None:
            assert go_on.wait(60)
            accept_login(peer)
            assert peer.read_head().startswith(b"GET /x ")
            peer.sock.sendall(OK)

        client = LoginClient()
        exchange = client.start(serve(script).address, "GET", "/x", {})  # does not wait
        for _ in range(2):
            with pytest.raises(ReadTimeout):
                exchange.response(0.01)
        go_on.set()
        assert exchange.response().body() == b"ok"
        client.close()

    def test_it_is_repeated_for_a_new_connection(self, serve: Serve) -> None:
        def close_it(peer: Peer) -> None:
            accept_login(peer)
            peer.read_head()
            peer.sock.sendall(OK)
            peer.read_head()  # the second request, without an answer

        def serve_it(peer: Peer) -> None:
            accept_login(peer)
            assert peer.read_head().startswith(b"GET /b ")
            peer.sock.sendall(OK)

        client = LoginClient()
        server = serve(close_it, serve_it)
        assert client.request(server.address, "GET", "/a", {}).body() == b"ok"
        exchange = client.start(server.address, "GET", "/b", {})
        assert exchange.response().body() == b"ok"
        assert exchange.was_resent
        assert len(client.started) == 2
        client.close()

    @pytest.mark.parametrize(
        ("answer", "reason"),
        [
            (b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", "it answers 404"),
            (YES.replace(b"X-Yes", b"X-No"), "it answers 200"),
            (YES.replace(b": 0", b": 99999") + bytes(99999), "too long"),
        ],
    )
    def test_without_it_no_request_is_sent(self, serve: Serve, answer: bytes, reason: str) -> None:
        heads = []

        def script(peer: Peer) -> None:
            heads.append(peer.read_head())
            peer.sock.sendall(answer)
            heads.append(peer.read_to_end())

        client = LoginClient()
        server = serve(script)
        exchange = client.start(server.address, "GET", "/x", {})
        with pytest.raises(ConnectError, match=f"no login: .*{reason}"):
            exchange.response()
        server.thread.join(60)
        assert heads == [b"GET /1 HTTP/1.1", b""]

    @pytest.mark.parametrize("answer", [b"", YES.replace(b"X-Yes", b"Connection: close\r\nX-Yes")])
    @pytest.mark.parametrize("step", [0, 1])
    def test_a_connection_lost_in_it_is_opened_again_once(
        self, serve: Serve, answer: bytes, step: int
    ) -> None:
        def close_it(peer: Peer) -> None:
            for _ in range(step):
                peer.read_head()
                peer.sock.sendall(YES)
            peer.read_head()
            peer.sock.sendall(answer)

        def serve_it(peer: Peer) -> None:
            accept_login(peer)
            peer.read_head()
            peer.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            assert peer.read(3) == b"abc"
            peer.sock.sendall(OK)

        client = LoginClient()
        server = serve(close_it, serve_it, close_it, close_it)
        upload = client.start_upload(server.address, "PUT", "/x", {}, 3)
        assert upload.expect_continue() is None
        upload.send(b"abc")
        response = upload.finish()
        assert not upload.was_resent  # the request was sent once
        assert response.body() == b"ok"
        client.close()
        exchange = client.start(server.address, "GET", "/x", {})
        with pytest.raises(ConnectionLost):
            exchange.response()
        assert len(client.started) == 4

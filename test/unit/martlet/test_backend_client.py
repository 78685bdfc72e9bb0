"""The backend client against servers that answer, dawdle, hang up and talk nonsense."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from patience import patiently
from scripted_server import Peer, Serve, scripted_servers

from martlet.http.backend_client import (
    BackendClient,
    BadResponse,
    ConnectError,
    ConnectionLost,
    ReadTimeout,
    encode_headers,
)

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-One: 1\r\n\r\nok"


@pytest.fixture
def client() -> Iterator[BackendClient]:
    client = BackendClient(conn_timeout=20, node_timeout=20)
    yield client
    client.close()


@pytest.fixture
def serve(client: BackendClient) -> Iterator[Serve]:
    with scripted_servers() as start:
        yield start
        client.close()


def answer_all(answer: bytes) -> Callable[[Peer], None]:
    def script(peer: Peer) -> None:
        while peer.read_head():
            peer.sock.sendall(answer)

    return script


def test_answer_has_status_headers_and_body(client: BackendClient, serve: Serve) -> None:
    server = serve(answer_all(OK))
    response = client.request(server.address, "GET", "/sda/1/a", {"X-Timestamp": "1"})
    assert (response.status, response.reason) == (200, "OK")
    assert response.headers == {"content-length": "2", "x-one": "1"}
    assert response.body() == b"ok"


def test_request_is_one_message_with_length_and_host(client: BackendClient, serve: Serve) -> None:
    seen: list[bytes] = []

    def script(peer: Peer) -> None:
        seen.append(peer.sock.recv(65536))
        peer.sock.sendall(OK)

    server = serve(script)
    client.request(server.address, "PUT", "/d/0/a/c/o", {"X-A": "é"}, b"body").close()
    host = f"127.0.0.1:{server.address[1]}".encode()
    assert seen == [
        b"PUT /d/0/a/c/o HTTP/1.1\r\nHost: " + host + b"\r\nX-A: \xe9\r\n"
        b"Content-Length: 4\r\n\r\nbody"
    ]


def test_connection_is_used_again(client: BackendClient, serve: Serve) -> None:
    server = serve(answer_all(OK))
    for _ in range(3):
        assert client.request(server.address, "GET", "/", {}).body() == b"ok"
    client.request(server.address, "GET", "/", {}).close()
    assert server.accepted == 1


def test_head_has_no_body_and_keeps_the_connection(client: BackendClient, serve: Serve) -> None:
    server = serve(answer_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4096\r\n\r\n"))
    for _ in range(2):
        response = client.request(server.address, "HEAD", "/", {})
        assert response.headers["content-length"] == "4096"
        assert response.body() == b""
    assert server.accepted == 1


def test_idle_connection_closed_by_the_server_is_noticed(
    client: BackendClient, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("martlet.http.backend_client.FRESH_SECONDS", 0.0)
    closed = threading.Event()

    def once(peer: Peer) -> None:
        peer.read_head()
        peer.sock.sendall(OK)
        peer.sock.shutdown(socket.SHUT_RDWR)
        closed.set()

    server = serve(once, answer_all(OK))
    assert client.request(server.address, "GET", "/", {}).body() == b"ok"
    assert closed.wait(10)
    assert client.take(server.address) is None
    assert client.request(server.address, "GET", "/", {}).body() == b"ok"
    assert server.accepted == 2


def test_pooled_connection_lost_after_sending_is_tried_once_more(
    client: BackendClient, serve: Serve
) -> None:
    def hang_up_at_second_request(peer: Peer) -> None:
        peer.read_head()
        peer.sock.sendall(OK)
        peer.read_head()

    bodies: list[bytes] = []

    def answer(peer: Peer) -> None:
        peer.read_head()
        bodies.append(peer.read(4))
        peer.sock.sendall(OK)

    server = serve(hang_up_at_second_request, answer)
    client.request(server.address, "GET", "/", {}).close()
    assert client.request(server.address, "PUT", "/", {}, b"data").body() == b"ok"
    assert bodies == [b"data"]


def test_fresh_connection_lost_is_an_error(client: BackendClient, serve: Serve) -> None:
    server = serve(lambda peer: None)
    with pytest.raises(ConnectionLost):
        client.request(server.address, "GET", "/", {})


def test_nobody_listens(client: BackendClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = unused.getsockname()
    with pytest.raises(ConnectError):
        client.request(address, "GET", "/", {})


def test_timeout_leaves_an_exchange_intact(client: BackendClient, serve: Serve) -> None:
    proceed = threading.Event()

    def script(peer: Peer) -> None:
        peer.read_head()
        peer.sock.sendall(OK[:30])
        proceed.wait(60)
        peer.sock.sendall(OK[30:])

    server = serve(script)
    exchange = client.start(server.address, "GET", "/", {})
    with pytest.raises(ReadTimeout):
        exchange.response(timeout=0.01)
    proceed.set()
    assert exchange.response().body() == b"ok"


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 200_000 + b"\r\n\r\n",
        b"\x00" * 100,
    ],
)
def test_nonsense_is_refused(client: BackendClient, serve: Serve, answer: bytes) -> None:
    def script(peer: Peer) -> None:
        peer.read_head()
        try:
            peer.sock.sendall(answer)
        except OSError:
            pass  # the client hung up in the middle of it, as it should

    server = serve(script)
    with pytest.raises(BadResponse):
        client.request(server.address, "GET", "/", {})


def test_body_cut_short_is_an_error_after_the_good_part(
    client: BackendClient, serve: Serve
) -> None:
    def script(peer: Peer) -> None:
        peer.read_head()
        peer.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")

    server = serve(script)
    chunks = client.request(server.address, "GET", "/", {}).iter_chunks()
    assert next(chunks) == b"half"
    with pytest.raises(ConnectionLost):
        next(chunks)


def test_body_that_stalls_is_an_error(serve: Serve) -> None:
    def attempt(timeout: float) -> None:
        client = BackendClient(20, node_timeout=timeout)
        done = threading.Event()

        def script(peer: Peer) -> None:
            peer.read_head()
            peer.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
            done.wait(60)

        server = serve(script)
        try:
            chunks = client.request(server.address, "GET", "/", {}).iter_chunks()
            assert next(chunks) == b"half"
            with pytest.raises(ConnectionLost):
                next(chunks)
        finally:
            done.set()

    patiently(attempt)


def test_body_longer_than_its_limit_is_refused(client: BackendClient, serve: Serve) -> None:
    server = serve(answer_all(OK))
    response = client.request(server.address, "GET", "/", {})
    with pytest.raises(BadResponse):
        response.body(limit_bytes=1)


def test_body_without_length_ends_with_the_connection(client: BackendClient, serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.read_head()
        peer.sock.sendall(b"HTTP/1.1 200 OK\r\n\r\nall of it")

    server = serve(script, script)
    for _ in range(2):
        assert client.request(server.address, "GET", "/", {}).body() == b"all of it"
    assert server.accepted == 2


def test_unread_body_never_reaches_the_next_request(client: BackendClient, serve: Serve) -> None:
    def big(peer: Peer) -> None:
        peer.read_head()
        peer.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nbegin")
        peer.read_to_end()

    server = serve(big, answer_all(OK))
    client.request(server.address, "GET", "/", {}).close()
    assert client.request(server.address, "GET", "/", {}).body() == b"ok"


def test_short_unread_body_is_drained(client: BackendClient, serve: Serve) -> None:
    def script(peer: Peer) -> None:
        while peer.read_head():
            peer.sock.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\n")
            peer.sock.sendall(b"gone")

    server = serve(script)
    for _ in range(2):
        client.request(server.address, "GET", "/", {}).close()
    assert server.accepted == 1


def test_bytes_behind_the_answer_poison_the_connection(client: BackendClient, serve: Serve) -> None:
    def script(peer: Peer) -> None:
        peer.read_head()
        peer.sock.sendall(OK + b"trailing rubbish")
        peer.read_to_end()

    server = serve(script, answer_all(OK))
    for _ in range(2):
        assert client.request(server.address, "GET", "/", {}).body() == b"ok"
    assert server.accepted == 2


def test_bytes_behind_a_long_body_poison_the_connection(
    client: BackendClient, serve: Serve
) -> None:
    body = bytes(range(256)) * 4096

    def script(peer: Peer) -> None:
        peer.read_head()
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
        peer.sock.sendall(head + body + b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nforged!")
        peer.read_to_end()

    server = serve(script, answer_all(OK))
    assert client.request(server.address, "GET", "/", {}).body() == body
    assert client.request(server.address, "GET", "/", {}).body() == b"ok"
    assert server.accepted == 2


def test_pool_is_bounded(serve: Serve) -> None:
    client = BackendClient(20, 20, pool_size=1)
    server = serve(answer_all(OK), answer_all(OK))
    exchanges = [client.start(server.address, "GET", "/", {}) for _ in range(2)]
    assert [e.response().body() for e in exchanges] == [b"ok", b"ok"]
    kept = client.take(server.address)
    assert kept is not None
    kept.close()
    assert client.take(server.address) is None
    client.close()


@pytest.mark.parametrize("length", [None, 11])
def test_upload_waits_for_continue(client: BackendClient, serve: Serve, length: int | None) -> None:
    heads: list[bytes] = []
    bodies: list[bytes] = []
    chunked = b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"

    def script(peer: Peer) -> None:
        heads.append(peer.read_head())
        assert peer.buffer == b""
        peer.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        bodies.append(
            peer.read(len(b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n") if not length else 11)
        )
        peer.sock.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\nEtag: e\r\n\r\n")

    server = serve(script)
    upload = client.start_upload(server.address, "PUT", "/d/0/a/c/o", {}, length)
    assert upload.expect_continue() is None
    upload.send(b"hello")
    upload.send(b"")
    upload.send(b" world")
    response = upload.finish()
    assert (response.status, response.headers["etag"]) == (201, "e")
    assert b"Expect: 100-continue" in heads[0]
    assert bodies == [b"hello world" if length else chunked]


def test_continue_and_answer_in_one_packet(client: BackendClient, serve: Serve) -> None:
    server = serve(answer_all(b"HTTP/1.1 100 Continue\r\n\r\n" + OK))
    upload = client.start_upload(server.address, "PUT", "/", {}, 4)
    early = upload.expect_continue()
    assert early is not None
    assert early.status == 200


def test_upload_refused_before_the_body(client: BackendClient, serve: Serve) -> None:
    server = serve(answer_all(b"HTTP/1.1 507 Full\r\nContent-Length: 0\r\n\r\n"))
    upload = client.start_upload(server.address, "PUT", "/", {}, 4)
    refusal = upload.expect_continue()
    assert refusal is not None
    assert refusal.status == 507


def test_aborted_upload_is_seen_cut_short(client: BackendClient, serve: Serve) -> None:
    got: list[bytes] = []
    done = threading.Event()

    def script(peer: Peer) -> None:
        peer.read_head()
        peer.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        got.append(peer.read_to_end())
        done.set()

    server = serve(script)
    upload = client.start_upload(server.address, "PUT", "/", {}, None)
    upload.expect_continue()
    upload.send(b"half")
    upload.abort()
    assert done.wait(10)
    assert b"0\r\n\r\n" not in got[0]


@pytest.mark.parametrize("bad", [{"X-A": "a\r\nX-B: b"}, {"X-A\n": "a"}, {"X": "a\rb"}])
def test_no_header_can_smuggle_another(bad: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="line break"):
        encode_headers(bad)


@pytest.mark.parametrize("path", ["/a b", "/a\r\nX: y", "/a\nb"])
def test_unquoted_path_is_refused(client: BackendClient, path: str) -> None:
    with pytest.raises(ValueError, match="not quoted"):
        client.request(("127.0.0.1", 1), "GET", path, {})


@given(body=st.binary(max_size=300), cuts=st.lists(st.integers(1, 400), max_size=6))
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_answer_is_the_same_however_it_is_cut(body: bytes, cuts: list[int]) -> None:
    wire = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-K: v\r\n\r\n" % len(body) + body
    points = sorted({0, len(wire), *(c for c in cuts if c < len(wire))})
    ours, theirs = socket.socketpair()
    with ours, theirs:
        client = BackendClient(20, 20)
        client.give_back(("fake", 1), ours)
        exchange = client.start(("fake", 1), "GET", "/", {})
        theirs.recv(65536)

        def feed() -> None:
            for start, end in itertools.pairwise(points):
                theirs.sendall(wire[start:end])

        thread = threading.Thread(target=feed)
        thread.start()
        response = exchange.response()
        assert (response.status, response.headers["x-k"]) == (200, "v")
        assert response.body() == body
        thread.join()

"""The gate before a storage service, on real sockets."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Iterator

import pytest
from grid_peers import patient_client
from wsgi_calls import exchange, serving, status_of

from martlet.grid.errors import GridRefusedError
from martlet.grid.gate import Gate
from martlet.grid.handlers import Handlers
from martlet.grid.http_login import Logins
from martlet.grid.options import Options
from martlet.grid.plain_http import PlainHttp
from martlet.grid.refusals import Refusal
from martlet.grid.secrets import Secrets
from martlet.http.backend_client import BackendClient, ConnectError
from martlet.http.environ import Environ, StartResponse
from martlet.http.response import Response

SECRETS = Secrets.parse("the secret of the cluster of the tests")
OTHER = Secrets.parse("another secret, of some other cluster.")
NO_PLAIN = PlainHttp()


class Service:
    """The pipeline behind the gate; it counts what comes in."""

    def __init__(self) -> None:
        self.requests: list[str] = []

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        body = environ["wsgi.input"].read()
        self.requests.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}")
        return Response(200, body=body or b"inside")(environ, start_response)


class Door:
    """A gate on a port."""

    def __init__(self, port: int, service: Service) -> None:
        self.address = ("127.0.0.1", port)
        self.port = port
        self.service = service

    def client(self, secrets: Secrets, plain: PlainHttp = NO_PLAIN) -> BackendClient:
        return BackendClient(30, 30, start_login=Logins(secrets, plain))

    def figures(self) -> dict[str, object]:
        answer = exchange(self.port, b"GET /recon/grid HTTP/1.1\r\nHost: h\r\n\r\n")
        found: dict[str, object] = json.loads(answer.partition(b"\r\n\r\n")[2])
        return found

    def ask(self, method: str, path: str) -> int:
        """The status for a connection without proof."""
        request = f"{method} {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"
        return status_of(exchange(self.port, request.encode()))


def opened(secrets: Secrets, plain: PlainHttp = NO_PLAIN) -> Iterator[Door]:
    service = Service()
    handlers = Handlers({"echo": lambda call: call.payload})
    gate = Gate(service, secrets, plain, handlers, Options(name="gate"))
    with serving(gate) as (port, _):
        yield Door(port, service)


@pytest.fixture
def door() -> Iterator[Door]:
    yield from opened(SECRETS)


@pytest.fixture
def open_door() -> Iterator[Door]:
    yield from opened(Secrets())


def test_requests_without_proof_stay_outside(door: Door) -> None:
    for method in ("GET", "HEAD", "PUT", "POST", "DELETE", "UPDATE", "SNAPSHOT"):
        assert door.ask(method, "/d1/7/a/c") == 403
    for path in ("/", "/healthcheckx", "/healthcheck/", "/recon", "//recon/mem", "/grid/x"):
        assert door.ask("GET", path) == 403
    assert door.ask("POST", "/recon/repair") == 403
    assert door.service.requests == []
    assert door.figures()["refused_http"] == 14


def test_violations_are_a_gauge() -> None:
    gate = Gate(Service(), SECRETS, NO_PLAIN, Handlers({}), Options(name="gate"))
    gate.grid.protocol_errors = 3
    assert gate.gauges()["martlet_grid_protocol_errors",] == 3


def test_only_those_without_the_secret_are_a_gauge_of_refusals() -> None:
    gate = Gate(Service(), SECRETS, NO_PLAIN, Handlers({}), Options(name="gate"))
    for kind in Refusal:
        gate.grid.refusals.add(kind, "127.0.0.1", "of a test")
    assert gate.gauges()["martlet_grid_refused",] == 4
    assert gate.figures()[0]["refused too_slow"] == 1


def test_the_refusal_says_what_to_do(door: Door) -> None:
    answer = exchange(door.port, b"GET /d1/7/a HTTP/1.1\r\nHost: h\r\n\r\n")
    sentence = answer.partition(b"\r\n\r\n")[2].decode()
    assert "set the same grid_secret in martlet.conf" in sentence
    assert "list the address 127.0.0.1 in grid_plain_http" in sentence


def test_a_client_without_a_secret_takes_the_refusal_for_no_answer(door: Door) -> None:
    """Else the proxy would pass the 403 on to its client."""
    client = BackendClient(30, 30)
    with pytest.raises(ConnectError, match="demands a proof of the cluster's secret: set grid_se"):
        client.request(door.address, "GET", "/d1/7/a", {})
    upload = client.start_upload(door.address, "PUT", "/d1/7/a", {}, 100_000)
    with pytest.raises(ConnectError, match="demands a proof"):
        upload.expect_continue()
    upload.abort()
    client.close()


def test_what_needs_no_proof(door: Door) -> None:
    for method, path in (
        ("GET", "/healthcheck"),
        ("GET", "/recon/mem"),
        ("HEAD", "/recon/mem"),
        ("OPTIONS", "/"),
        ("OPTIONS", "/d1/7/a"),
    ):
        assert door.ask(method, path) == 200
    assert len(door.service.requests) == 5


def test_a_client_with_the_secret_logs_in_once_for_each_connection(door: Door) -> None:
    client = door.client(SECRETS)
    for number in range(3):
        answer = client.request(door.address, "PUT", "/d1/7/a", {}, b"body %d" % number)
        assert (answer.status, answer.body()) == (200, b"body %d" % number)
    assert door.figures()["logins_http"] == 1
    two = [client.start(door.address, "GET", "/d1/7/a", {}) for _ in range(2)]
    assert [exchange.response().body() for exchange in two] == [b"inside"] * 2
    assert door.figures()["logins_http"] == 2
    client.close()


@pytest.mark.parametrize("length", [6, None])
def test_an_upload_logs_in(door: Door, length: int | None) -> None:
    client = door.client(SECRETS)
    upload = client.start_upload(door.address, "PUT", "/d1/7/a", {}, length)
    assert upload.expect_continue() is None
    upload.send(b"upload")
    assert upload.finish().body() == b"upload"
    client.close()


def test_a_large_body_logs_in(door: Door) -> None:
    client = door.client(SECRETS)
    body = bytes(1 << 20)
    assert client.request(door.address, "PUT", "/d1/7/a", {}, body).body() == body
    client.close()


def test_a_client_with_another_secret_sends_no_request(door: Door) -> None:
    client = door.client(OTHER)
    with pytest.raises(ConnectError, match="no login: its grid_secret is another one"):
        client.request(door.address, "GET", "/d1/7/a", {})
    assert door.service.requests == []


def test_a_server_without_the_secret_gets_no_request(open_door: Door) -> None:
    client = open_door.client(SECRETS)
    with pytest.raises(ConnectError, match="no login: it has no grid_secret"):
        client.request(open_door.address, "GET", "/d1/7/a", {})
    assert open_door.service.requests == []


def test_without_a_secret_all_comes_in(open_door: Door) -> None:
    assert open_door.ask("DELETE", "/d1/7/a") == 200
    client = open_door.client(Secrets())
    assert client.request(open_door.address, "GET", "/", {}).body() == b"inside"
    assert open_door.figures()["logins_http"] == 0
    client.close()


def test_servers_of_openstack_swift_need_no_proof_in_either_direction() -> None:
    plain = PlainHttp(["127.0.0.0/8"])
    for door in opened(SECRETS, plain):
        assert door.ask("PUT", "/d1/7/a") == 200
        client = door.client(SECRETS, plain)
        assert client.request(door.address, "GET", "/", {}).body() == b"inside"
        assert door.figures()["logins_http"] == 0
        client.close()


def test_a_wrong_proof_ends_the_connection(door: Door) -> None:
    with socket.create_connection(door.address, timeout=30) as sock:
        stream = sock.makefile("rb")

        def ask(headers: str) -> tuple[int, dict[str, str]]:
            sock.sendall(f"GET /grid/login HTTP/1.1\r\nHost: h\r\n{headers}\r\n".encode())
            status = int(stream.readline()[9:12])
            found = {}
            while (line := stream.readline()) != b"\r\n":
                name, _, value = line.decode().strip().partition(": ")
                found[name.lower()] = value
            stream.read(int(found["content-length"]))
            return status, found

        status, found = ask("")
        assert status == 200
        assert found["x-grid-keys"] == SECRETS.ids[0].hex()
        wrong = f"X-Grid-Nonce: {found['x-grid-nonce']}\r\nX-Grid-Key: {found['x-grid-keys']}\r\n"
        assert ask(f"{wrong}X-Grid-Proof: {found['x-grid-nonce']}\r\n")[0] == 403
        assert stream.read(1) == b""
    assert door.figures()["refused_http"] == 1


def test_what_is_no_login(door: Door) -> None:
    assert door.ask("POST", "/grid/login") == 405
    challenge = b"GET /grid/login HTTP/1.1\r\nHost: h\r\n\r\n"
    bad = challenge.replace(b"\r\n\r\n", b"\r\nX-Grid-Proof: ?\r\n\r\n")
    for requests, status in ((bad, b"403"), (challenge + bad, b"400")):
        answers = exchange(door.port, requests).split(b"HTTP/1.1 ")
        assert answers[-1].startswith(status), answers
        assert b"\r\nConnection: close\r\n" in answers[-1]


def test_a_login_belongs_to_its_connection(door: Door) -> None:
    client = door.client(SECRETS)
    assert client.request(door.address, "GET", "/", {}).body() == b"inside"
    assert door.ask("GET", "/") == 403
    client.close()


def test_the_grid_is_served_behind_its_own_handshake(door: Door) -> None:
    client = patient_client(SECRETS)
    assert client.request(door.address, "echo", b"hello") == b"hello"
    figures = door.figures()
    assert (figures["connections"], figures["handshakes"], figures["served"]) == (1, 1, 1)
    assert figures["refused"] == dict.fromkeys(Refusal, 0)
    client.close()
    stranger = patient_client(OTHER)
    with pytest.raises(GridRefusedError, match="no secret in common"):
        stranger.request(door.address, "echo", b"hello")
    stranger.close()

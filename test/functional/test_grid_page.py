# SPDX-License-Identifier: Apache-2.0
"""Real servers and a third implementation of the grid, which was written from its page alone."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from functools import partial

import msgpack  # type: ignore[import-untyped]
import pytest
from cluster_databases import listed, ring_of
from running_cluster import RunningCluster, await_true
from swift_api import Account
from toy_grid import PING, PROOF, PROTOCOL, REQUEST, EndedError, ToyGrid, frame, log_in

from cluster.layout import KINDS
from cluster.ports import HOST
from martlet.conf.cluster import ClusterConf
from martlet.words.names import quote_path

MESSAGE_BYTES_MAX = 4 << 20
HANDSHAKE_BYTES_MAX = 4096
PATHS = {"account": "/a", "container": "/a/c", "object": "/a/c/o"}


class Servers:
    """The storage servers of a cluster with one node, and the secret of the cluster."""

    def __init__(self, cluster: RunningCluster) -> None:
        self._cluster = cluster
        (key,) = ClusterConf.load(cluster.home / "etc").grid.secrets.keys
        self.secret = key.decode()

    def connect(self, kind: str, secret: str | None = None, protocol: str = PROTOCOL) -> ToyGrid:
        address = (HOST, self._cluster.storage_port(kind))
        return ToyGrid(address, self.secret if secret is None else secret, protocol)

    def open(self, kind: str) -> ToyGrid:
        toy = self.connect(kind)
        toy.shake_hands()
        return toy

    def figure(self, kind: str, name: str) -> int:
        """A counter of ``GET /recon/grid``, or that of a kind of refusal."""
        connection = self.http(kind)
        connection.request("GET", "/recon/grid")
        figures = json.loads(connection.getresponse().read())
        connection.close()
        return int({**figures, **figures["refused"]}[name])

    def violations(self, kind: str) -> int:
        """``martlet_grid_protocol_errors`` of ``GET /metrics``."""
        connection = self.http(kind)
        connection.request("GET", "/metrics")
        page = connection.getresponse().read().decode()
        connection.close()
        name = "martlet_grid_protocol_errors "
        (line,) = [line for line in page.splitlines() if line.startswith(name)]
        return int(float(line.removeprefix(name)))

    def http(self, kind: str) -> http.client.HTTPConnection:
        port = self._cluster.storage_port(kind)
        return http.client.HTTPConnection(HOST, port, timeout=60)

    def log_end(self, kind: str) -> int:
        return len(self._log(kind))

    def log_since(self, kind: str, end: int) -> str:
        return self._log(kind)[end:].decode()

    def _log(self, kind: str) -> bytes:
        return (self._cluster.home / "logs" / f"{kind}-server.log").read_bytes()


@pytest.fixture
def servers(cluster: RunningCluster) -> Servers:
    return Servers(cluster)


def ask(toy: ToyGrid, name: str, *elements: object) -> tuple[int, dict[str, str], bytes]:
    """The elements of the answer to a request of ``doc/formats/grid-messages.md``."""
    code, payload = toy.ask(name, msgpack.packb(list(elements)))
    assert code == 0, payload
    status, headers, body, *_ = msgpack.unpackb(payload)
    return status, headers, body


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("checksum", [False, True], ids=["plain", "checksum"])
def test_each_server_answers(servers: Servers, kind: str, checksum: bool) -> None:
    with servers.connect(kind) as toy:
        toy.wants_checksums = checksum
        toy.shake_hands()
        assert ask(toy, f"{kind}.head", "d1", 0, PATHS[kind], {}, b"")[0] == 404
        assert toy.ask("nix", b"")[0] == 1
        assert toy.ask(f"{kind}.head", b"\xc1")[0] == 4
        assert toy.ask(f"{kind}.head", bytes(2 << 20))[0] == 3
        assert ask(toy, f"{kind}.head", "d1", 0, PATHS[kind], {}, b"")[0] == 404


def test_what_it_writes_is_stored_and_listed(
    cluster: RunningCluster, servers: Servers, account: Account, container: str
) -> None:
    names = (account.path.rpartition("/")[2], container)
    now = f"{time.time():.5f}"
    partition, nodes = ring_of(cluster, "object").get_nodes(*names, "toy")
    headers = {"X-Timestamp": now, "Content-Type": "text/plain"}
    with servers.open("object") as toy:
        for node in nodes:
            path = quote_path("/" + "/".join((*names, "toy")))
            stored = ask(toy, "object.put", node["device"], partition, path, headers, b"words")
            assert stored[0] == 201
    etag = stored[1]["etag"].strip('"')
    partition, nodes = ring_of(cluster, "container").get_nodes(*names)
    row = ["toy", now, 5, "text/plain", etag, 0]
    with servers.open("container") as toy:
        for node in nodes:
            update = (node["device"], partition, *names, 0, now, [row])
            assert ask(toy, "container.update", *update)[0] == 202
    assert account.call("GET", container, "toy").body == b"words"
    rings = ring_of(cluster, "container")
    assert listed(cluster, rings, *names) == [["toy"]] * len(nodes)


@pytest.mark.parametrize("kind", KINDS)
def test_it_logs_in_over_plain_http(servers: Servers, kind: str) -> None:
    path = f"/d1/0{PATHS[kind]}"
    connection = servers.http(kind)
    proof = log_in(connection, servers.secret)
    connection.request("HEAD", path)
    assert connection.getresponse().status == 404
    connection.close()
    for headers in ({}, proof):
        connection.request("GET", "/grid/login", headers=headers)
        answer = connection.getresponse()
        answer.read()
    assert answer.status == 403  # what was recorded proves nothing
    connection.close()
    connection.request("HEAD", path)
    assert connection.getresponse().status == 403
    connection.close()


def wrong_secret(servers: Servers, kind: str) -> ToyGrid:
    toy = servers.connect(kind, servers.secret[::-1])
    toy.shake_hands()
    return toy


def no_secret(servers: Servers, kind: str) -> ToyGrid:
    toy = servers.connect(kind, "")
    toy.shake_hands()
    return toy


def replayed(servers: Servers, kind: str) -> ToyGrid:
    with servers.open(kind) as heard:
        proof = heard.proof
    toy = servers.connect(kind)
    toy.read_frame()
    toy.send_message(proof)
    return toy


def of_another_version(servers: Servers, kind: str) -> ToyGrid:
    return servers.connect(kind, protocol="martlet-grid-2")


def frame_of_another_version(servers: Servers, kind: str) -> ToyGrid:
    toy = servers.connect(kind)
    toy.read_frame()
    toy.send_frame(PROOF, bytes(32), b"", b"", {}, version=2)
    return toy


def large_proof(servers: Servers, kind: str) -> ToyGrid:
    toy = servers.connect(kind)
    toy.read_frame()
    toy.send_message(b"", length=HANDSHAKE_BYTES_MAX + 1)
    return toy


def request_before_the_proof(servers: Servers, kind: str) -> ToyGrid:
    toy = servers.connect(kind)
    toy.read_frame()
    toy.send_frame(REQUEST, 1, f"{kind}.head", 0, 0, b"")
    return toy


def after_welcome(break_rule: Callable[[ToyGrid], None], servers: Servers, kind: str) -> ToyGrid:
    toy = servers.open(kind)
    break_rule(toy)
    return toy


def send_large_message(toy: ToyGrid) -> None:
    toy.send_message(b"", length=MESSAGE_BYTES_MAX + 1)


def send_large_frame(toy: ToyGrid) -> None:
    toy.send_message((MESSAGE_BYTES_MAX + 1).to_bytes(4) + frame((PING, 1))[4:])


def send_another_version(toy: ToyGrid) -> None:
    toy.send_frame(PING, 1, version=2)


VIOLATED = "protocol_errors"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("come", "counter"),
    [
        pytest.param(wrong_secret, "no_common_key", id="wrong secret"),
        pytest.param(no_secret, "no_key", id="no secret"),
        pytest.param(replayed, "wrong_proof", id="replayed"),
        pytest.param(of_another_version, "bad_upgrade", id="another version"),
        pytest.param(frame_of_another_version, "malformed", id="frame of another version"),
        pytest.param(request_before_the_proof, "out_of_order", id="request before the proof"),
        pytest.param(partial(after_welcome, send_large_message), VIOLATED, id="large message"),
        pytest.param(partial(after_welcome, send_large_frame), VIOLATED, id="large frame"),
        pytest.param(partial(after_welcome, send_another_version), VIOLATED, id="later version"),
    ],
)
def test_what_breaks_the_rules_is_refused_counted_and_logged(
    servers: Servers, kind: str, come: Callable[[Servers, str], ToyGrid], counter: str
) -> None:
    begin = servers.log_end(kind)
    words = (
        ("broke the protocol", "grid_violated") if counter == VIOLATED else (f"kind={counter} ",)
    )

    def is_logged() -> bool:
        """Come once more: of each kind there is one line in some seconds."""
        comes_and_is_refused(servers, kind, come, counter)
        log = servers.log_since(kind, begin)
        return any(word in log for word in words)

    await_true(is_logged, "a sentence in the log")
    if counter == VIOLATED:  # the figures of other workers come every two seconds
        await_true(lambda: servers.violations(kind) == servers.figure(kind, VIOLATED), "the metric")
    with servers.open(kind) as toy:  # the server goes on
        assert ask(toy, f"{kind}.head", "d1", 0, PATHS[kind], {}, b"")[0] == 404


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_message_instead_of_a_proof_is_refused_and_counted(
    servers: Servers, kind: str
) -> None:
    comes_and_is_refused(servers, kind, large_proof, "malformed")


def comes_and_is_refused(
    servers: Servers, kind: str, come: Callable[[Servers, str], ToyGrid], counter: str
) -> None:
    before = servers.figure(kind, counter)
    with pytest.raises(EndedError), come(servers, kind) as toy:
        toy.read_frame()
    await_true(lambda: servers.figure(kind, counter) > before, f"one more {counter}")

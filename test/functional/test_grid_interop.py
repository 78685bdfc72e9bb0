"""The grid between Python and Go: each asks the other, with and without checksums and TLS."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grid_peers
import pytest
from certificates import Authority
from grid_peers import PATIENCE_SECONDS, SECRET, ask_in_threads, patient_client, service
from source_tree import ROOT
from toy_grid import ToyGrid

from martlet.grid.client import FanOut, GridClient
from martlet.grid.errors import Code, GridRefusedError, RequestError
from martlet.grid.secrets import Secrets
from martlet.http.backend_client import Address, ConnectError, ConnectionLost, ReadTimeout
from martlet.tls.contexts import ClientTls

MODULE = ROOT / "object-server"
PROGRAM = ROOT / "test" / "support" / "grid_peer.go"
GOAWAYS = 5
OTHER = "another secret of another cluster here"

pytestmark = pytest.mark.skipif(
    not (MODULE / "grid").exists(), reason="the object server has no grid yet"
)


@pytest.fixture(scope="module")
def go_peer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Go program, built as if it were a package of the object server."""
    folder = tmp_path_factory.mktemp("grid")
    overlay = folder / "overlay.json"
    place = MODULE / "cmd" / "grid-peer" / "main.go"
    overlay.write_text(json.dumps({"Replace": {str(place): str(PROGRAM)}}))
    binary = folder / "grid-peer"
    command = ["go", "build", "-overlay", str(overlay), "-o", str(binary), "./cmd/grid-peer"]
    subprocess.run(command, cwd=MODULE, check=True)
    return binary


@contextmanager
def serving(go_peer: Path, *arguments: str) -> Iterator[tuple[Address, subprocess.Popen[str]]]:
    command = [str(go_peer), "-secret", SECRET, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield ("127.0.0.1", int(process.stdout.readline())), process
        finally:
            process.kill()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def tls_of(authority: Authority) -> list[str]:
    """Arguments of the Go program."""
    made = authority.issue("127.0.0.1")
    files = ["-certificate", str(made.certificate), "-key", str(made.key)]
    return [*files, "-ca", str(authority.path)]


@pytest.mark.parametrize("arguments", [[], ["-checksum"]], ids=["plain", "checksum"])
def test_python_asks_go(go_peer: Path, arguments: list[str]) -> None:
    ask_go(go_peer, arguments, patient_client())


def test_python_asks_go_over_tls(go_peer: Path, authority: Authority) -> None:
    ask_go(go_peer, tls_of(authority), patient_client(secure=ClientTls(authority.path)))


def ask_go(go_peer: Path, arguments: list[str], client: GridClient) -> None:
    with serving(go_peer, *arguments) as (address, process):
        wrong = ask_in_threads(client, address)
        assert wrong == []
        assert client.request(address, "echo", bytes(1 << 20)) == bytes(1 << 20)
        with pytest.raises(RequestError) as caught:
            client.request(address, "nix", b"")
        assert caught.value.code == Code.UNKNOWN_NAME
        with pytest.raises(ReadTimeout):
            client.request(address, "never", b"", timeout=0.2)
        assert tee(client, address, bytes(range(256)) * 8192)
        fan_out = FanOut(client)
        fan_out.send(address, "never", b"")
        process.kill()
        [lost] = fan_out.wait(1)
        assert isinstance(lost.error, ConnectionLost)


def tee(client: GridClient, address: Address, data: bytes) -> bool:
    """Whether a stream brings back what is sent."""
    stream = client.open_stream(address, "tee", b"first", timeout=PATIENCE_SECONDS)

    def write() -> None:
        stream.write(data)
        stream.end()

    writer = threading.Thread(target=write)
    writer.start()
    received = []
    while piece := stream.read():
        received.append(piece)
    writer.join()
    return b"".join(received) == b"first" + data


@pytest.mark.parametrize("arguments", [[], ["-checksum"]], ids=["plain", "checksum"])
def test_a_toy_that_knows_the_page_alone_asks_go(go_peer: Path, arguments: list[str]) -> None:
    with serving(go_peer, *arguments) as (address, _process):
        ask_as_toy(address)


@pytest.mark.parametrize("arguments", [(), ("--threads",)], ids=["eventlet", "threads"])
def test_a_toy_that_knows_the_page_alone_asks_python(arguments: tuple[str, ...]) -> None:
    with service(*arguments) as running:
        ask_as_toy(running.address)


def ask_as_toy(address: Address) -> None:
    data = bytes(range(256)) * 4096
    with ToyGrid(address, SECRET) as toy:
        toy.shake_hands()
        assert toy.ask("echo", b"text") == (0, b"text")
        assert toy.ask("nix", b"")[0] == Code.UNKNOWN_NAME
        assert toy.exchange("tee", b"first", data) == b"first" + data
        assert toy.ask("echo", bytes(1 << 20)) == (0, bytes(1 << 20))


def test_python_without_the_secret_of_go(go_peer: Path) -> None:
    with serving(go_peer) as (address, _):
        for secret in (OTHER, "none"):
            with pytest.raises(GridRefusedError):
                patient_client(Secrets.parse(secret)).request(address, "echo", b"")


@pytest.mark.parametrize("arguments", [[], ["--checksum"], ["--threads"]])
def test_go_asks_python(go_peer: Path, arguments: list[str]) -> None:
    with service(*arguments) as server:
        done = connect(go_peer, SECRET, server.address)
        assert done.stdout == "ok\n", done.stderr
        assert server.counters()["protocol_errors"] == 0


@pytest.mark.parametrize("arguments", [[], ["--threads"]], ids=["green", "threads"])
def test_go_asks_python_over_tls(
    go_peer: Path, authority: Authority, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = tls_of(authority)
    monkeypatch.setattr(grid_peers, "CERTIFICATES", str(authority.directory))
    with service(*arguments) as server:
        done = connect(go_peer, SECRET, server.address, *tls)
        assert done.stdout == "ok\n", done.stderr
        assert server.counters()["protocol_errors"] == 0


def test_neither_accepts_a_certificate_of_another_authority(
    go_peer: Path, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    client = patient_client(secure=ClientTls(authority.path))
    with (
        serving(go_peer, *tls_of(other)) as (address, _),
        pytest.raises(ConnectError, match="unable to get local issuer certificate"),
    ):
        client.request(address, "echo", b"")
    tls = tls_of(authority)
    monkeypatch.setattr(grid_peers, "CERTIFICATES", str(other.directory))
    with service() as server:
        done = connect(go_peer, SECRET, server.address, *tls)
        assert "certificate signed by unknown authority" in done.stderr


def test_python_asks_while_go_goes_away(go_peer: Path) -> None:
    with serving(go_peer) as (address, process):
        client = patient_client()
        for _ in range(GOAWAYS):
            connection = client.connection(address)
            process.send_signal(signal.SIGHUP)
            assert ask_in_threads(client, address, turns=20) == []
            while not connection.is_over:
                time.sleep(0.001)


@pytest.mark.parametrize("arguments", [[], ["--threads"]], ids=["green", "threads"])
def test_go_asks_while_python_goes_away(go_peer: Path, arguments: list[str]) -> None:
    with service(*arguments) as server:
        command = [str(go_peer), "-secret", SECRET, "-load", "-connect"]
        asking = subprocess.Popen(
            [*command, f"127.0.0.1:{server.address[1]}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert asking.stdout
        assert asking.stdout.readline() == "begun\n"
        for _ in range(GOAWAYS):
            before = server.counters()["requests"]
            server.send(signal.SIGHUP)
            while asking.poll() is None and server.counters()["requests"] < before + 100:
                time.sleep(0.01)
        output, errors = asking.communicate(timeout=PATIENCE_SECONDS)
        assert output == "ok\n", errors
        assert server.counters()["protocol_errors"] == 0


def test_go_without_the_secret_of_python(go_peer: Path) -> None:
    with service() as server:
        assert connect(go_peer, OTHER, server.address).returncode != 0
        server.await_counter("by_peer", 1)


def connect(
    go_peer: Path, secret: str, address: Address, *arguments: str
) -> subprocess.CompletedProcess[str]:
    command = [str(go_peer), "-secret", secret, "-connect", f"{address[0]}:{address[1]}"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=120)

"""Servers of the grid in processes of their own, and peers that break its rules."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from forked_passes import Pass

from martlet.grid.client import GridClient
from martlet.grid.handshake import ConnectorHandshake
from martlet.grid.options import Options
from martlet.grid.secrets import Secrets
from martlet.grid.websocket import Channel, Opening
from martlet.http.backend_client import Address, BackendError
from martlet.tls.contexts import ClientTls

SECRET = "the secret of the cluster of the tests"
SECRETS = Secrets.parse(SECRET)
PATIENCE_SECONDS = 60.0
#: Set by `over_tls`: the directory of the certificates; all servers and clients below use them.
CERTIFICATES = os.environ.get("MARTLET_TEST_CERTIFICATES", "")


class ServiceProcess:
    """One running ``grid_service.py``."""

    def __init__(self, *arguments: str, port: int = 0) -> None:
        command = ["grid_service", "--secret", SECRET, "--port", str(port)]
        if CERTIFICATES:
            command += ["--certificate", f"{CERTIFICATES}/server.crt"]
            command += ["--key", f"{CERTIFICATES}/server.key"]
        loader = "load_for_threads" if "--threads" in arguments else "load_for_eventlet"
        read_end, write_end = os.pipe()
        with open(read_end) as output:
            self.process = Pass(
                *command, *arguments, output=write_end, loader=f"grid_service:{loader}"
            )
            os.close(write_end)
            self.address = ("127.0.0.1", int(output.readline()))

    def send(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def end(self) -> str:
        """Kill it; what it has logged."""
        self.process.kill_after(0)
        return self.process.communicate()[1]

    def counters(self) -> dict[str, Any]:
        """The counters, over a connection of its own."""
        client = patient_client()
        counters: dict[str, Any] = json.loads(client.request(self.address, "counters", b""))
        client.close()
        return counters

    def await_counter(self, name: str, value: int) -> None:
        """Wait until a counter, or the one of a kind of refusal, has the value."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            counters = self.counters()
            if counters.get(name, counters["refused"].get(name, 0)) == value:
                return
            assert time.monotonic() < end, counters
            time.sleep(0.02)


@contextlib.contextmanager
def service(*arguments: str, port: int = 0) -> Iterator[ServiceProcess]:
    """A server until the end of the block."""
    running = ServiceProcess(*arguments, port=port)
    try:
        yield running
    finally:
        running.end()


def patient_client(secrets: Secrets = SECRETS, **options: Any) -> GridClient:
    """A client for a machine that is busy."""
    given: dict[str, Any] = {"conn_timeout": 30.0, "node_timeout": 60.0, "handshake_timeout": 30.0}
    if CERTIFICATES:
        given["secure"] = ClientTls(f"{CERTIFICATES}/authority.pem")
    return GridClient(secrets, **{**given, **options})


class RawPeer:
    """A connector that sends what a test wants."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.sock = socket.create_connection(address, timeout=PATIENCE_SECONDS)
        opening = Opening(address)
        self.sock.sendall(opening.start())
        while (opened := opening.feed(self.sock.recv(65536))) is None:
            pass
        self.channel: Channel = opened[0]
        self.messages = opened[1]

    def __enter__(self) -> RawPeer:
        return self

    def __exit__(self, *_error: object) -> None:
        self.sock.close()

    def receive(self) -> bytes | None:
        """The next message; None at the end of the connection."""
        while not self.messages:
            data = b""
            with contextlib.suppress(ConnectionError):
                data = self.sock.recv(65536)
            if not data:
                return None
            self.messages += self.channel.feed(data)
        return bytes(self.messages.pop(0))

    def send(self, message: bytes) -> None:
        self.sock.sendall(self.channel.wrap(message))

    def shake_hands(self, options: Options | None = None) -> bytes:
        """Become welcome; returns the message with the proof."""
        handshake = ConnectorHandshake(SECRETS, options or Options())
        challenge = self.receive()
        assert challenge is not None
        proof = handshake.receive(challenge)
        self.send(proof)
        welcome = self.receive()
        assert welcome is not None
        assert handshake.receive(welcome) == b""
        return proof


def ask_in_threads(client: GridClient, address: Address, turns: int = 100) -> list[object]:
    """Requests of 16 threads; the answers that were wrong."""
    wrong: list[object] = []

    def ask(number: int) -> None:
        for turn in range(turns):
            payload = b"%d of %d " % (turn, number) * (turn + 1)
            try:
                if client.request(address, "echo", payload) != payload:
                    wrong.append(payload)
            except BackendError as error:
                wrong.append(error)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong

# SPDX-License-Identifier: Apache-2.0
"""HTTP servers of which a test writes each answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol


class Peer:
    """One accepted connection, seen from the server's side."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.buffer = b""

    def read_head(self) -> bytes:
        """One request's line and headers; empty at the end of the connection."""
        while b"\r\n\r\n" not in self.buffer:
            data = self.sock.recv(65536)
            if not data:
                return b""
            self.buffer += data
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        return head

    def read(self, count: int) -> bytes:
        while len(self.buffer) < count:
            data = self.sock.recv(65536)
            if not data:
                break
            self.buffer += data
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def read_to_end(self) -> bytes:
        try:
            while data := self.sock.recv(65536):
                self.buffer += data
        except ConnectionResetError:
            pass  # an abort may arrive as a reset
        return self.buffer


class Server:
    """Runs one script for each connection, in order, each in a thread of its own."""

    def __init__(self, scripts: list[Callable[[Peer], None]]) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self.listener.getsockname()
        self.accepted = 0
        self.scripts = scripts
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        threads = []
        for script in self.scripts:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                break
            self.accepted += 1
            threads.append(threading.Thread(target=self._run, args=(script, sock)))
            threads[-1].start()
        for thread in threads:
            thread.join()

    @staticmethod
    def _run(script: Callable[[Peer], None], sock: socket.socket) -> None:
        with sock:
            sock.settimeout(60)
            script(Peer(sock))

    def stop(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(60)
        assert not self.thread.is_alive()


class Serve(Protocol):
    """Starts a server with one script for each connection that it accepts."""

    def __call__(self, *scripts: Callable[[Peer], None]) -> Server: ...


@contextmanager
def scripted_servers() -> Iterator[Serve]:
    """Give what starts servers; stop them in the end, when their clients have closed."""
    servers: list[Server] = []

    def start(*scripts: Callable[[Peer], None]) -> Server:
        servers.append(Server(list(scripts)))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()

# SPDX-License-Identifier: Apache-2.0
"""A lean load generator: raw keep-alive sockets, so that the client uses little of the machine.

Each client process drives its connections from one thread with epoll. A connection sends one
prepared request, reads the answer by its Content-Length, and sends the next.
"""

from __future__ import annotations

import multiprocessing
import selectors
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

HOST = "127.0.0.1"
TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class Load:
    """The requests: ``method`` to ``prefix`` + number, for every number, in the given order.

    With ``prefixes`` the requests go to them in turn instead.
    """

    port: int
    token: str
    method: str
    prefix: str
    numbers: list[int]
    size_bytes: int
    expected_status: int
    prefixes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """The result of a load. ``failures`` counts answers with another status than expected."""

    seconds: float
    answers: int
    failures: int
    first_failure: str
    latencies_ms: list[float]


def content_of(number: int, size_bytes: int) -> bytes:
    """The object of a number; all are different."""
    return (b"%016d" % number * (size_bytes // 16 + 1))[:size_bytes]


def run(load: Load, clients: int, processes: int) -> Outcome:
    """Send the load over ``clients`` connections, divided among ``processes`` at most.

    :raises RuntimeError: a client process failed.
    """
    processes = min(processes, clients)  # one without a connection would not send its share
    context = multiprocessing.get_context("spawn")
    pipes: list[Connection] = []
    workers = []
    for index in range(processes):
        here, there = context.Pipe()
        share = range(index, clients, processes)
        part = replace(load, numbers=load.numbers[index::processes])
        worker = context.Process(target=_work, args=(there, part, len(share)), daemon=True)
        worker.start()
        workers.append(worker)
        pipes.append(here)
    for pipe in pipes:
        pipe.recv()  # connected
    begin = time.monotonic()
    for pipe in pipes:
        pipe.send("go")
    parts = []
    for pipe in pipes:
        try:
            parts.append(pipe.recv())
        except EOFError:
            raise RuntimeError("a client process failed") from None
    seconds = time.monotonic() - begin
    for worker in workers:
        worker.join()
    failures = [failure for part in parts for failure in part["failures"]]
    return Outcome(
        seconds=seconds,
        answers=sum(len(part["latencies"]) for part in parts),
        failures=len(failures),
        first_failure=failures[0] if failures else "",
        latencies_ms=sorted(latency for part in parts for latency in part["latencies"]),
    )


def _work(pipe: Connection, load: Load, connections: int) -> None:
    driver = _Driver(load, connections)
    pipe.send("connected")
    pipe.recv()
    driver.run()
    pipe.send({"latencies": driver.latencies_ms, "failures": driver.failures})


class _Driver:
    """The connections of one client process."""

    def __init__(self, load: Load, connections: int) -> None:
        self.latencies_ms: list[float] = []
        self.failures: list[str] = []
        self._expected = b"HTTP/1.1 %d " % load.expected_status
        self._requests = _requests(load)
        self._selector = selectors.DefaultSelector()
        self._sockets = [_connect(load.port) for _ in range(connections)]

    def run(self) -> None:
        """Send everything and read every answer."""
        open_count = 0
        for sock in self._sockets:
            state = {"sock": sock, "buffer": bytearray(), "sent": 0.0}
            if self._send_next(state):
                self._selector.register(sock, selectors.EVENT_READ, state)
                open_count += 1
        while open_count:
            for key, _ in self._selector.select():
                if not self._read(key.data):
                    self._selector.unregister(key.fileobj)
                    open_count -= 1

    def _send_next(self, state: dict[str, Any]) -> bool:
        request = next(self._requests, None)
        if request is None:
            return False
        state["sent"] = time.monotonic()
        state["sock"].sendall(request)
        return True

    def _read(self, state: dict[str, Any]) -> bool:
        """Read received data; return False when this connection is done."""
        data = state["sock"].recv(262_144)
        if not data:
            self.failures.append("connection closed by the server")
            return False
        buffer: bytearray = state["buffer"]
        buffer += data
        if not _is_whole(buffer):
            return True
        self.latencies_ms.append((time.monotonic() - state["sent"]) * 1000)
        if not buffer.startswith(self._expected):
            self.failures.append(bytes(buffer[:200]).decode("latin-1"))
        buffer.clear()
        return self._send_next(state)


def _connect(port: int) -> socket.socket:
    sock = socket.create_connection((HOST, port), timeout=TIMEOUT_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _requests(load: Load) -> Iterator[bytes]:
    tail = f" HTTP/1.1\r\nHost: {HOST}\r\nX-Auth-Token: {load.token}\r\n"
    if load.method == "PUT":
        tail += f"Content-Length: {load.size_bytes}\r\nContent-Type: application/octet-stream\r\n"
    prefixes = load.prefixes or (load.prefix,)
    for number in load.numbers:
        prefix = prefixes[number % len(prefixes)]
        head = f"{load.method} {prefix}{number}{tail}\r\n".encode()
        yield head + content_of(number, load.size_bytes) if load.method == "PUT" else head


def _is_whole(buffer: bytearray) -> bool:
    """Whether the answer's headers and its body, by Content-Length, are complete."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return False
    head = bytes(buffer[:end]).lower()
    position = head.find(b"\r\ncontent-length:")
    if position < 0:
        return True
    value = head[position + 17 :].partition(b"\r\n")[0]
    return len(buffer) >= end + 4 + int(value)


def percentile(sorted_values: list[float], fraction: float) -> float:
    """The value that exceeds the given fraction of the values."""
    if not sorted_values:
        return 0.0
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * fraction))]

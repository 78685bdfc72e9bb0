# SPDX-License-Identifier: Apache-2.0
"""The load generator of the comparison: the same for each peer and for both APIs.

Each process drives its connections from one thread with epoll. Requests are signed before the
measured time begins. Bodies of objects are one buffer that all requests share. Answers are counted
and discarded, so that an object of 1 GiB needs no memory here.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Protocol

from load import HOST

from compare.answers import Answer, BadAnswer

_STALL_SECONDS_MAX = 120.0
#: Work that a server does after its last answer counts for this long.
_LATE_SECONDS = 0.3
_RECEIVE_BYTES = 262_144
_SEND_BYTES = 1_048_576


class Access(Protocol):
    """The headers that an API asks for."""

    def headers(self, method: str, target: str, body_sha256: str) -> dict[str, str]:
        """The headers that authorize the request."""


@dataclass(frozen=True)
class Step:
    """One request, and the status and length of body that its answer must have."""

    method: str
    target: str
    status: int
    sent_bytes: int = 0
    #: None: any length, but a GET has a body.
    answer_bytes: int | None = None


@dataclass(frozen=True)
class Load:
    """The requests of a pass; each connection takes the next one when its last is answered."""

    port: int
    access: Access
    steps: Sequence[Step]


@dataclass(frozen=True)
class Outcome:
    """The result of a load. ``failures`` are answers that were not as expected."""

    seconds: float
    latencies_ms: list[float]
    failures: list[str]
    client_cpu_ms: float
    server_cpu_ms: float


@dataclass
class _Part:
    """The result of one client process."""

    latencies_ms: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    cpu_ms: float = 0.0


def body_of(size_bytes: int) -> memoryview:
    """The content of every object of a size: digits that do not compress to nothing."""
    unit = hashlib.sha512(b"%d" % size_bytes).hexdigest().encode() * 32
    return memoryview((unit * (size_bytes // len(unit) + 1))[:size_bytes])


def run(load: Load, clients: int, processes: int, cpu_ms: Callable[[], float]) -> Outcome:
    """Send the load over ``clients`` connections, divided among ``processes``.

    ``cpu_ms`` reads the servers' CPU time: as the load begins, and shortly after its last answer.
    A client process that cannot go on is a failure, too.
    """
    processes = min(processes, clients)
    cpu_before, begin = cpu_ms(), time.monotonic()
    context = multiprocessing.get_context("spawn")
    pipes: list[Connection] = []
    workers = []
    for index in range(processes):
        here, there = context.Pipe()
        part = Load(load.port, load.access, load.steps[index::processes])
        count = len(range(index, clients, processes))
        worker = context.Process(target=_work, args=(there, part, count), daemon=True)
        worker.start()
        there.close()
        workers.append(worker)
        pipes.append(here)
    try:
        for pipe in pipes:
            pipe.recv()  # connected
        cpu_before, begin = cpu_ms(), time.monotonic()
        for pipe in pipes:
            pipe.send("go")
        parts: list[_Part] = [pipe.recv() for pipe in pipes]
    except (EOFError, OSError):
        parts = [_Part(failures=["a client process failed"])]
    finally:
        seconds = time.monotonic() - begin
        for pipe in pipes:
            pipe.close()
        for worker in workers:
            worker.join()
    time.sleep(_LATE_SECONDS)
    return Outcome(
        seconds=seconds,
        latencies_ms=sorted(latency for part in parts for latency in part.latencies_ms),
        failures=[failure for part in parts for failure in part.failures],
        client_cpu_ms=sum(part.cpu_ms for part in parts),
        server_cpu_ms=cpu_ms() - cpu_before,
    )


def _work(pipe: Connection, load: Load, connections: int) -> None:
    driver = _Driver(load, connections)
    pipe.send("connected")
    pipe.recv()
    before = time.process_time()
    driver.run()
    driver.part.cpu_ms = (time.process_time() - before) * 1000
    pipe.send(driver.part)


class _Connection:
    """A kept connection with at most one request under way."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.answer = Answer()
        self.step = Step("", "", 0)
        self.since = 0.0
        self._unsent: list[memoryview] = []
        self.connect()

    def connect(self) -> None:
        """Connect, in place of an older connection."""
        self.sock = socket.create_connection((HOST, self._port), timeout=_STALL_SECONDS_MAX)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)

    def begin(self, step: Step, head: bytes, body: memoryview) -> None:
        """Start a request."""
        self.step = step
        self.answer = Answer(has_body=step.method != "HEAD")
        small = len(body) <= _RECEIVE_BYTES
        self._unsent = [memoryview(head + bytes(body))] if small else [memoryview(head), body]
        self.since = time.monotonic()
        self.send()

    def send(self) -> None:
        """Send what the socket takes."""
        while self._unsent:
            piece = self._unsent[0]
            try:
                sent = self.sock.send(piece[:_SEND_BYTES])
            except BlockingIOError:
                return
            if sent < len(piece):
                self._unsent[0] = piece[sent:]
            else:
                del self._unsent[0]

    @property
    def events(self) -> int:
        """The events that this connection waits for."""
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)

    def problem(self) -> str:
        """A sentence if the answer is not the expected one."""
        answer, step = self.answer, self.step
        is_good = answer.status == step.status
        if step.answer_bytes is not None:
            is_good &= answer.body_bytes == step.answer_bytes
        elif step.method == "GET":
            is_good &= answer.body_bytes > 0
        if is_good:
            return ""
        said = bytes(answer.kept[:200]).decode("latin-1")
        what = f"{step.method} {step.target} answered {answer.status}"
        return f"{what}, {answer.body_bytes} bytes: {said}"


class _Driver:
    """The connections of one client process."""

    def __init__(self, load: Load, connections: int) -> None:
        self.part = _Part()
        sizes = {step.sent_bytes for step in load.steps}
        self._bodies = {size: body_of(size) for size in sizes}
        self._prepared = self._prepare(load)
        self._selector = selectors.DefaultSelector()
        self._connections = [_Connection(load.port) for _ in range(connections)]

    def _prepare(self, load: Load) -> Iterator[tuple[Step, bytes]]:
        """Sign all requests now."""
        digests = {size: hashlib.sha256(body).hexdigest() for size, body in self._bodies.items()}
        prepared = []
        for step in load.steps:
            headers = load.access.headers(step.method, step.target, digests[step.sent_bytes])
            headers = {"Host": f"{HOST}:{load.port}", **headers}
            if step.method in ("PUT", "POST"):
                headers["Content-Length"] = str(step.sent_bytes)
                headers["Content-Type"] = "application/octet-stream"
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            prepared.append((step, f"{step.method} {step.target} HTTP/1.1\r\n{lines}\r\n".encode()))
        return iter(prepared)

    def run(self) -> None:
        """Send everything and read every answer."""
        for connection in self._connections:
            if self._begin_next(connection):
                self._selector.register(connection.sock, connection.events, connection)
        while self._selector.get_map():
            ready = self._selector.select(_STALL_SECONDS_MAX)
            if not ready:
                self.part.failures.append(f"no answer within {_STALL_SECONDS_MAX:.0f} s")
                return
            for key, _ in ready:
                self._turn(key.data)

    def _begin_next(self, connection: _Connection) -> bool:
        step, head = next(self._prepared, (None, b""))
        if step is None:
            return False
        connection.begin(step, head, self._bodies[step.sent_bytes])
        return True

    def _turn(self, connection: _Connection) -> None:
        """Send and receive what can be now; go on with the next request after an answer."""
        before = connection.sock, connection.events
        try:
            connection.send()
            problem = self._receive(connection)
        except (OSError, BadAnswer) as error:
            problem = f"{connection.step.method} {connection.step.target}: {error}"
        if problem is None:
            if connection.events != before[1]:
                self._selector.modify(connection.sock, connection.events, connection)
            return
        if problem:
            self.part.failures.append(problem)
        self._selector.unregister(before[0])
        try:
            if problem or connection.answer.is_last:
                connection.sock.close()
                connection.connect()
            if self._begin_next(connection):
                self._selector.register(connection.sock, connection.events, connection)
        except OSError as error:
            self.part.failures.append(f"a connection is lost: {error}")

    def _receive(self, connection: _Connection) -> str | None:
        """Read; return None before the end of the answer, then its problem or nothing."""
        try:
            data = connection.sock.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return None
        if not data:
            raise BadAnswer("the server closed the connection")
        connection.answer.feed(data)
        if not connection.answer.is_whole:
            return None
        self.part.latencies_ms.append((time.monotonic() - connection.since) * 1000)
        return connection.problem()

"""Account or container servers in this process with their replicators, connected without sockets.

Server ``n`` has one device, ``d1``, and port ``n``. All of them share a ring whose primaries a test
chooses.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from storage_calls import Answer, Caller, write_cluster

from account.app import AccountServer
from account.database import AccountDatabase
from container.app import ContainerServer
from container.database import ContainerDatabase
from martlet.http.backend_client import BackendError
from replicator.figures import Figures
from replicator.options import ReplicatorOptions
from replicator.passes import Passes, Selection
from replicator.replication import Replication
from ring.hashing import HashPath
from storage.database_files import entries

PARTITION = 3
HASH_PATH = HashPath(b"", b"test")


class OneRing:
    """A ring with one used partition; ``primaries`` are numbers of servers."""

    partition_count = 8

    def __init__(self, servers: int, primaries: tuple[int, ...]) -> None:
        self.devs: list[dict[str, Any] | None] = [
            {
                "id": number,
                "ip": "127.0.0.1",
                "port": number,
                "replication_ip": "127.0.0.1",
                "replication_port": number,
                "device": "d1",
            }
            for number in range(1, servers + 1)
        ]
        self.primaries = primaries

    def get_part(self, *names: str) -> int:
        return PARTITION

    def get_part_nodes(self, partition: int) -> tuple[dict[str, Any], ...]:
        nodes = [self.devs[number - 1] for number in self.primaries]
        return tuple(node for node in nodes if node is not None)

    def get_more_nodes(self, partition: int) -> Iterator[dict[str, Any]]:
        return (d for d in self.devs if d is not None and d["id"] not in self.primaries)


class Wires:
    """A fake of BackendClient that calls the server of a port. Servers in ``cut`` are silent."""

    node_timeout = 10.0

    def __init__(self) -> None:
        self.callers: dict[int, Caller] = {}
        self.cut: set[int] = set()
        self.seen: list[tuple[int, str]] = []
        #: Ends requests as a crash does: called before and after each with its number.
        self.crash_at: int | None = None
        #: Called before each request with the number of the server and the operation.
        self.before: Callable[[int, str], None] = lambda server, operation: None
        self.requests = 0

    def request(
        self,
        address: tuple[str, int],
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes = b"",
        timeout: float | None = None,
    ) -> WiredAnswer:
        operation = body[2 : body.index(b'"', 2)].decode()
        return self._call(address, method, path, headers, body, operation)

    def _call(
        self,
        address: tuple[str, int],
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
        operation: str,
    ) -> WiredAnswer:
        if address[1] in self.cut:
            raise BackendError(address, "refused")
        self._step()
        self.seen.append((address[1], operation))
        self.before(address[1], operation)
        answer = self.callers[address[1]](method, path, None, headers, body)
        self._step()
        return WiredAnswer(answer)

    def _step(self) -> None:
        self.requests += 1
        if self.requests == self.crash_at:
            raise Killed

    def start_upload(
        self,
        address: tuple[str, int],
        method: str,
        path: str,
        headers: dict[str, str],
        size: int,
        timeout: float,
    ) -> Upload:
        def send(body: bytes) -> WiredAnswer:
            return self._call(address, method, path, headers, body, "copy")

        return Upload(send, size)


class Killed(BaseException):
    """The replicator has been killed."""


class Upload:
    """An upload in progress."""

    def __init__(self, send: Callable[[bytes], WiredAnswer], size: int) -> None:
        """``send`` sends the whole body."""
        self._send = send
        self._size = size
        self._body = b""

    def expect_continue(self) -> None:
        return None

    def send(self, piece: bytes) -> None:
        self._body += piece

    def finish(self) -> WiredAnswer:
        assert len(self._body) == self._size
        return self._send(self._body)

    def abort(self) -> None:
        pass


class WiredAnswer:
    """An answer."""

    def __init__(self, answer: Answer) -> None:
        self.status = answer.status
        self._body = answer.body

    def body(self, limit: int | None = None) -> bytes:
        return self._body

    def iter_chunks(self) -> Iterator[bytes]:
        for start in range(0, len(self._body), 4096):
            yield self._body[start : start + 4096]

    def close(self) -> None:
        pass


class Replicas:
    """Servers of one kind and their replicators; ``call[1]`` calls the first server."""

    def __init__(
        self,
        kind: type[AccountServer] | type[ContainerServer],
        directory: Path,
        servers: int = 4,
        primaries: tuple[int, ...] = (1, 2, 3),
        **options: Any,
    ) -> None:
        self.kind = kind
        self.wires = Wires()
        self.call = self.wires.callers
        self.ring = OneRing(servers, primaries)
        self.now = 1795223500.0 + 1000
        self.options = ReplicatorOptions(**{"databases_per_second": 0.0, **options})
        self.servers: dict[int, AccountServer | ContainerServer] = {}
        self.passes: dict[int, Passes] = {}
        for number in range(1, servers + 1):
            swift_dir = directory / kind.name / str(number)
            swift_dir.mkdir(parents=True)
            write_cluster(swift_dir)
            conf = {"swift_dir": str(swift_dir), "devices": str(swift_dir / "devices")}
            server = kind.from_conf({**conf, "mount_check": "false"}, {})
            self.servers[number] = server
            self.call[number] = Caller(server)
            self.start_replicator(number)

    def start_replicator(self, number: int) -> None:
        """Start a replicator, which knows nothing of passes before."""
        opened = AccountDatabase if self.kind is AccountServer else ContainerDatabase
        ring: Any = self.ring
        wires: Any = self.wires
        replication = Replication(
            self.kind.name, self.options, ring, HASH_PATH, wires, opened, lambda: self.now
        )
        devices = self.servers[number].devices
        self.passes[number] = Passes(
            self.kind.name,
            self.options,
            ring,
            number,
            wires,
            replication,
            lambda device: f"{devices}/{device}",
            lambda: self.now,
        )

    def replicate(self, number: int, selection: Selection | None = None) -> Figures:
        """Run a pass of one replicator."""
        return self.passes[number].run_once(selection)

    def settle(self, *numbers: int) -> None:
        """Run passes of these replicators, by default of all, until one of each sends nothing."""
        for _ in range(6):
            figures = [self.replicate(n) for n in numbers or self.servers]
            assert not any(f.failures for f in figures)
            if not any(f.sent or f.copied or f.partly for f in figures):
                return
        raise AssertionError("the replicas do not settle")

    def everywhere(self, numbers: list[int], method: str, *arguments: Any) -> list[int]:
        """Send one request to several servers and return the statuses."""
        return [self.call[number](method, *arguments).status for number in numbers]

    def database(self, number: int) -> Path | None:
        """The database of the partition on a server; there is one at most."""
        top = Path(self.servers[number].devices) / "d1" / f"{self.kind.name}s"
        found = sorted(top.rglob("*.db"))
        assert len(found) < 2
        return found[0] if found else None

    def query(self, number: int, query: str) -> list[Any]:
        """Rows of the database of a server."""
        path = self.database(number)
        assert path is not None
        with sqlite3.connect(path) as connection:
            return connection.execute(query).fetchall()

    def scratch(self, number: int) -> list[str]:
        """The names in tmp of a server's device."""
        return entries(f"{self.servers[number].devices}/d1/tmp")

    def close(self) -> None:
        for server in self.servers.values():
            server.pool.close()

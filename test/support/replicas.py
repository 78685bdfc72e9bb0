"""Replicas of one account or container on servers in this process, connected without sockets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from storage_calls import Answer, Caller, write_cluster

from account.app import AccountServer
from container.app import ContainerServer
from martlet.http.backend_client import BackendError
from storage.database_files import entries

PARTITION = 3
PRIMARIES = 3


class Ring:
    """A ring in which servers 1 to 3 are the primaries of everything, 4 and 5 the hand-offs."""

    def __init__(self, servers: int) -> None:
        self._nodes = tuple(
            {"ip": "127.0.0.1", "port": port, "device": "d1"} for port in range(1, servers + 1)
        )

    def get_part(self, *names: str) -> int:
        return PARTITION

    def get_part_nodes(self, partition: int) -> tuple[dict[str, Any], ...]:
        return self._nodes[:PRIMARIES]

    def get_more_nodes(self, partition: int) -> Iterator[dict[str, Any]]:
        return iter(self._nodes[PRIMARIES:])


class Wires:
    """A fake of the servers' clients: calls the server of a port. Servers in ``cut`` are silent."""

    node_timeout = 3.0

    def __init__(self) -> None:
        self.callers: dict[int, Caller] = {}
        self.cut: set[int] = set()
        self.seen: list[tuple[int, str]] = []
        self.spoilt: dict[int, bytes] = {}  # sent by a server in place of its copy

    def start(
        self,
        address: tuple[str, int],
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes = b"",
        timeout: float | None = None,
    ) -> Exchange:
        self.seen.append((address[1], method))
        if address[1] in self.cut:
            raise BackendError(address, "refused")
        answer = self.callers[address[1]](method, path)
        if method == "SNAPSHOT" and address[1] in self.spoilt:
            answer = Answer(200, answer.headers, self.spoilt[address[1]])
        return Exchange(answer)


class Exchange:
    """A request in progress, and its answer."""

    def __init__(self, answer: Answer) -> None:
        self.status = answer.status
        self.headers = {name.lower(): value for name, value in answer.headers.items()}
        self._body = answer.body

    def response(self, timeout: float | None = None) -> Exchange:
        return self

    def iter_chunks(self) -> Iterator[bytes]:
        for start in range(0, len(self._body), 4096):
            yield self._body[start : start + 4096]

    def close(self) -> None:
        pass

    abort = close


class Replicas:
    """Five account or container servers; ``call[1]`` calls the first."""

    def __init__(self, kind: type[AccountServer] | type[ContainerServer], directory: Path) -> None:
        self.wires = Wires()
        self.now = 1000.0
        self.call = self.wires.callers
        self.servers: dict[int, AccountServer | ContainerServer] = {}
        for port in range(1, 6):
            swift_dir = directory / kind.name / str(port)
            swift_dir.mkdir(parents=True)
            write_cluster(swift_dir)
            conf = {"swift_dir": str(swift_dir), "devices": str(swift_dir / "devices")}
            server = kind.from_conf({**conf, "mount_check": "false"}, {})
            server.restorer._client = self.wires  # type: ignore[assignment]
            server.restorer._open_ring = lambda: Ring(5)  # type: ignore[assignment,return-value]
            server.restorer._clock = lambda: self.now
            self.servers[port] = server
            self.call[port] = Caller(server)

    def everywhere(self, ports: list[int], method: str, *arguments: Any) -> list[int]:
        """Send one request to several servers and return the statuses."""
        return [self.call[port](method, *arguments).status for port in ports]

    def scratch(self, port: int) -> list[str]:
        """Return the files in tmp of a server's device."""
        return entries(f"{self.servers[port].devices}/d1/tmp")

    def close(self) -> None:
        for server in self.servers.values():
            server.pool.close()

"""Account servers that note what containers report to them."""

from __future__ import annotations

import json
from typing import Any

from storage_calls import stamp

from container.reporter import Reporter
from martlet.http.backend_client import BackendError

#: A container, as paths of requests name it, and a row of an object.
CONTAINER = "/d1/0/AUTH_test/c"
ROW = {"name": "o", "created_at": stamp(2), "size": 5, "content_type": "a/b", "etag": "e"}


def devices(reporter: Reporter) -> str:
    """The directory with the devices of its server."""
    return reporter._sweeper._devices


def proxy_headers(**changes: str) -> dict[str, str]:
    """The headers with which a proxy names three replicas of the account."""
    return {
        "X-Account-Host": "10.0.0.1:1, 10.0.0.2:2,[::1]:3",
        "X-Account-Device": "sda, sdb,sdc",
        "X-Account-Partition": "77",
    } | {name.replace("_", "-"): value for name, value in changes.items()}


class AccountServers:
    """Stands for the account servers: notes what they are told, and answers with ``statuses``."""

    def __init__(self) -> None:
        self.requests: list[tuple[tuple[str, int], str, str, dict[str, str]]] = []
        self.statuses: dict[int, int] = {}  # port -> status; 0 is a lost connection
        self.rows: list[tuple[int, list[dict[str, Any]]]] = []  # port, and what it was told
        self.is_of_swift = False  # it has no UPDATE
        self.later: dict[int, str] = {}  # port -> the time of the later totals that it keeps

    def start(
        self,
        address: tuple[str, int],
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes = b"",
    ) -> Exchange:
        self.requests.append((address, method, path, headers))
        status = self.statuses.get(address[1], 201)
        if method == "UPDATE":
            self.rows.append((address[1], json.loads(body)))
            status = 405 if self.is_of_swift else status
            at = self.rows[-1][1][0]["reported_at"]
        else:
            self.rows.append((address[1], [{"name": path.rpartition("/")[2]}]))
            at = headers["X-Backend-Reported-At"]
        if status == -1:
            raise BackendError(address, "refused")
        later = self.later.get(address[1], "")
        return Exchange(address, status, later if at < later else "")

    def take(self) -> list[tuple[tuple[str, int], str, str, dict[str, str]]]:
        taken, self.requests, self.rows = self.requests, [], []
        return taken

    def take_names(self) -> list[tuple[int, str]]:
        """The ports and the containers that they were told of."""
        taken = sorted((port, row["name"]) for port, rows in self.rows for row in rows)
        self.take()
        return taken


class Exchange:
    """An answer under way; also the answer."""

    def __init__(self, address: tuple[str, int], status: int, later: str) -> None:
        self.address, self.status = address, status
        self.headers = {"x-backend-reported-at": later} if later else {}

    def response(self) -> Exchange:
        if not self.status:
            raise BackendError(self.address, "lost")
        return self

    def close(self) -> None:
        pass

    abort = close


class Ring:
    """Three replicas of every account."""

    def get_nodes(self, account: str) -> tuple[int, list[dict[str, Any]]]:
        return 3, [{"ip": "::1", "port": port, "device": f"d{port}"} for port in (1, 2, 3)]

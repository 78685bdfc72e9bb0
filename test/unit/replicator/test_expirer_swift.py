"""OpenStack Swift's own container server (from PyPI) takes the removal of tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from swift.common import storage_policy
from swift.common.swob import Request as SwiftRequest
from swift.container.server import ContainerController

from martlet.http.internal_client import InternalClient
from martlet.words.names import quote_path
from martlet.words.timestamp import Timestamp
from replicator.expirer.queue import Queue

QUEUE = "/sda1/7/.expiring_objects/1699919934"
TASKS = ["1700000000-a/c/o", "1700000001-a/c/p \u00fc"]


class SwiftServer:
    """One container server of Swift, as the ring and the backend client of a queue."""

    def __init__(self, devices: Path) -> None:
        (devices / "sda1").mkdir()
        self._app = ContainerController({"devices": str(devices), "mount_check": "false"})

    def call(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> Any:
        environ = {"REQUEST_METHOD": method}
        request = SwiftRequest.blank(path, environ, headers=headers, body=body)
        return request.get_response(self._app)

    def tasks(self) -> list[str]:
        answer = self.call("GET", f"{QUEUE}?format=json", {})
        return [row["name"] for row in json.loads(answer.body)]

    def get_nodes(self, account: str, container: str) -> tuple[int, list[dict[str, Any]]]:
        return 7, [{"ip": "::1", "port": 1, "device": "sda1"}]

    def start(
        self, address: tuple[str, int], method: str, path: str, headers: dict[str, str], body: bytes
    ) -> SwiftServer:
        self.status = self.call(method, path, headers, body).status_int
        return self

    def response(self) -> SwiftServer:
        return self

    def close(self) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Any:
    before = storage_policy._POLICIES
    policies = [storage_policy.StoragePolicy(0, "gold", is_default=True)]
    storage_policy._POLICIES = storage_policy.StoragePolicyCollection(policies)
    yield SwiftServer(tmp_path)
    storage_policy._POLICIES = before


def test_rows_are_removed_from_swifts_container_server(server: SwiftServer) -> None:
    for name in TASKS:
        headers = {"X-Timestamp": "1699990000.00000", "X-Size": "0", "X-Etag": "e"}
        headers |= {"X-Content-Type": "text/plain", "X-Backend-Storage-Policy-Index": "0"}
        assert server.call("PUT", quote_path(f"{QUEUE}/{name}"), headers).status_int == 201
    assert server.tasks() == TASKS
    client = InternalClient(lambda environ, start_response: [], "test", 1)
    queue = Queue(".expiring_objects", client, server, server)  # type: ignore[arg-type]
    assert queue.remove("1699919934", TASKS[1:], Timestamp("1700000005.00000"))
    assert server.tasks() == TASKS[:1]
    assert queue.remove("1699919934", TASKS, Timestamp("1700000006.00000"))
    assert server.tasks() == []

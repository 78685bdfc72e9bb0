"""Object servers with a rate limit: other servers take the requests above it."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running_cluster import RunningCluster, await_true
from storage_connection import StorageConnection
from swift_api import Account

from cluster.ports import HOST

NODES = ("node1", "node2", "node3", "node4")
METHODS = ("PUT", "POST", "GET", "HEAD", "DELETE")
NO_LIMIT = "[backend_ratelimit]\n"
NAMES = [f"o{number}" for number in range(12)]
LARGE = b"sent in pieces " * 20_000


class Limits:
    """The limits of the four object servers, changed while they run."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.cluster = cluster
        self.confs: dict[Path, str] = {}
        for node in NODES:
            conf = cluster.home / "etc" / node / "object-server.conf"
            self.confs[conf] = text = conf.read_text()
            self._file(node).write_text(NO_LIMIT)
            text = text.replace("recon object-server", "recon backend_ratelimit object-server")
            assert text != self.confs[conf]
            conf.write_text(
                f"{text}\n[filter:backend_ratelimit]\nuse = egg:martlet#backend_ratelimit\n"
                f"backend_ratelimit_conf_path = {self._file(node)}\n"
                "config_reload_interval = 0.05\n"
            )
        cluster.kill_and_await_restart(*(f"object-server-{node}" for node in NODES))

    def limit(self, node: str) -> None:
        """Make the node's devices refuse all requests that a client can cause."""
        lines = [f"{method.lower()}_requests_per_device_per_second = 1e-6" for method in METHODS]
        lines.append("requests_per_device_rate_buffer = 0")
        self._file(node).write_text(NO_LIMIT + "\n".join(lines))
        await_true(lambda: all(self._asked(node, m) == 529 for m in METHODS), f"limits of {node}")

    def lift(self) -> None:
        for node in NODES:
            self._file(node).write_text(NO_LIMIT)
        await_true(lambda: all(self._asked(node, "GET") == 404 for node in NODES), "no limits")

    def refused(self, node: str) -> dict[str, int]:
        """Return the number of requests that the node's devices refused, by method."""
        found: dict[str, int] = {}
        _, body = self._request(node, "GET", "/recon/backend_ratelimit")
        for counts in json.loads(body)["refused"].values():
            for method, count in counts.items():
                found[method] = found.get(method, 0) + count
        return found

    def restore(self) -> None:
        """Remove the limits now, and restore the confs for the next start."""
        self.lift()
        for conf, text in self.confs.items():
            conf.write_text(text)

    def _file(self, node: str) -> Path:
        return self.cluster.home / "etc" / node / "limits.conf"

    def _devices(self, node: str) -> list[str]:
        names = [path.name for path in (self.cluster.home / "devices" / node).iterdir()]
        return [name for name in names if not name.startswith(".")]  # .martlet-devices

    def _asked(self, node: str, method: str) -> int:
        """Return the answer of all of the node's devices to a request, -1 if they differ."""
        paths = [f"/{device}/0/a/c/nothing" for device in self._devices(node)]
        statuses = {self._request(node, method, path)[0] for path in paths}
        return statuses.pop() if len(statuses) == 1 else -1

    def _request(self, node: str, method: str, path: str) -> tuple[int, bytes]:
        port = self.cluster.storage_port("object", NODES.index(node) + 1)
        connection = StorageConnection(self.cluster.home, HOST, port)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


@pytest.fixture
def limits(four_nodes: RunningCluster) -> Iterator[Limits]:
    limits = Limits(four_nodes)
    yield limits
    limits.restore()


def statuses(account: Account, method: str, container: str, body: bytes | None = None) -> set[int]:
    return {account.call(method, container, name, body=body).status for name in NAMES}


def bulk_upload(account: Account, container: str, names: list[str]) -> dict[str, Any]:
    """Return the report of an archive's upload; its files are sent in batches."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in names:
            tar.addfile(tarfile.TarInfo(name))
    path = account.url(container, **{"extract-archive": "tar"})
    answer = account.send("PUT", path, {"Accept": "application/json"}, archive.getvalue())
    return {"files": answer.json["Number Files Created"], "errors": answer.json["Errors"]}


def test_clients_see_nothing_of_one_server_that_is_busy(
    four_nodes: RunningCluster, limits: Limits
) -> None:
    account = Account(four_nodes.port)
    assert account.call("PUT", "busy").status == 201
    log = four_nodes.home / "logs" / "proxy-server.log"
    logged_before = log.stat().st_size
    limits.limit("node2")
    before = limits.refused("node2")
    for body in (b"small", LARGE):
        assert statuses(account, "PUT", "busy", body) == {201}
        assert {account.call("GET", "busy", name).body for name in NAMES} == {body}
        # The server may have missed the PUT, so only a read from all replicas reaches it.
        newest = {"X-Newest": "true"}
        heads = {account.call("HEAD", "busy", name, headers=newest).status for name in NAMES}
        assert heads == {200}
        assert statuses(account, "POST", "busy") == {202}
        assert statuses(account, "DELETE", "busy") == {204}
        assert statuses(account, "GET", "busy") == {404}
    assert bulk_upload(account, "busy", NAMES) == {"files": len(NAMES), "errors": []}
    assert statuses(account, "GET", "busy") == {200}
    after = limits.refused("node2")
    assert {method for method in METHODS if after[method] > before[method]} == set(METHODS)
    with log.open() as lines:
        lines.seek(logged_before)
        text = lines.read()
    assert "backend_busy" in text
    assert "device_suppressed" not in text

    # The client must retry only if no server has a turn left; nothing is lost then.
    limits.lift()
    assert statuses(account, "PUT", "busy", b"kept") == {201}
    for node in NODES:
        limits.limit(node)
    errors = bulk_upload(account, "busy", NAMES)["errors"]
    assert {status for _, status in errors} == {"503 Service Unavailable"}
    for method in METHODS:
        assert statuses(account, method, "busy", b"lost" if method == "PUT" else None) == {503}
    limits.lift()
    # Another worker may answer now: it does not know which server was late with the last PUT.
    found = {account.call("GET", "busy", name, headers=newest).body for name in NAMES}
    assert found == {b"kept"}

"""OpenStack Swift's own replicator sends to our servers, and ours to its server (from PyPI)."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from replicating import HASH_PATH, PARTITION, OneRing, Replicas, Wires
from storage_calls import Answer, stamp
from swift.account.backend import AccountBroker
from swift.account.replicator import AccountReplicator
from swift.common import ring, storage_policy
from swift.container.backend import ContainerBroker
from swift.container.replicator import ContainerReplicator, ContainerReplicatorRpc

from martlet.http.headers import Headers
from storage.database_files import database_path

A = f"/d1/{PARTITION}/AUTH_test"
C = f"{A}/c"
NODE = {
    "ip": "127.0.0.1",
    "port": 1,
    "replication_ip": "127.0.0.1",
    "replication_port": 1,
    "device": "d1",
    "id": 1,
    "region": 1,
}


class Connection:
    """The connection of Swift's replicator, to our server."""

    def __init__(self, replicas: Replicas, path: str) -> None:
        self.host, self.path, self.node = "ours", path, NODE
        self._replicas = replicas
        self.seen: list[tuple[str, int]] = []

    def replicate(self, *words: Any) -> Any:
        answer = self._replicas.call[1]("REPLICATE", self.path, None, {}, list(words))
        self.seen.append((words[0], answer.status))
        return type("Response", (), {"status": answer.status, "data": answer.body})()


def swift_replicator(kind: Any, monkeypatch: pytest.MonkeyPatch, **conf: Any) -> Any:
    monkeypatch.setattr(ring, "Ring", lambda *arguments, **named: OneRing(1, (1,)))
    OneRing.replica_count = 3  # type: ignore[attr-defined]
    return kind({"per_diff": 5, **conf})


def path_of(kind: str, top: Path, *names: str) -> str:
    return database_path(str(top), kind, str(PARTITION), HASH_PATH.hexdigest(*names))


def swift_container(top: Path, policy: int = 0) -> ContainerBroker:
    path = path_of("containers", top, "AUTH_test", "c")
    Path(path).parent.mkdir(parents=True)
    broker = ContainerBroker(path, account="AUTH_test", container="c")
    broker.initialize(stamp(1), policy)
    return broker


@pytest.fixture
def two_policies() -> Any:
    policies = [
        storage_policy.StoragePolicy(0, "gold", is_default=True),
        storage_policy.StoragePolicy(1, "silver"),
    ]
    before = storage_policy._POLICIES
    storage_policy._POLICIES = storage_policy.StoragePolicyCollection(policies)
    yield
    storage_policy._POLICIES = before


@pytest.mark.usefixtures("two_policies")
def test_swifts_container_replicator_to_our_server(
    containers: Replicas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = swift_container(tmp_path / "swift")
    for number in range(5):
        broker.put_object(f"o{number}", stamp(2 + number), 7, "text/plain", "e")
    broker.delete_object("o1", stamp(9))
    broker.update_metadata({"X-Container-Meta-Color": ("red", stamp(3))})
    assert containers.call[1]("PUT", C, 1, {"X-Container-Meta-Form": "round"}).status == 201
    assert containers.call[1]("PUT", f"{C}/o0", 9, {
        "X-Size": "1", "X-Etag": "new", "X-Content-Type": "a/b"
    }).status == 201  # fmt: skip
    replicator = swift_replicator(ContainerReplicator, monkeypatch)
    path = f"/d1/{PARTITION}/{HASH_PATH.hexdigest('AUTH_test', 'c')}"
    connection = Connection(containers, path)
    monkeypatch.setattr(replicator, "_http_connect", lambda *_: connection)
    info = broker.get_replication_info()
    assert replicator._repl_to_node(NODE, broker, str(PARTITION), info)
    assert connection.seen == [
        ("sync", 200),
        ("merge_items", 202),
        ("merge_syncs", 202),
    ]
    entries = containers.call[1]("GET", f"{C}?format=json").json()
    assert [(e["name"], e["hash"]) for e in entries] == [
        ("o0", "new"),
        ("o2", "e"),
        ("o3", "e"),
        ("o4", "e"),
    ]
    head = containers.call[1]("HEAD", C)
    assert head.headers["X-Container-Meta-Color"] == "red"
    assert broker.metadata["X-Container-Meta-Form"] == ["round", stamp(1)]
    # The second time there is nothing to do.
    connection.seen.clear()
    info = broker.get_replication_info()
    assert replicator._repl_to_node(NODE, broker, str(PARTITION), info)
    assert connection.seen == [("sync", 200)]
    assert replicator.stats["no_change"] == 1


def test_swifts_account_replicator_to_our_server(
    accounts: Replicas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = path_of("accounts", tmp_path / "swift", "AUTH_test")
    Path(path).parent.mkdir(parents=True)
    broker = AccountBroker(path, account="AUTH_test")
    broker.initialize(stamp(1))
    broker.put_container("there", stamp(2), "0", 3, 30, 0)
    broker.put_container("gone", stamp(2), stamp(4), 0, 0, 0)
    assert accounts.call[1]("PUT", A, 1).status == 201
    replicator = swift_replicator(AccountReplicator, monkeypatch)
    connection = Connection(accounts, f"/d1/{PARTITION}/{HASH_PATH.hexdigest('AUTH_test')}")
    monkeypatch.setattr(replicator, "_http_connect", lambda *_: connection)
    info = broker.get_replication_info()
    assert replicator._repl_to_node(NODE, broker, str(PARTITION), info)
    assert connection.seen[0] == ("sync", 200)
    assert accounts.call[1]("GET", f"{A}?format=json").json()[0]["count"] == 3
    assert [e["name"] for e in accounts.call[1]("GET", f"{A}?format=json").json()] == ["there"]


class SwiftServer(Wires):
    """Swift's side of REPLICATE as a client of our replicator."""

    def __init__(self, root: Path, kind: str, broker: Any, rpc: Any) -> None:
        super().__init__()
        self._rpc = rpc(str(root), kind, broker, mount_check=False)
        self.callers[9] = self._answer  # type: ignore[assignment]

    def _answer(
        self, method: str, path: str, time: None, headers: dict[str, str], body: bytes
    ) -> Answer:
        device, partition, name = path.strip("/").split("/")
        response = self._rpc.dispatch((device, partition, name), json.loads(body))
        return Answer(response.status_int, Headers([]), response.body)


def test_our_replicator_to_swifts_server(containers: Replicas, tmp_path: Path) -> None:
    broker = swift_container(tmp_path / "swift" / "d1")
    broker.put_object("theirs", stamp(5), 7, "text/plain", "e")
    containers.everywhere([1], "PUT", C, 1, {"X-Container-Meta-Color": "red"})
    row = {"name": "o", "created_at": stamp(2), "size": 2, "content_type": "a/b", "etag": "e"}
    versions = [
        {**row, "name": "v", "created_at": stamp(t), "version_id": stamp(t)} for t in (3, 4)
    ]
    containers.everywhere([1], "UPDATE", C, 2, {}, [row, *versions])
    server = SwiftServer(tmp_path / "swift", "containers", ContainerBroker, ContainerReplicatorRpc)
    containers.wires.callers[9] = server.callers[9]
    theirs = {**containers.ring.devs[1], "id": 9, "replication_port": 9}  # type: ignore[dict-item]
    containers.ring.devs.append(theirs)
    containers.ring.get_part_nodes = lambda partition: (  # type: ignore[method-assign,assignment]
        containers.ring.devs[0],
        theirs,
    )
    figures = containers.replicate(1)
    assert (figures.sent, figures.failures) == (1, 0)
    assert [r[0] for r in broker.list_objects_iter(10, "", "", "", "")] == ["o", "theirs", "v"]
    assert broker.metadata["X-Container-Meta-Color"] == ["red", stamp(1)]
    containers.start_replicator(1)
    figures = containers.replicate(1)
    assert (figures.same, figures.sent, figures.failures) == (1, 0, 0)
    figures = containers.replicate(1)  # Swift cannot tell which databases it misses
    assert (figures.unchanged, figures.same, figures.failures) == (0, 1, 0)


def test_the_sync_points_are_those_that_swift_would_store(
    containers: Replicas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The programs may work on one database, one after the other."""
    broker = swift_container(tmp_path / "swift")
    broker.put_object("o", stamp(2), 7, "text/plain", "e")
    containers.call[1]("PUT", C, 1)
    replicator = swift_replicator(ContainerReplicator, monkeypatch)
    path = f"/d1/{PARTITION}/{HASH_PATH.hexdigest('AUTH_test', 'c')}"
    monkeypatch.setattr(replicator, "_http_connect", lambda *_: Connection(containers, path))
    info = broker.get_replication_info()
    assert replicator._repl_to_node(NODE, broker, str(PARTITION), info)
    points = dict(containers.query(1, "SELECT remote_id, sync_point FROM incoming_sync"))
    assert points[info["id"]] == info["max_row"]
    with sqlite3.connect(str(containers.database(1))) as connection:
        (mine,) = connection.execute("SELECT id FROM container_info").fetchone()
    assert broker.get_sync(mine, incoming=False) == info["max_row"]

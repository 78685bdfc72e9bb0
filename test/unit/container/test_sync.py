"""What is brought to another cluster, by whom, and how far it is remembered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from storage_calls import Caller, stamp

from container.app import ContainerServer
from container.config import SyncOptions
from container.database import ContainerDatabase
from container.sync import ContainerSync, Held
from container.sync_remote import RemoteError
from container.sync_rows import SyncPoints, read_points, rows_after
from martlet.conf.sync_realms import CONF_NAME, SyncRealms, SyncTarget
from martlet.http.environ import Environ, StartResponse
from martlet.http.internal_client import InternalClient
from martlet.http.request import Request
from martlet.http.response import Response
from martlet.words.timestamp import Timestamp
from ring.hashing import HashPath

CONTAINER = "/d1/1/a/c"
TARGET = {"X-Container-Sync-To": "//us/b/x/y", "X-Container-Sync-Key": "user"}
WRITTEN = {"X-Size": "1", "X-Content-Type": "a/b", "X-Etag": "e"}


class FakeRemote:
    """Another cluster: objects by name, with the time when they were written."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[str, bytes, dict[str, str]]] = {}
        self.is_down = False
        self.calls: list[str] = []

    def written_at(self, target: SyncTarget, key: str, name: str, timestamp: str) -> Any:
        assert (target.url, target.realm, key) == ("http://b/v1/x/y", "US", "user")
        self._call("HEAD", name)
        found = self.objects.get(name)
        return Timestamp(found[0]) if found else None

    def put(
        self,
        target: SyncTarget,
        key: str,
        name: str,
        timestamp: str,
        headers: Mapping[str, str],
        body: Iterable[bytes],
    ) -> None:
        self._call("PUT", name)
        self.objects[name] = (timestamp, b"".join(body), dict(headers))

    def delete(self, target: SyncTarget, key: str, name: str, timestamp: str) -> None:
        self._call("DELETE", name)
        self.objects.pop(name, None)

    def _call(self, method: str, name: str) -> None:
        if self.is_down or name.startswith("bad"):
            raise RemoteError("down")
        self.calls.append(f"{method} {name}")


class Cluster:
    """The container server, the objects behind it, and the daemon as one of its replicas."""

    def __init__(self, server: ContainerServer, folder: Path) -> None:
        self.call = Caller(server)
        self.remote = FakeRemote()
        self.path = server.database_path(f"{folder}/devices/d1", "1", "a", "c")
        self.missing: set[str] = set()
        self._time = 0
        (folder / CONF_NAME).write_text("[us]\nkey = k\ncluster_b = http://b/v1/\n")
        self._realms = SyncRealms(str(folder))
        assert self.call("PUT", CONTAINER, 0, TARGET).status == 201

    def write(self, *names: str) -> None:
        for name in names:
            self._time += 1
            path = f"{CONTAINER}/{name}"
            assert self.call("PUT", path, self._time, WRITTEN).status == 201

    def delete(self, name: str) -> None:
        self._time += 1
        assert self.call("DELETE", f"{CONTAINER}/{name}", self._time).status == 204

    def sync(self, replica: int = 0, replicas: int = 1, **options: Any) -> int:
        daemon = ContainerSync(
            SyncOptions(**options),
            [],
            self._realms,
            InternalClient(self._objects, "test", 1),
            self.remote,  # type: ignore[arg-type]
            HashPath(b"", b"salt"),
            lambda: iter([Held(self.path, replica, replicas)]),
        )
        return daemon.run_once()

    def _objects(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        name = environ["PATH_INFO"].rpartition("/")[2]
        if name in self.missing:
            return Response(404)(environ, start_response)
        with_time = {"X-Timestamp": stamp(self._time), "Etag": '"e"', "X-Backend-Timestamp": "1"}
        assert Request(environ).params == {"symlink": "get"}
        headers = {**with_time, "X-Object-Meta-Name": name, "Date": "now"}
        return Response(200, headers, name.encode())(environ, start_response)

    @property
    def points(self) -> SyncPoints:
        database = ContainerDatabase(self.path)
        try:
            return read_points(database)
        finally:
            database.close()

    @property
    def last_row(self) -> int:
        database = ContainerDatabase(self.path)
        try:
            return rows_after(database, -1, 10_000)[-1].rowid
        finally:
            database.close()


@pytest.fixture
def cluster(server: ContainerServer, swift_dir: Path) -> Cluster:
    return Cluster(server, swift_dir)


def test_rows_are_brought_over_once(cluster: Cluster) -> None:
    cluster.write("a", "b")
    cluster.delete("a")
    assert cluster.sync() == 0
    assert set(cluster.remote.objects) == {"b"}
    time, body, headers = cluster.remote.objects["b"]
    assert (time, body) == (stamp(3), b"b")
    assert headers["X-Object-Meta-Name"] == "b"
    assert headers["Etag"] == "e"
    assert not {"Date", "X-Backend-Timestamp", "X-Timestamp"} & set(headers)
    assert cluster.points == SyncPoints(cluster.last_row, -1)
    cluster.sync()
    assert cluster.points == SyncPoints(cluster.last_row, cluster.last_row)
    done = len(cluster.remote.calls)
    cluster.sync()
    assert len(cluster.remote.calls) == done
    assert [call for call in cluster.remote.calls if call.startswith("PUT")] == ["PUT b"]


def test_replicas_share_the_work_and_check_each_other(cluster: Cluster) -> None:
    names = [f"o{number}" for number in range(30)]
    cluster.write(*names)
    cluster.sync(replica=0, replicas=3)
    first = set(cluster.remote.objects)
    assert 0 < len(first) < len(names)
    cluster.sync(replica=0, replicas=3)  # the others never came
    assert set(cluster.remote.objects) == set(names)


def test_what_fails_is_tried_again(cluster: Cluster) -> None:
    cluster.write("a", "bad", "c")
    assert cluster.sync() == 1
    assert set(cluster.remote.objects) == {"a", "c"}
    assert cluster.sync() == 1
    assert cluster.points.checked == 1
    cluster.delete("bad")
    cluster.remote.is_down = True
    assert cluster.sync() > 0
    assert cluster.points.checked == 2  # row 2 was replaced; c could not be looked for
    cluster.remote.is_down = False
    cluster.write("d")
    cluster.sync()
    assert "d" in cluster.remote.objects


def test_an_object_that_is_gone_is_no_failure(cluster: Cluster) -> None:
    cluster.write("a")
    cluster.missing.add("a")
    assert cluster.sync() == 0
    assert cluster.remote.objects == {}


def test_a_newer_object_over_there_stays(cluster: Cluster) -> None:
    cluster.write("a")
    cluster.remote.objects["a"] = (stamp(100), b"theirs", {})
    assert cluster.sync() == 0
    assert cluster.remote.objects["a"][1] == b"theirs"


def test_a_new_target_starts_from_the_first_row(cluster: Cluster) -> None:
    cluster.write("a")
    cluster.sync()
    cluster.sync()
    assert cluster.points == SyncPoints(1, 1)
    key = {"X-Container-Sync-Key": "new"}
    assert cluster.call("POST", CONTAINER, 50, key).status == 204
    assert cluster.points == SyncPoints(1, 1)
    target = {"X-Container-Sync-To": "//us/b/x/z"}
    assert cluster.call("POST", CONTAINER, 51, target).status == 204
    assert cluster.points == SyncPoints(-1, -1)
    assert cluster.call("PUT", CONTAINER, 52, target).status == 202
    assert cluster.points == SyncPoints(-1, -1)


@pytest.mark.parametrize("method", ["PUT", "POST"])
@pytest.mark.parametrize("target", ["//us/none/a/c", "//eu/b/a/c", "http://elsewhere/v1/a/c", "x"])
def test_a_target_that_cannot_be_is_refused(cluster: Cluster, method: str, target: str) -> None:
    answer = cluster.call(method, CONTAINER, 60, {"X-Container-Sync-To": target})
    assert answer.status == 400


def test_containers_without_a_target_are_left_alone(cluster: Cluster) -> None:
    cluster.write("a")
    nowhere = {"X-Container-Sync-To": ""}
    assert cluster.call("POST", CONTAINER, 70, nowhere).status == 204
    assert cluster.sync() == 0
    assert cluster.remote.calls == []


def test_a_container_with_versions_is_not_synced(cluster: Cluster) -> None:
    cluster.write("a")
    enabled = {"X-Container-Sysmeta-Versions-Enabled": "True"}
    assert cluster.call("POST", CONTAINER, 80, enabled).status == 204
    assert (cluster.sync(), cluster.remote.calls) == (1, [])
    suspended = {"X-Container-Sysmeta-Versions-Enabled": "False"}
    assert cluster.call("POST", CONTAINER, 81, suspended).status == 204
    assert cluster.sync() == 0
    assert cluster.remote.calls == ["HEAD a", "PUT a"]


def test_there_is_an_end_to_the_work_of_a_pass(cluster: Cluster) -> None:
    cluster.write(*(f"o{number}" for number in range(5)))
    cluster.sync(container_time=1e-9)
    assert cluster.remote.calls == []

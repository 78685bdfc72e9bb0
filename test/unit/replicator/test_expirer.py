"""The expirer against a cluster in memory: only what has expired is deleted, whatever fails."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from martlet.http.backend_client import BackendError
from martlet.http.environ import MADE_OF, Environ, StartResponse
from martlet.http.internal_client import InternalClient
from martlet.http.request import Request
from martlet.http.response import Response
from martlet.words.expiring import ASYNC_DELETE_TYPE, task_container, task_name
from martlet.words.part_numbers import PARTS
from martlet.words.timestamp import Timestamp
from replicator.expirer import passes, uses
from replicator.expirer.options import Delays, ExpirerOptions
from replicator.expirer.passes import Expirer, Figures
from replicator.expirer.queue import Queue, QueueError

START = 1700000000
ACCOUNT = ".expiring_objects"


class Killed(BaseException):
    """The process ends at this moment."""


@dataclass
class Stored:
    """An object; without a body, its tombstone."""

    time: Timestamp
    delete_at: int | None = None
    is_there: bool = True
    upload: str = ""  # the id of the multipart upload that it was
    manifest: bytes = b""
    old: str = ""  # the same of a version that is not current
    missed: str = ""  # the same of an object that a replica still has, which missed this one
    version: str = ""
    listed: str = ""  # the numbers of its parts


@dataclass
class Cluster:
    """Objects with the rules of an object server, the queue, and requests that fail."""

    objects: dict[str, Stored] = field(default_factory=dict)
    queue: dict[str, dict[str, tuple[Timestamp, str]]] = field(default_factory=dict)
    fails: list[int] = field(default_factory=list)  # statuses; 0 kills the process
    requests: list[tuple[str, str]] = field(default_factory=list)
    updates: list[tuple[int, str, list[str]]] = field(default_factory=list)
    silent: set[int] = field(default_factory=set)  # container servers
    removed: list[str] = field(default_factory=list)
    versions_status: int = 200  # else all questions about versions are answered with it
    now: float = 100  # seconds after START

    def put(self, name: str, at: float, delete_at: int | None = None) -> None:
        """Write an object, and its task as an object server does."""
        path, time = f"/a/c/{name}", Timestamp(START + at)
        known = self.objects.get(path)
        if known is not None and known.time >= time:
            return
        self.objects[path] = Stored(time, delete_at)
        if delete_at is not None:
            self.add_task(delete_at, name, time)

    def add_task(
        self, delete_at: int, name: str, time: Timestamp, kind: str = "text/plain"
    ) -> None:
        container = task_container(name.encode(), delete_at)
        row = task_name(delete_at, "a", "c", name)
        self.queue.setdefault(container, {})[row] = time, kind

    @property
    def tasks(self) -> list[str]:
        return sorted(name for rows in self.queue.values() for name in rows)

    @property
    def there(self) -> set[str]:
        return {path[5:] for path, stored in self.objects.items() if stored.is_there}

    # What the expirer asks of its proxy.

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        req = Request(environ)
        path = req.path.removeprefix("/v1")
        self.requests.append((req.method, path))
        status = self.fails.pop() if self.fails else None
        if status == 0:
            raise Killed
        if status is not None:
            return Response(status)(environ, start_response)
        if path.startswith(f"/{ACCOUNT}"):
            return self._of_queue(req, path)(environ, start_response)
        known = self.objects.get(path)
        headers = {"X-Timestamp": known.time.normal} if known is not None else {}
        if MADE_OF in environ:
            return self._made(known, *environ[MADE_OF])(environ, start_response)
        if known is not None and known.upload:
            headers["X-Object-Sysmeta-S3api-Upload-Id"] = known.upload
        if req.method == "GET":
            assert known is not None
            headers["X-Backend-Data-Timestamp"] = known.time.normal
            if known.version:
                headers["X-Backend-Version-Id"] = known.version
            if known.listed:
                headers[PARTS] = known.listed
            assert req.params["multipart-manifest"] == "get"
            return Response(200, headers, known.manifest)(environ, start_response)
        return Response(self._delete(req, path), headers)(environ, start_response)

    def _made(
        self, known: Stored | None, upload_id: str, removed: str, needs_all: bool
    ) -> Response:
        assert (removed, needs_all) == ("", True)
        if self.versions_status != 200:
            return Response(self.versions_status)
        named = {"X-Object-Sysmeta-S3api-Upload-Id": upload_id}
        if known is not None and known.old == upload_id:
            return Response(200, {**named, "X-Backend-Version-Id": "1600000000.00000"})
        if known is not None and known.missed == upload_id:
            earlier = {**named, "X-Backend-Data-Timestamp": Timestamp(START).normal}
            return Response(200, earlier)
        is_made = known is not None and known.is_there and known.upload == upload_id
        return Response(200, named) if is_made else Response(404)

    def _delete(self, req: Request, path: str) -> int:
        known = self.objects.get(path)
        if req.method == "HEAD":
            assert req.headers["X-Newest"] == "true"
            if known is None or not known.is_there:
                return 404
            is_over = known.delete_at is not None and known.delete_at <= START + self.now
            return 404 if is_over else 200
        assert req.method == "DELETE"
        time = Timestamp(req.headers["X-Timestamp"])
        condition = req.headers.get("X-If-Delete-At")
        if condition is not None:
            if known is None:
                return 404
            if known.time >= time:
                return 409
            if not known.is_there or known.delete_at != int(Timestamp(condition)):
                return 412
        if known is not None and known.time >= time:
            return 409
        self.objects[path] = Stored(time, None, False)
        return 204 if known is not None and known.is_there else 404

    def _of_queue(self, req: Request, path: str) -> Response:
        container = path.removeprefix(f"/{ACCOUNT}").strip("/")
        if req.method == "DELETE":
            if self.queue.get(container):
                return Response(409)
            self.queue.pop(container, None)
            self.removed.append(container)
            return Response(204)
        after, before = req.params["marker"], req.params["end_marker"]
        if container and container not in self.queue:
            return Response(404)
        if container:
            rows = [{"name": n, "content_type": k} for n, (_, k) in self.queue[container].items()]
        else:
            rows = [{"name": name} for name in self.queue]
        shown = sorted((r for r in rows if after < r["name"] < before), key=lambda r: r["name"])
        body = json.dumps(shown[: int(req.params["limit"])])
        return Response(200, {}, body.encode())

    # What it asks of container servers: three of them share the rows here.

    def get_nodes(self, account: str, container: str) -> tuple[int, list[dict[str, Any]]]:
        assert account == ACCOUNT
        return 7, [{"ip": "::1", "port": port, "device": f"d{port}"} for port in range(3)]

    def start(
        self, address: tuple[str, int], method: str, path: str, headers: Any, body: bytes
    ) -> Cluster:
        port = address[1]
        assert method == "UPDATE"
        assert path.startswith(f"/d{port}/7/{ACCOUNT}/")
        if port in self.silent:
            raise BackendError(address, "refused")
        container = path.rpartition("/")[2]
        rows = json.loads(body)
        assert all(row["deleted"] == 1 for row in rows)
        self.updates.append((port, container, [row["name"] for row in rows]))
        for row in rows:
            known = self.queue.get(container, {}).get(row["name"])
            if known and known[0] < Timestamp(row["created_at"]):
                del self.queue[container][row["name"]]
        return self

    status = 202

    def response(self) -> Cluster:
        return self

    def close(self) -> None:
        pass


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "BATCH", 2)


def expirer(
    cluster: Cluster,
    now: float = 100,
    delays: Delays | None = None,
    page_rows: int = 3,
    **options: Any,
) -> Expirer:
    cluster.now = now
    client = InternalClient(cluster, "test", 1, lambda seconds: None)
    queue = Queue(ACCOUNT, client, cluster, cluster, page_rows)  # type: ignore[arg-type]
    options = {"tasks_per_second": 0.0, "recon_cache_path": "/nowhere/at/all", **options}
    return Expirer(
        ExpirerOptions(**options),
        delays or Delays(),
        client,
        queue,
        lambda: Timestamp(START + now),
    )


def figures(found: Figures) -> dict[str, int | float]:
    return {name: value for name, value in found.as_dict().items() if value and name != "seconds"}


def test_what_has_expired_is_deleted_and_leaves_the_queue(cluster: Cluster) -> None:
    for number in range(10):
        cluster.put(f"o{number}", 0, START + 50)
    cluster.put("later", 0, START + 101)
    cluster.put("kept", 0)
    found = figures(expirer(cluster).run_once())
    assert found["deleted"] == found["tasks"] == 10
    assert cluster.there == {"later", "kept"}
    assert cluster.tasks == [task_name(START + 101, "a", "c", "later")]
    assert cluster.objects["/a/c/o0"].time == Timestamp(START + 50)
    again = expirer(cluster)
    assert "tasks" not in figures(again.run_once())


def test_rows_are_removed_in_batches_from_every_replica(cluster: Cluster) -> None:
    for number in range(5):
        cluster.put("o", number, START + 50 + number)
        cluster.add_task(START + 50 + number, "o", Timestamp(START))
    expirer(cluster).run_once()
    sent = [(port, len(names)) for port, _, names in cluster.updates]
    assert sorted(sent) == sorted([(port, 1) for port in range(3)])  # the other tasks are of 412
    cluster.objects.clear()
    cluster.updates.clear()
    expirer(cluster, now=604800 + 200).run_once()
    sent = [(port, len(names)) for port, _, names in cluster.updates]
    assert sorted(sent) == sorted((port, count) for port in range(3) for count in (2, 1, 1))


def test_a_later_time_keeps_the_object_and_the_old_task_for_reclaim_age(cluster: Cluster) -> None:
    cluster.put("o", 0, START + 50)
    cluster.put("o", 1, START + 500)
    assert figures(expirer(cluster).run_once())["waiting"] == 1
    assert cluster.there == {"o"}
    assert len(cluster.tasks) == 2
    cluster.put("o", 2)
    assert figures(expirer(cluster, now=700).run_once())["waiting"] == 2
    found = figures(expirer(cluster, now=604800 + 500).run_once())
    assert found["given_up"] == 2
    assert cluster.there == {"o"}
    assert cluster.tasks == []


def test_a_write_after_the_time_keeps_the_object_and_ends_the_task(cluster: Cluster) -> None:
    cluster.put("o", 0, START + 50)
    cluster.put("o", 60)
    assert figures(expirer(cluster).run_once())["gone"] == 1
    assert cluster.there == {"o"}
    assert cluster.tasks == []


def test_a_deleted_container_keeps_its_tasks_for_reclaim_age(cluster: Cluster) -> None:
    cluster.add_task(START + 50, "o", Timestamp(START))
    assert figures(expirer(cluster, reclaim_age=60.0).run_once())["waiting"] == 1
    assert figures(expirer(cluster, reclaim_age=50.0).run_once())["given_up"] == 1
    assert cluster.tasks == []


def test_an_asynchronous_deletion_needs_no_time_at_the_object(cluster: Cluster) -> None:
    for name in ("segment", "gone"):
        cluster.add_task(START + 50, name, Timestamp(START), ASYNC_DELETE_TYPE)
    cluster.put("segment", 0)
    found = figures(expirer(cluster, delays=Delays({("a", ""): 1e6})).run_once())
    assert (found["deleted"], found["gone"]) == (1, 1)
    assert cluster.there == set()
    assert cluster.tasks == []


@pytest.mark.parametrize(("upload", "kept"), [("ID", True), ("OTHER", False), ("", False)])
def test_parts_that_their_object_needs_stay(cluster: Cluster, upload: str, kept: bool) -> None:
    """A completion that was sent twice may have brought back the object that was replaced.

    Or it may have listed other parts than the first.
    """
    parts = [f"/a/b+segments/the/key/ID/{number}" for number in range(1, 4)]
    listed = [{"name": path.removeprefix("/a"), "bytes": 1} for path in parts]
    others = [
        "/a/b+segments/the/key/ID/4",
        "/a/b+segments/the/key/ID",
        "/a/b+segments/1",
        "/a/c/the/key/ID/1",
    ]
    container = task_container(b"", START + 50)
    for path in parts + others:
        cluster.objects[path] = Stored(Timestamp(START))
        row = task_name(START + 50, *path[1:].split("/", 2))
        cluster.queue.setdefault(container, {})[row] = Timestamp(START), ASYNC_DELETE_TYPE
    if upload:
        body = json.dumps([*listed, {"data": "eA=="}]).encode()
        cluster.objects["/a/b/the/key"] = Stored(Timestamp(START + 60), None, True, upload, body)
    found = figures(expirer(cluster).run_once())
    there = {path for path, stored in cluster.objects.items() if stored.is_there}
    assert there - {"/a/b/the/key"} == (set(parts) if kept else set())
    assert (found["deleted"], found.get("waiting", 0)) == ((4, 3) if kept else (7, 0))
    if kept:
        del cluster.objects["/a/b/the/key"]
        assert figures(expirer(cluster).run_once())["deleted"] == 3
    assert cluster.tasks == []


def add_parts(cluster: Cluster, upload: str, count: int) -> None:
    """Tasks for parts of the upload of an object with the same name."""
    rows = cluster.queue.setdefault(task_container(b"", START + 50), {})
    for number in range(1, count + 1):
        cluster.objects[f"/a/b+segments/{upload}/ID/{number}"] = Stored(Timestamp(START))
        row = task_name(START + 50, "a", "b+segments", f"{upload}/ID/{number}")
        rows[row] = Timestamp(START), ASYNC_DELETE_TYPE


def test_each_upload_is_asked_about_once_in_a_batch(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "BATCH", 200)
    for upload in ("free", "used"):
        add_parts(cluster, upload, 20)
    listed = [{"name": f"/b+segments/used/ID/{number}"} for number in range(1, 11)]
    manifest = json.dumps(listed).encode()
    cluster.objects["/a/b/used"] = Stored(Timestamp(START), None, True, "ID", manifest)
    found = figures(expirer(cluster, page_rows=1000).run_once())
    assert (found["deleted"], found["waiting"]) == (30, 10)
    for upload in ("free", "used"):
        assert cluster.requests.count(("HEAD", f"/a/b+segments/{upload}/ID")) == 1
        assert cluster.requests.count(("HEAD", f"/a/b/{upload}")) == 1
    assert cluster.requests.count(("GET", "/a/b/used")) == 1
    del cluster.objects["/a/b/used"]
    cluster.requests.clear()
    assert (
        figures(expirer(cluster, page_rows=1000).run_once())["deleted"] == 10
    )  # another batch asks again
    assert cluster.requests.count(("HEAD", "/a/b/used")) == 1


def test_an_answer_about_an_upload_gets_old(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "BATCH", 200)
    monkeypatch.setattr(uses, "ANSWER_SECONDS_MAX", -1.0)
    add_parts(cluster, "k", 5)
    assert figures(expirer(cluster, page_rows=1000).run_once())["deleted"] == 5
    assert cluster.requests.count(("HEAD", "/a/b/k")) == 5


@pytest.mark.parametrize("listed", ["1-2,4", "", "nonsense"])
def test_the_listed_numbers_tell_which_parts_stay(cluster: Cluster, listed: str) -> None:
    """The manifest may be encrypted."""
    add_parts(cluster, "k", 4)
    cluster.objects["/a/b/k"] = Stored(Timestamp(START), None, True, "ID", b"\x00", listed=listed)
    found = figures(expirer(cluster).run_once())
    assert (found.get("deleted", 0), found["waiting"]) == ((1, 3) if "-" in listed else (0, 4))


@pytest.mark.parametrize("manifest", [b"", b"{}", b"7", b"[7]", b'["name"]', b"\x00\xff"])
def test_parts_of_a_manifest_that_cannot_be_read_stay(cluster: Cluster, manifest: bytes) -> None:
    """It may be encrypted."""
    cluster.objects["/a/b+segments/k/ID/1"] = Stored(Timestamp(START))
    cluster.objects["/a/b/k"] = Stored(Timestamp(START), None, True, "ID", manifest)
    row = task_name(START + 50, "a", "b+segments", "k/ID/1")
    cluster.queue[task_container(b"", START + 50)] = {row: (Timestamp(START), ASYNC_DELETE_TYPE)}
    assert figures(expirer(cluster).run_once())["waiting"] == 1
    assert figures(expirer(cluster, 3650).run_once())["given_up"] == 1
    assert cluster.objects["/a/b+segments/k/ID/1"].is_there


def test_parts_wait_while_it_is_not_known_whether_they_are_needed(cluster: Cluster) -> None:
    cluster.objects["/a/b+segments/k/ID/1"] = Stored(Timestamp(START))
    row = task_name(START + 50, "a", "b+segments", "k/ID/1")
    cluster.queue[task_container(b"", START + 50)] = {row: (Timestamp(START), ASYNC_DELETE_TYPE)}
    original = cluster._delete
    cluster._delete = lambda req, path: 503  # type: ignore[method-assign]
    assert figures(expirer(cluster).run_once())["failed"] == 1
    assert cluster.requests[-1] == ("HEAD", "/a/b+segments/k/ID")
    cluster._delete = original  # type: ignore[method-assign]
    for status in (503, 500, 400):  # 400: object servers of a former release
        cluster.versions_status = status
        assert figures(expirer(cluster).run_once())["failed"] == 1
    cluster.versions_status = 200
    assert figures(expirer(cluster).run_once())["deleted"] == 1


def test_parts_of_an_old_version_stay(cluster: Cluster) -> None:
    """Whichever parts the version lists: there may be several of the upload."""
    cluster.objects["/a/b+segments/k/ID/1"] = Stored(Timestamp(START))
    cluster.objects["/a/b/k"] = Stored(Timestamp(START), None, True, "OTHER", b"[]", "ID")
    row = task_name(START + 50, "a", "b+segments", "k/ID/1")
    cluster.queue[task_container(b"", START + 50)] = {row: (Timestamp(START), ASYNC_DELETE_TYPE)}
    assert figures(expirer(cluster).run_once())["waiting"] == 1
    cluster.objects["/a/b/k"].old = ""
    assert figures(expirer(cluster).run_once())["deleted"] == 1
    assert cluster.tasks == []


@pytest.mark.parametrize(
    ("at", "version", "end"),
    [(10, "", "deleted"), (10, "1600000000.00000", "waiting"), (-10, "", "waiting")],
)
@pytest.mark.parametrize("upload", ["", "OTHER"])
def test_a_replica_that_missed_a_replacement(
    cluster: Cluster, at: int, version: str, end: str, upload: str
) -> None:
    """The newer object has no parts of the upload; but older ones stay where it is a version."""
    cluster.objects["/a/b+segments/k/ID/1"] = Stored(Timestamp(START))
    newer = Stored(Timestamp(START + at), None, True, upload, b"[]", "", "ID", version)
    cluster.objects["/a/b/k"] = newer
    if not upload:
        newer.manifest = b"the data of an object"
    row = task_name(START + 50, "a", "b+segments", "k/ID/1")
    cluster.queue[task_container(b"", START + 50)] = {row: (Timestamp(START), ASYNC_DELETE_TYPE)}
    assert figures(expirer(cluster).run_once())[end] == 1


@pytest.mark.parametrize("name", ["k/\u65e5/1", "k/a\nb/1", "k/a b/1"])
def test_segments_that_no_upload_can_have_are_deleted(cluster: Cluster, name: str) -> None:
    """Clients of Swift's API choose their names; no header could carry some of them."""
    cluster.objects[f"/a/b+segments/{name}"] = Stored(Timestamp(START))
    row = task_name(START + 50, "a", "b+segments", name)
    cluster.queue[task_container(b"", START + 50)] = {row: (Timestamp(START), ASYNC_DELETE_TYPE)}
    cluster.versions_status = 400
    assert figures(expirer(cluster).run_once())["deleted"] == 1
    assert cluster.tasks == []


def test_a_delayed_object_stays(cluster: Cluster) -> None:
    cluster.put("o", 0, START + 50)
    delays = Delays({("a", "c"): 51.0})
    assert figures(expirer(cluster, delays=delays).run_once())["delayed"] == 1
    assert cluster.there == {"o"}
    assert figures(expirer(cluster, now=101, delays=delays).run_once())["deleted"] == 1


@pytest.mark.parametrize("status", [503, 500, 403])
def test_a_task_that_fails_is_tried_later(cluster: Cluster, status: int) -> None:
    cluster.put("o", 0, START + 50)
    container = next(iter(cluster.queue))
    daemon = expirer(cluster)
    cluster.fails = [status, 200, 200]  # the listings are answered with an empty body
    assert figures(daemon.run_once()) == {}
    cluster.fails = []
    original = cluster._delete
    cluster._delete = lambda req, path: status  # type: ignore[method-assign]
    assert figures(daemon.run_once())["failed"] == 1
    assert list(cluster.queue[container]) == cluster.tasks != []
    cluster._delete = original  # type: ignore[method-assign]
    assert figures(daemon.run_once())["deleted"] == 1


def test_a_queue_that_cannot_be_listed_is_an_error(cluster: Cluster) -> None:
    cluster.fails = [503]
    with pytest.raises(QueueError, match=r"GET /v1/\.expiring_objects was answered 503"):
        expirer(cluster).run_once()


def test_a_container_that_cannot_be_listed_is_skipped(cluster: Cluster) -> None:
    cluster.put("o", 0, START + 50)
    original = cluster._of_queue

    def fail(req: Request, path: str) -> Response:
        return Response(503) if path.count("/") > 1 else original(req, path)

    cluster._of_queue = fail  # type: ignore[method-assign]
    assert figures(expirer(cluster).run_once())["unread"] == 1
    cluster._of_queue = original  # type: ignore[method-assign]
    assert figures(expirer(cluster).run_once())["deleted"] == 1


def test_tasks_that_no_container_server_removes_are_told(cluster: Cluster) -> None:
    cluster.put("o", 0, START + 50)
    cluster.silent = {0, 1, 2}
    found = figures(expirer(cluster).run_once())
    assert (found["deleted"], found["unread"]) == (1, 1)
    cluster.silent = {0}
    assert figures(expirer(cluster).run_once()) == {"containers": 1, "tasks": 1, "gone": 1}
    assert cluster.tasks == []


def test_the_queue_is_listed_only_up_to_the_moment(cluster: Cluster) -> None:
    cluster.put("o", 0, START + 50)
    cluster.put("tomorrow", 0, START + 2 * 86400)
    cluster.put("o", 1, START + 5000)
    expirer(cluster).run_once()
    listed = [path for method, path in cluster.requests if method == "GET"]
    due = {name for name in cluster.queue if int(name) <= START + 100}
    assert sorted(listed) == sorted([f"/{ACCOUNT}", *(f"/{ACCOUNT}/{name}" for name in due)])


def test_an_empty_container_is_removed_after_its_day(cluster: Cluster) -> None:
    cluster.put("o", 0, START + 50)
    (container,) = cluster.queue
    expirer(cluster).run_once()
    expirer(cluster).run_once()
    assert cluster.removed == []  # there may be tasks of the rest of the day
    expirer(cluster, now=2 * 86400).run_once()
    assert cluster.removed == [container]
    assert cluster.queue == {}


def test_a_row_that_is_no_task_does_not_stop_the_others(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.put("o", 0, START + 50)
    (container,) = cluster.queue
    cluster.queue[container]["1600000000 strange"] = Timestamp(START), "text/plain"
    cluster.queue["no number"] = {}
    caplog.set_level(logging.ERROR, "martlet.object.expirer")
    found = figures(expirer(cluster).run_once())
    assert (found["deleted"], found["invalid"]) == (1, 1)
    assert "not a task" in caplog.text


def test_processes_share_the_work(cluster: Cluster) -> None:
    for number in range(40):
        cluster.put(f"o{number}", 0, START + 50)
    found = [
        figures(expirer(cluster, processes=3, process=process).run_once()).get("deleted", 0)
        for process in range(3)
    ]
    assert sum(found) == 40
    assert min(found) > 4
    assert cluster.there == set()
    deletes = [path for method, path in cluster.requests if method == "DELETE"]
    assert len(deletes) == len(set(deletes)) == 40


def test_what_was_written_later_gets_no_delete(cluster: Cluster) -> None:
    """A replica that missed the later write would take it, and its tombstone would win."""
    cluster.put("o", 0, START + 50)
    cluster.put("o", 10)
    assert figures(expirer(cluster).run_once())["waiting"] == 1
    assert ("DELETE", "/a/c/o") not in cluster.requests
    assert cluster.there == {"o"}


def test_an_expirer_that_is_turned_off_does_nothing(cluster: Cluster) -> None:
    cluster.put("o", 0, START + 50)
    expirer(cluster, dequeue_from_legacy=False).run_once()
    assert cluster.requests == []


def test_the_figures_are_written_for_recon_beside_those_of_others(
    cluster: Cluster, tmp_path: Path
) -> None:
    path = tmp_path / "new" / "object.recon"
    path.parent.mkdir()
    path.write_text('{"async_pending": 3, "expired_last_pass": 99}')
    cluster.put("o", 0, START + 50)
    expirer(cluster, recon_cache_path=str(path.parent)).run_once()
    document = json.loads(path.read_text())
    assert (document["async_pending"], document["expired_last_pass"]) == (3, 1)
    assert document["object_expiration_pass"] > 0


def test_progress_is_logged_in_a_long_pass(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        cluster.put(f"o{number}", 0, START + 50)
    caplog.set_level(logging.INFO, "martlet.object.expirer")
    expirer(cluster, report_interval=1e-9).run_once()
    assert caplog.text.count("pass so far") == 3
    assert "pass done" in caplog.text


def test_the_rate_is_limited(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(passes.time, "sleep", pauses.append)
    monkeypatch.setattr(passes.time, "monotonic", lambda: 1000.0)
    for number in range(5):
        cluster.put(f"o{number}", 0, START + 50)
    expirer(cluster, tasks_per_second=4.0).run_once()
    assert pauses == [0.25, 0.5, 0.75, 1.0]


# --- any order ------------------------------------------------------------------------------------

_STEPS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from("xyz"), st.one_of(st.none(), st.integers(1, 90))),
    st.tuples(st.just("expire"), st.sampled_from("01"), st.none()),
    st.tuples(st.just("fail"), st.sampled_from(("", "503", "0", "412")), st.integers(0, 4)),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_STEPS, max_size=30))
def test_whatever_happens_only_what_has_expired_is_deleted(
    steps: list[tuple[str, str, int | None]],
) -> None:
    """Two expirers, kills and failures between writes; each step takes ten seconds."""
    cluster, writes = Cluster(), {}
    for number, (kind, word, value) in enumerate(steps):
        at = number * 10
        if kind == "put":
            delete_at = None if value is None else START + at + value
            cluster.put(word, at, delete_at)
            writes[word] = delete_at
        elif kind == "fail" and word:
            cluster.fails = [int(word), *cluster.fails[: value or 0]]
        else:
            try:
                expirer(cluster, at).run_once()
            except (Killed, QueueError):
                pass
        for name, delete_at in writes.items():
            if delete_at is None or delete_at > START + at:
                assert name in cluster.there
    cluster.fails = []
    end = len(steps) * 10 + 100
    expirer(cluster, end).run_once()
    assert cluster.there == {name for name, delete_at in writes.items() if delete_at is None}
    expirer(cluster, end + 604800).run_once()
    assert cluster.tasks == []

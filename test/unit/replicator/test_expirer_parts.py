"""The expirer and parts of multipart uploads: a part that an object needs stays."""

from __future__ import annotations

import json

import pytest
from expirer_cluster import START, Cluster, Stored, expirer, figures

from martlet.words.expiring import ASYNC_DELETE_TYPE, task_container, task_name
from martlet.words.timestamp import Timestamp
from replicator.expirer import passes, uses


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "BATCH", 2)


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

"""The reconciler against a cluster in memory: the newest write wins, whatever fails in between."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from container.config import ReconcilerOptions
from container.misplaced import (
    DELETE_TYPE,
    PUT_TYPE,
    QUEUE_ACCOUNT,
    Entry,
    Failed,
    queue_container,
)
from container.queue_servers import Unanswered, VersionRows
from container.reconciler import OUTCOMES, Reconciler
from container.record import Times
from container.record_stream import PUT, RecordHead
from container.version_mover import Left
from container.version_plan import Moved
from martlet.http.environ import Environ, StartResponse
from martlet.http.internal_client import InternalClient
from martlet.http.request import Request
from martlet.http.response import Response
from martlet.words.timestamp import Timestamp

HOME, AWAY = 0, 1
START = 1700000000
PATH = "/a/c/o"


@dataclass
class Stored:
    """An object or, without a body, its tombstone."""

    time: Timestamp
    body: bytes | None
    headers: dict[str, str] = field(default_factory=dict)


class Cluster:
    """Objects by policy with the rules of an object server, the queue, and requests that fail."""

    def __init__(self) -> None:
        self.objects: dict[int, dict[str, Stored]] = {HOME: {}, AWAY: {}}
        self.queue: dict[str, tuple[Timestamp, bool, bool]] = {}  # time, deletion, taken off
        self.written_at: dict[str, Timestamp] = {}  # where it is not the time of the entry
        self.policy: int | None = HOME
        self.fails: list[bool] = []
        self.requests: list[tuple[str, int, str]] = []
        self.reaped: list[str] = []

    def write(self, policy: int, time: Timestamp, body: bytes | None, path: str = PATH) -> int:
        """Store it and, if misplaced, queue it, as object and container server do."""
        known = self.objects[policy].get(path)
        if known is not None and known.time >= time:
            return 409
        self.objects[policy][path] = Stored(time, body)
        if policy != HOME:
            self.enqueue(f"{policy}:{path}", time, body is None)
        return 204 if body is None else 201

    def enqueue(self, name: str, time: Timestamp, is_deletion: bool, done: bool = False) -> None:
        if name not in self.queue or self.queue[name][0] < time:
            self.queue[name] = time, is_deletion, done

    @property
    def entries(self) -> list[str]:
        return [name for name, (_, _, done) in self.queue.items() if not done]

    # What the reconciler asks of container servers.

    def policy_of(self, account: str, container: str) -> int | None:
        return self.policy

    def is_agreed(self, account: str, container: str, policy: int, *, by_most: bool) -> bool:
        return True

    def remove_entry(self, container: str, entry: Entry) -> None:
        if not (self.fails and self.fails.pop()):
            self.enqueue(entry.name, entry.done_at, True, done=True)

    def version_rows(self, entry: Entry) -> Iterator[VersionRows] | None:
        return None

    # What it asks of the proxy.

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        req = Request(environ)
        path = req.path.removeprefix("/v1")
        if path.startswith(f"/{QUEUE_ACCOUNT}"):
            return self._listing(req, path)(environ, start_response)
        policy = int(req.headers["X-Backend-Storage-Policy-Index"])
        time = req.headers.get("X-Timestamp", "")
        self.requests.append((req.method, policy, time))
        if self.fails and self.fails.pop():
            return Response(503)(environ, start_response)
        return self._object(req, policy, path)(environ, start_response)

    def _object(self, req: Request, policy: int, path: str) -> Response:
        known = self.objects[policy].get(path)
        if req.method in ("GET", "HEAD"):
            if known is None:
                return Response(404)
            time = {"X-Backend-Timestamp": known.time.internal, "X-Timestamp": known.time.normal}
            if known.body is None:
                return Response(404, time)
            response = Response(200, {**time, **known.headers, "Date": "today"}, known.body)
            response.headers["Content-Length"] = str(len(known.body))
            return response
        time = Timestamp(req.headers["X-Timestamp"])
        body = req.body_file.read() if req.method == "PUT" else None
        status = self.write(policy, time, body, path)
        if status == 201:
            self.objects[policy][path].headers = dict(req.headers)
        return Response(202 if status == 409 and body is not None else status)

    def _listing(self, req: Request, path: str) -> Response:
        hour = path.removeprefix(f"/{QUEUE_ACCOUNT}").strip("/")
        if req.method == "DELETE":
            self.reaped.append(hour)
            return Response(204)
        marker = req.params["marker"]
        hours = {queue_container(time) for time, _, _ in self.queue.values()}
        rows = [{"name": name} for name in sorted(hours)]
        if hour:
            rows = [
                {
                    "name": name,
                    "hash": self.written_at.get(name, time).internal,
                    "content_type": DELETE_TYPE if is_deletion else PUT_TYPE,
                    "last_modified": time.isoformat,
                }
                for name, (time, is_deletion, done) in sorted(self.queue.items())
                if not done and queue_container(time) == hour
            ]
        rows = [row for row in rows if row["name"] > marker][:2]  # pages of two
        return Response(200, {}, json.dumps(rows).encode())


def at(seconds: float, offset: int = 0) -> Timestamp:
    return Timestamp(START + seconds, offset=offset)


def reconciler(cluster: Cluster, now: float = 10, **values: Any) -> Reconciler:
    client = InternalClient(cluster, "test", 1, lambda seconds: None)
    options = ReconcilerOptions(**{"recon_cache_path": "/dev/null/none", **values})
    return Reconciler(options, client, cluster, cluster, lambda: at(now))  # type: ignore[arg-type]


def state(cluster: Cluster, policy: int) -> tuple[bytes | None, str] | None:
    known = cluster.objects[policy].get(PATH)
    return None if known is None else (known.body, known.time.internal)


def test_an_object_is_copied_with_its_headers_and_then_removed() -> None:
    cluster = Cluster()
    cluster.write(AWAY, at(1), b"body")
    cluster.objects[AWAY][PATH].headers = {
        "Content-Type": "x/y",
        "Etag": "e",
        "X-Object-Meta-A": "b",
        "X-Backend-Durable-Timestamp": "1",
    }
    assert reconciler(cluster).run_once() == {"copied": 1}
    assert state(cluster, HOME) == (b"body", at(1, 3).internal)
    assert state(cluster, AWAY) == (None, at(1, 1).internal)
    assert cluster.entries == []
    kept = cluster.objects[HOME][PATH].headers
    assert {"Content-Type": "x/y", "Etag": "e", "X-Object-Meta-A": "b"}.items() <= kept.items()
    assert not {"Date", "X-Backend-Durable-Timestamp"} & kept.keys()
    assert reconciler(cluster).run_once() == {}


def test_a_copy_that_was_rewritten_is_copied_and_removed_as_it_is() -> None:
    cluster = Cluster()
    cluster.write(AWAY, at(2), b"new")
    cluster.queue[f"{AWAY}:{PATH}"] = at(1), False, False
    reconciler(cluster).run_once()
    assert state(cluster, HOME) == (b"new", at(2, 3).internal)
    assert state(cluster, AWAY) == (None, at(2, 1).internal)


def test_an_entry_that_does_not_leave_the_queue_does_no_harm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its removal is itself a misplaced deletion, and would be queued, brought home and removed."""
    cluster = Cluster()
    cluster.write(AWAY, at(1), b"body")
    with monkeypatch.context() as patched:
        patched.setattr(cluster, "remove_entry", lambda container, entry: None)
        for _ in range(12):
            reconciler(cluster).run_once()
    assert state(cluster, HOME) == (b"body", at(1, 3).internal)
    reconciler(cluster).run_once()
    assert cluster.entries == []


def test_what_is_newer_at_home_stays() -> None:
    cluster = Cluster()
    cluster.write(HOME, at(2), b"newer")
    cluster.write(AWAY, at(1), b"older")
    assert reconciler(cluster).run_once() == {"found": 1}
    assert state(cluster, HOME) == (b"newer", at(2).internal)
    assert state(cluster, AWAY) == (None, at(1, 1).internal)


def test_a_deletion_is_brought_home() -> None:
    cluster = Cluster()
    cluster.write(HOME, at(1), b"old")
    cluster.write(AWAY, at(2), None)
    assert reconciler(cluster).run_once() == {"deleted": 1}
    assert state(cluster, HOME) == (None, at(2, 3).internal)
    assert state(cluster, AWAY) == (None, at(2).internal)


@pytest.mark.parametrize(
    ("policy", "end", "left"), [(None, "waiting", 1), (AWAY, "in_place", 0), (HOME, "copied", 0)]
)
def test_the_policy_of_the_container_decides(policy: int | None, end: str, left: int) -> None:
    cluster = Cluster()
    cluster.write(AWAY, at(1), b"body")
    cluster.policy = policy
    assert reconciler(cluster).run_once() == {end: 1}
    assert len(cluster.entries) == left
    assert (state(cluster, AWAY) == (b"body", at(1).internal)) == (end != "copied")


def test_an_operator_is_told_which_replica_an_entry_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster, figures = Cluster(), tmp_path / "container.recon"
    cluster.write(AWAY, at(1), b"body")
    told = "waits for a container replica entry=1:/a/c/o replicas=10.0.0.2:6201/d2,10.0.0.3:6201/d3"

    def policy_of(account: str, container: str) -> int | None:
        raise Unanswered(["10.0.0.2:6201/d2", "10.0.0.3:6201/d3"])

    with monkeypatch.context() as patched:
        patched.setattr(cluster, "policy_of", policy_of)
        for passes in range(2):
            ended = reconciler(cluster, recon_cache_path=str(tmp_path)).run_once()
            assert ended == {"unanswered": 1}
            assert caplog.text.count(told) == passes + 1
            shown = json.loads(figures.read_text())
            assert shown["reconciler_stats"]["unanswered"] == 1
            waits_for = [["10.0.0.2:6201/d2", 1], ["10.0.0.3:6201/d3", 1]]
            assert shown["reconciler_waits_for"] == waits_for
            assert shown["reconciler_last"] == float(at(10))
    assert reconciler(cluster, recon_cache_path=str(tmp_path)).run_once() == {"copied": 1}
    shown = json.loads(figures.read_text())
    assert shown["reconciler_stats"] == dict.fromkeys(OUTCOMES, 0) | {"copied": 1}
    assert shown["reconciler_waits_for"] == []


class VersionedCluster(Cluster):
    """Records of versions by policy, the rows of a container, and steps that fail."""

    def __init__(self) -> None:
        super().__init__()
        self.records_of: dict[int, set[RecordHead]] = {HOME: set(), AWAY: set()}
        self.rows: dict[str, tuple[Timestamp, int]] = {}  # by version: time, policy
        self.locked: set[RecordHead] = set()
        self.posted = 0  # versions that get a POST before they are removed

    def write_version(self, seconds: float, *, has_row: bool = True) -> None:
        self.records_of[AWAY].add(version_of(at(seconds)))
        if has_row:
            self.add_row(seconds)

    def add_row(self, seconds: float) -> None:
        self.rows.setdefault(at(seconds).internal, (at(seconds), AWAY))
        self.enqueue(f"{AWAY}:{PATH}", at(50 + len(self.rows)), False)
        self.written_at[f"{AWAY}:{PATH}"] = at(seconds)

    def _may_fail(self) -> None:
        if self.fails and self.fails.pop():
            raise Failed("for the test")

    def version_rows(self, entry: Entry) -> Iterator[VersionRows] | None:
        self._may_fail()
        pages = [
            VersionRows("a", "c", [{"version_id": version, "created_at": time.internal}])
            for version, (time, policy) in self.rows.items()
            if policy == entry.policy_index
        ]
        return self._pages(pages)

    def _pages(self, pages: list[VersionRows]) -> Iterator[VersionRows]:
        for page in pages:
            self._may_fail()
            yield page

    def move_rows(self, found: VersionRows, policy: int) -> None:
        for row in found.rows:
            self._may_fail()
            self.rows[row["version_id"]] = Timestamp(row["created_at"]), policy

    def copy(self, entry: Entry, policy_index: int) -> Moved:
        source, target = self.records_of[entry.policy_index], self.records_of[policy_index]
        for head in source:
            self._may_fail()
            target.add(head)
        self._may_fail()
        there = {(head.version, head.timestamp.ticks): head.timestamp for head in target}
        return Moved(list(source), there, 0)

    def remove(self, entry: Entry, records: Iterable[RecordHead]) -> Left:
        for head in [] if self.posted else records:
            self._may_fail()
            self.records_of[entry.policy_index] -= {head} - self.locked
        left = len(self.records_of[entry.policy_index])
        return Left(0, left) if self.posted else Left(left, 0)


def version_of(time: Timestamp) -> RecordHead:
    return RecordHead(PUT, struct.pack(">QQ", time.ticks, time.offset), time, 1)


@given(st.lists(st.booleans(), max_size=30), st.booleans())
@settings(max_examples=200, deadline=None)
def test_all_versions_are_moved_whatever_fails(fails: list[bool], is_row_late: bool) -> None:
    cluster = VersionedCluster()
    cluster.fails = fails
    cluster.write_version(1)
    cluster.write_version(2)
    cluster.write_version(3, has_row=not is_row_late)
    passes = 0
    while cluster.entries:
        reconciler(cluster).run_once()
        everywhere = cluster.records_of[HOME] | cluster.records_of[AWAY]
        assert len(everywhere) == 3
        passes += 1
        assert passes < 40
    if is_row_late:
        cluster.add_row(3)
        cluster.fails = []
        assert reconciler(cluster).run_once() == {"versions": 1}
    assert not cluster.records_of[AWAY]
    assert {policy for _, policy in cluster.rows.values()} == {HOME}
    assert not cluster.entries


def test_versions_that_have_no_rows_yet_are_moved() -> None:
    cluster = VersionedCluster()
    cluster.write(AWAY, at(1), b"body")
    cluster.objects[AWAY][PATH].headers = {"X-Backend-Version-Id": at(1).internal}
    cluster.write_version(1, has_row=False)
    cluster.version_rows = lambda entry: None  # type: ignore[method-assign]
    assert reconciler(cluster).run_once() == {"versions": 1}
    assert cluster.records_of == {HOME: {version_of(at(1))}, AWAY: set()}


def test_an_old_object_is_moved_to_its_newer_versions() -> None:
    """It is the null version. The rows of the others have not come yet."""
    cluster = VersionedCluster()
    cluster.write(AWAY, at(1), b"null")
    cluster.records_of[AWAY].add(RecordHead(PUT, bytes(16), at(1), 1))
    cluster.write(HOME, at(2), b"version")
    cluster.objects[HOME][PATH].headers = {"X-Backend-Version-Id": at(2).internal}
    cluster.version_rows = lambda entry: None  # type: ignore[method-assign]
    assert reconciler(cluster).run_once() == {"versions": 1}
    assert len(cluster.records_of[HOME]) == 1


def test_rows_without_versions_are_waited_for_and_given_up_in_the_end() -> None:
    cluster = VersionedCluster()
    cluster.add_row(1)  # queued at 51
    assert reconciler(cluster, now=140, reclaim_age=100).run_once() == {"waiting": 1}
    assert len(cluster.entries) == 1
    assert reconciler(cluster, now=152, reclaim_age=100).run_once() == {"given_up": 1}
    assert not cluster.entries


@pytest.mark.parametrize("agreements", [[False], [True, False]])
def test_versions_stay_while_replicas_disagree_about_the_policy(agreements: list[bool]) -> None:
    """Before the first copy, and also before the removal: it cannot be undone."""
    cluster = VersionedCluster()
    cluster.write_version(1)
    left = iter(agreements)
    cluster.is_agreed = lambda *names, by_most: next(left)  # type: ignore[method-assign]
    assert reconciler(cluster).run_once() == {"waiting": 1}
    assert cluster.records_of[AWAY] == {version_of(at(1))}
    assert len(cluster.entries) == 1
    cluster.is_agreed = lambda *names, by_most: True  # type: ignore[method-assign]
    assert reconciler(cluster).run_once() == {"versions": 1}
    assert cluster.records_of == {HOME: {version_of(at(1))}, AWAY: set()}


def test_an_old_entry_does_not_wait_for_a_replica_that_is_away() -> None:
    cluster = VersionedCluster()
    cluster.write_version(1)  # queued at 51
    cluster.is_agreed = lambda *names, by_most: by_most  # type: ignore[method-assign]
    assert reconciler(cluster, now=140, reclaim_age=100).run_once() == {"waiting": 1}
    assert cluster.records_of[AWAY] == {version_of(at(1))}
    assert reconciler(cluster, now=152, reclaim_age=100).run_once() == {"versions": 1}
    assert cluster.records_of == {HOME: {version_of(at(1))}, AWAY: set()}


def test_locked_versions_stay() -> None:
    cluster = VersionedCluster()
    cluster.write_version(1)
    cluster.locked = {version_of(at(1))}
    assert reconciler(cluster).run_once() == {"locked": 1}
    assert len(cluster.entries) == 1
    assert cluster.rows[at(1).internal][1] == HOME
    assert cluster.records_of[AWAY] == cluster.records_of[HOME] == cluster.locked


def test_versions_that_get_a_post_meanwhile_are_moved_by_the_next_pass() -> None:
    cluster = VersionedCluster()
    cluster.write_version(1)
    cluster.posted = 1
    assert reconciler(cluster).run_once() == {"waiting": 1}
    assert len(cluster.entries) == 1
    cluster.posted = 0
    assert reconciler(cluster).run_once() == {"versions": 1}
    assert not cluster.entries


def test_rows_get_the_times_of_their_records() -> None:
    """A version that comes back has a greater offset."""
    cluster = VersionedCluster()
    cluster.write_version(1)
    moved: list[dict[str, str]] = []
    cluster.move_rows = lambda found, policy: moved.extend(found.rows)  # type: ignore[method-assign]
    there = {(at(1).internal, at(1).ticks): at(1, 2)}
    copied = Moved([version_of(at(1))], there, 0)
    cluster.copy = lambda entry, policy_index: copied  # type: ignore[method-assign]
    assert reconciler(cluster).run_once() == {"versions": 1}
    assert moved == [{"version_id": at(1).internal, "created_at": Times(*[at(1, 2)] * 3).encode()}]


def test_what_is_not_there_is_waited_for_and_given_up_in_the_end() -> None:
    cluster = Cluster()
    cluster.enqueue(f"{AWAY}:{PATH}", at(1), False)
    assert reconciler(cluster, now=100, reclaim_age=100).run_once() == {"waiting": 1}
    assert len(cluster.entries) == 1
    assert reconciler(cluster, now=102, reclaim_age=100).run_once() == {"given_up": 1}
    assert cluster.entries == []


def test_an_old_empty_container_of_the_queue_is_deleted() -> None:
    cluster = Cluster()
    cluster.enqueue(f"{AWAY}:{PATH}", at(1), True, done=True)
    reconciler(cluster, now=1000, reclaim_age=10_000).run_once()
    assert cluster.reaped == []
    reconciler(cluster, now=20_000, reclaim_age=10_000).run_once()
    assert cluster.reaped == [queue_container(at(1))]


def test_all_pages_of_the_queue_are_read() -> None:
    cluster = Cluster()
    for number in range(7):
        cluster.write(AWAY, at(number), b"x", f"{PATH} &?{number}")
    assert reconciler(cluster).run_once() == {"copied": 7}
    assert len(cluster.objects[HOME]) == 7


def test_processes_share_the_queue() -> None:
    done = []
    for process in range(3):
        cluster = Cluster()
        for number in range(20):
            cluster.write(AWAY, at(number), b"x", f"{PATH}{number}")
        ends = reconciler(cluster, processes=3, process=process).run_once()
        done.append(set(cluster.objects[HOME]))
        assert ends == {"copied": len(done[-1])}
    assert all(done)
    assert sum(map(len, done)) == len(set.union(*done)) == 20


_WRITES = st.lists(
    st.tuples(
        st.sampled_from([HOME, AWAY]),
        st.integers(0, 3),
        st.sampled_from([b"one", b"two", None]),
    ),
    max_size=6,
)


@settings(max_examples=400)
@given(_WRITES, st.lists(st.booleans(), max_size=24), _WRITES)
def test_the_newest_write_wins_whatever_fails(
    before: list[tuple[int, int, bytes | None]],
    fails: list[bool],
    after: list[tuple[int, int, bytes | None]],
) -> None:
    """Writes on both sides, passes in which any request may fail, more writes, passes that end."""
    cluster = Cluster()
    newest: tuple[int, bytes | None] | None = None
    for writes, faults in ((before, fails), (after, [])):
        for policy, seconds, body in writes:
            # At one time there is one write: client timestamps are not shared.
            time = at(seconds + (0.25 if policy == AWAY else 0) + (0.5 if faults == [] else 0))
            if cluster.write(policy, time, body) != 409 and (
                newest is None or time.ticks >= newest[0]
            ):
                newest = time.ticks, body
        cluster.fails = list(faults)
        for _ in range(8 if not faults else 3):
            reconciler(cluster, reclaim_age=1e9).run_once()
    if newest is None:
        return
    home = cluster.objects[HOME].get(PATH)
    assert (home.body if home else None) == newest[1]
    away = cluster.objects[AWAY].get(PATH)
    assert away is None or away.body is None
    assert cluster.entries == []

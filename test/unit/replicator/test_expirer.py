"""The expirer against a cluster in memory: only what has expired is deleted, whatever fails."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from expirer_cluster import ACCOUNT, START, Cluster, Killed, expirer, figures
from hypothesis import given, settings
from hypothesis import strategies as st

from martlet.http.request import Request
from martlet.http.response import Response
from martlet.words.expiring import ASYNC_DELETE_TYPE, task_name
from martlet.words.timestamp import Timestamp
from replicator.expirer import passes
from replicator.expirer.options import Delays
from replicator.expirer.queue import QueueError


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "BATCH", 2)


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

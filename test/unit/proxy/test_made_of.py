"""The question which version was made of an upload: a wrong 404 would lose parts."""

from __future__ import annotations

import time
from typing import Any

import pytest
from fake_cluster import FakeCluster, MakeCluster
from fake_devices import HANG_UP, SILENT, Seen

from martlet.http.environ import MADE_BY_QUORUM, MADE_OF
from proxy.replicas.engine import Outcome
from proxy.replicas.gone_uploads import UPLOAD_ID

OBJECT = "/v1/a/c/o"
OLD, NEW = "1795223541.91251", "1795223550.00000"


@pytest.fixture
def asked(cluster: FakeCluster) -> FakeCluster:
    """A cluster in which no replica has a version of the upload; `have` gives them some."""
    cluster.forget()
    return cluster


def ask(cluster: FakeCluster, removed: str = "", needs_all: bool = False) -> Any:
    return cluster.call("HEAD", OBJECT, **{MADE_OF: ("ID", removed, needs_all)})


def ask_quorum(cluster: FakeCluster) -> Any:
    return cluster.call("HEAD", OBJECT, **{MADE_OF: ("ID", "", False), MADE_BY_QUORUM: True})


@pytest.fixture
def hinted(asked: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The names of the devices to which hints were noted, for each question."""
    notes: list[tuple[str, ...]] = []

    def note(method: str, policy: int, partition: int, count: int, found: list[Outcome]) -> None:
        assert (method, policy, count) == ("PUT", 0, 3)
        notes.append(tuple(o.node["device"] for o in found))

    monkeypatch.setattr(asked.app.core.hints, "note", note)
    return notes


def have(cluster: FakeCluster, *versions: str) -> None:
    """The devices have these versions of the upload, "" none."""
    assert cluster.call("PUT", OBJECT, b"data").status == 201
    for device, version in zip(cluster.devices, versions, strict=False):
        device.fault = None if version else _absent
        found = {"X-Backend-Data-Timestamp": version, UPLOAD_ID: "ID"}
        device.read_headers = {"X-Backend-Version-Id": version, **found} if version else {}
    cluster.forget()


def _absent(seen: Seen) -> int | None:
    return 404 if seen.method == "HEAD" and seen.path.endswith("/o") else None


def test_all_replicas_are_asked(asked: FakeCluster) -> None:
    answer = ask(asked)
    assert answer.status == 404
    sent = [
        seen.headers["x-backend-version-id"]
        for device in asked.devices
        for seen in device.seen
        if seen.path.endswith("/o")
    ]
    assert len(sent) >= 3
    assert set(sent) == {"made-of:ID"}


def test_one_replica_that_has_a_version_is_right(asked: FakeCluster) -> None:
    have(asked, "", OLD, "")
    answer = ask(asked)
    assert (answer.status, answer.headers["x-backend-version-id"]) == (200, OLD)
    assert answer.headers["content-length"] == "4"


def test_the_newest_version_is_the_answer(asked: FakeCluster) -> None:
    have(asked, OLD, NEW, OLD)
    assert ask(asked).headers["x-backend-version-id"] == NEW


@pytest.mark.parametrize("first", [0, 1, 2])
def test_an_answer_of_a_name_with_versions_counts_more(asked: FakeCluster, first: int) -> None:
    """A replica that missed all versions still has the null version, of the same time."""
    have(asked, OLD, OLD, OLD)
    asked.devices[first].read_headers = {"X-Backend-Data-Timestamp": OLD, UPLOAD_ID: "ID"}
    assert ask(asked).headers["x-backend-version-id"] == OLD


def test_a_version_that_was_removed_does_not_count(asked: FakeCluster) -> None:
    have(asked, NEW, "", "")
    assert ask(asked, NEW).status == 404
    assert ask(asked, OLD).status == 200
    have(asked, NEW, OLD, "")
    assert ask(asked, NEW).headers["x-backend-version-id"] == OLD
    have(asked, NEW, NEW, "")
    assert ask(asked, NEW).status == 503


@pytest.mark.parametrize("fault", [400, 503, 507, HANG_UP])
def test_most_primaries_must_know(asked: FakeCluster, fault: Any) -> None:
    """A device that does not answer may have a version; a former release does not know."""
    asked.devices[0].fault = fault
    assert ask(asked).status == 404
    assert ask(asked, needs_all=True).status == 503
    asked.devices[1].fault = fault
    assert ask(asked).status == 503


def test_a_client_does_not_wait_for_a_server_that_hangs(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(node_timeout=60.0, post_quorum_timeout=0.2)
    cluster.make_container()
    cluster.devices[0].fault = lambda seen: SILENT if seen.path.endswith("/o") else None
    began = time.monotonic()
    assert ask(cluster).status == 404
    assert time.monotonic() - began < 20, "the device is silent for 30 seconds"


def test_a_server_without_versions_has_none_of_another_upload(asked: FakeCluster) -> None:
    have(asked, OLD, "", "")
    asked.devices[0].read_headers = {"X-Backend-Data-Timestamp": NEW, UPLOAD_ID: "OTHER"}
    assert ask(asked, needs_all=True).status == 404


@pytest.mark.parametrize("versions", [(NEW, NEW, ""), ("", NEW, NEW), (NEW, NEW, NEW)])
def test_a_version_that_a_quorum_has(
    asked: FakeCluster, hinted: list[tuple[str, ...]], versions: tuple[str, ...]
) -> None:
    have(asked, *versions)
    hinted.clear()
    answer = ask_quorum(asked)
    assert (answer.status, answer.headers["x-backend-version-id"]) == (200, NEW)
    assert "x-backend-made-by-few" not in answer.headers
    assert hinted == []


def test_a_version_that_one_replica_has(asked: FakeCluster, hinted: list[tuple[str, ...]]) -> None:
    """The replica learns that others miss it; other questions than that for a quorum do not."""
    have(asked, "", NEW, "")
    hinted.clear()
    assert "x-backend-made-by-few" not in ask(asked).headers
    assert hinted == []
    answer = ask_quorum(asked)
    assert (answer.status, answer.headers["x-backend-version-id"]) == (200, NEW)
    assert answer.headers["x-backend-made-by-few"] == "true"
    assert hinted == [(asked.devices[1].name,)]


def test_an_older_version_that_a_quorum_has_counts_more(asked: FakeCluster) -> None:
    have(asked, OLD, NEW, OLD)
    answer = ask_quorum(asked)
    assert answer.headers["x-backend-version-id"] == OLD
    assert "x-backend-made-by-few" not in answer.headers
    have(asked, OLD, NEW, "")
    answer = ask_quorum(asked)
    assert answer.headers["x-backend-version-id"] == NEW
    assert answer.headers["x-backend-made-by-few"] == "true"


def test_replicas_that_name_a_version_differently_have_the_same(asked: FakeCluster) -> None:
    """A restored version keeps its id; a null version that is not current has its time as one."""
    have(asked, OLD, OLD, "")
    asked.devices[0].read_headers = {"X-Backend-Data-Timestamp": OLD, UPLOAD_ID: "ID"}
    assert "x-backend-made-by-few" not in ask_quorum(asked).headers
    restored = {"X-Backend-Version-Id": OLD, "X-Backend-Data-Timestamp": NEW, UPLOAD_ID: "ID"}
    asked.devices[0].read_headers = restored
    assert "x-backend-made-by-few" not in ask_quorum(asked).headers


@pytest.mark.parametrize("fault", [503, HANG_UP])
def test_a_removal_is_unknown_without_most_primaries(asked: FakeCluster, fault: Any) -> None:
    have(asked, NEW, "", "")
    asked.devices[1].fault = fault
    assert ask_quorum(asked).headers["x-backend-made-by-few"] == "true"
    asked.devices[2].fault = fault
    answer = ask_quorum(asked)
    assert (answer.status, answer.headers["x-backend-made-by-few"]) == (200, "unknown")


def test_a_quorum_is_awaited_no_longer_than_a_request(make_cluster: MakeCluster) -> None:
    """Without a device that hangs there is none; with a quorum, no one waits for the device."""
    cluster = make_cluster(node_timeout=2.0, post_quorum_timeout=0.2)
    cluster.make_container()
    have(cluster, NEW, "", "")
    cluster.devices[1].fault = lambda seen: SILENT if seen.path.endswith("/o") else None
    began = time.monotonic()
    assert ask_quorum(cluster).headers["x-backend-made-by-few"] == "true"
    assert 1.8 < time.monotonic() - began < 10
    cluster.devices[2].fault = None
    cluster.devices[2].read_headers = cluster.devices[0].read_headers
    began = time.monotonic()
    assert "x-backend-made-by-few" not in ask_quorum(cluster).headers
    assert time.monotonic() - began < 1.5

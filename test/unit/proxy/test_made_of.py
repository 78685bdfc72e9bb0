"""The question which version was made of an upload: a wrong 404 would lose parts."""

from __future__ import annotations

import time
from typing import Any

import pytest
from fake_cluster import FakeCluster, MakeCluster
from fake_devices import HANG_UP, SILENT, Seen

from martlet.http.environ import MADE_OF
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

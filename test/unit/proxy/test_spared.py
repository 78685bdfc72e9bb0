# SPDX-License-Identifier: Apache-2.0
"""A DELETE that spares large objects: it is sent only if the object has no segments."""

from __future__ import annotations

import pytest
from fake_cluster import FakeCluster

from martlet.http.environ import SPARES_LARGE, VERSION_REQUEST
from proxy.replicas.versions import VersionRequest

OBJECT = "/v1/a/c/o"
VERSION = "1795223541.91251"
LARGE = {"X-Static-Large-Object": "True"}


@pytest.fixture
def stored(cluster: FakeCluster) -> FakeCluster:
    """A cluster with an object."""
    cluster.call("PUT", OBJECT, b"data")
    cluster.forget()
    return cluster


def requests_of(cluster: FakeCluster, method: str) -> int:
    """Requests about the object."""
    seen = (seen for device in cluster.devices for seen in device.seen)
    return sum(1 for one in seen if one.method == method and one.path.endswith("/o"))


def test_an_object_without_segments_is_deleted_after_one_question(stored: FakeCluster) -> None:
    assert stored.call("DELETE", OBJECT, **{SPARES_LARGE: True}).status == 204
    assert (requests_of(stored, "HEAD"), requests_of(stored, "DELETE")) == (1, 3)


def test_a_large_object_stays(stored: FakeCluster) -> None:
    for device in stored.devices:
        device.read_headers = LARGE
    answer = stored.call("DELETE", OBJECT, **{SPARES_LARGE: True})
    assert (answer.status, answer.headers["x-static-large-object"]) == (409, "true")
    assert requests_of(stored, "DELETE") == 0
    assert stored.call("DELETE", OBJECT).status == 204


def test_a_missing_object_is_none_that_is_large(cluster: FakeCluster) -> None:
    assert cluster.call("DELETE", OBJECT, **{SPARES_LARGE: True}).status == 404
    assert requests_of(cluster, "DELETE") == 3


def test_nothing_is_deleted_if_no_replica_knows(stored: FakeCluster) -> None:
    for device in stored.devices:
        device.fault = lambda seen: 503 if seen.method == "HEAD" else None
    assert stored.call("DELETE", OBJECT, **{SPARES_LARGE: True}).status == 503
    assert requests_of(stored, "DELETE") == 0


def test_a_version_that_stays_is_not_deleted(stored: FakeCluster) -> None:
    for device in stored.devices:
        device.read_headers = {**LARGE, "X-Backend-Version-Id": VERSION}
    assert stored.call("DELETE", OBJECT, **{SPARES_LARGE: True}).status == 204


@pytest.mark.parametrize(("version", "status"), [(VERSION, 204), ("null", 409)])
def test_a_delete_marker_removes_the_null_version_alone(
    stored: FakeCluster, version: str, status: int
) -> None:
    for device in stored.devices:
        device.read_headers = LARGE
    marker = {"X-Backend-Version-Id": version, "X-Backend-Version-Marker": "true"}
    environ = {VERSION_REQUEST: VersionRequest(OBJECT, marker), SPARES_LARGE: True}
    assert stored.call("DELETE", OBJECT, **environ).status == status

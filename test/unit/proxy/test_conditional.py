"""Writes that depend on what is stored: the first primary decides, and a majority must agree."""

from __future__ import annotations

import pytest
from fake_cluster import FakeCluster

MAYBE = {"X-Backend-If-Timestamp": "0000000001.00000"}
BODIES = pytest.mark.parametrize("body", [b"", b"x" * 4096, b"y" * (1 << 20)])


@BODIES
def test_the_first_primary_refuses_for_all(cluster: FakeCluster, body: bytes) -> None:
    cluster.devices[0].fault = 412
    assert cluster.call("PUT", "/v1/a/c/o", body, MAYBE).status == 412
    assert cluster.holders("/a/c/o") == []


@BODIES
def test_the_first_primary_must_be_there(cluster: FakeCluster, body: bytes) -> None:
    cluster.devices[0].fault = 507
    for headers in (MAYBE, {"If-None-Match": "*"}):
        assert cluster.call("PUT", "/v1/a/c/o", body, headers).status == 503
        assert cluster.holders("/a/c/o") == []


@BODIES
def test_a_replica_that_missed_a_write_is_outvoted(cluster: FakeCluster, body: bytes) -> None:
    cluster.devices[2].fault = 412
    assert cluster.call("PUT", "/v1/a/c/o", body, MAYBE).status == 201
    assert cluster.holders("/a/c/o") == ["sd0", "sd1"]
    cluster.devices[1].fault = 412
    assert cluster.call("PUT", "/v1/a/c/p", body, MAYBE).status == 412
    assert cluster.holders("/a/c/p") == []


def test_a_delete_needs_a_majority(cluster: FakeCluster) -> None:
    cluster.call("PUT", "/v1/a/c/o", b"x")
    since = str(cluster.devices[0].stored["/a/c/o"].timestamp)
    for device in cluster.devices:
        device.read_headers = {"X-Backend-Data-Timestamp": since}
    condition = {"X-Backend-If-Timestamp": since}
    cluster.devices[1].fault = cluster.devices[2].fault = 507
    assert cluster.call("DELETE", "/v1/a/c/o", headers=condition).status == 503
    assert cluster.holders("/a/c/o") == ["sd0", "sd1", "sd2"]
    cluster.devices[1].fault = None
    cluster.devices[2].fault = None
    later = f"{float(since) + 1:016.5f}"
    cluster.devices[1].read_headers = {"X-Backend-Data-Timestamp": later}
    assert cluster.call("DELETE", "/v1/a/c/o", headers=condition).status == 412
    cluster.devices[1].read_headers = {"X-Backend-Data-Timestamp": since}
    cluster.forget()
    assert cluster.call("DELETE", "/v1/a/c/o", headers=condition).status == 204
    assert cluster.holders("/a/c/o") == []

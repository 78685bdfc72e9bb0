"""Devices that answer 529: busy, as their rate limits say, and none the worse for it."""

from __future__ import annotations

import pytest
from fake_cluster import FakeCluster

from proxy.controllers.object_put import ONE_MESSAGE_BYTES_MAX

LARGE = b"x" * (ONE_MESSAGE_BYTES_MAX + 1)
REQUESTS = [
    ("PUT", b"small", 201),
    ("PUT", LARGE, 201),
    ("POST", b"", 202),
    ("GET", b"", 200),
    ("HEAD", b"", 200),
    ("DELETE", b"", 204),
]


def busy(cluster: FakeCluster, count: int) -> None:
    """That many devices of the object have no turn left, for what is about objects."""
    for device in cluster.devices[:count]:
        device.fault = lambda seen: 529 if seen.path.count("/") > 4 else None


@pytest.mark.parametrize(("method", "body", "status"), REQUESTS)
def test_the_others_serve_in_place_of_a_busy_one(
    cluster: FakeCluster, method: str, body: bytes, status: int
) -> None:
    assert cluster.call("PUT", "/v1/a/c/o", b"data").status == 201
    busy(cluster, 1)
    assert cluster.call(method, "/v1/a/c/o", body).status == status
    if method == "PUT":
        assert set(cluster.holders("/a/c/o")) == {"sd0", "sd1", "sd2", "sd3"}
        assert cluster.devices[3].stored["/a/c/o"].body == body


@pytest.mark.parametrize(("method", "body", "status"), REQUESTS)
def test_a_client_is_told_to_come_again_when_all_are_busy(
    cluster: FakeCluster, method: str, body: bytes, status: int
) -> None:
    assert cluster.call("PUT", "/v1/a/c/o", b"data").status == 201
    busy(cluster, len(cluster.devices))
    assert cluster.call(method, "/v1/a/c/o", body).status == 503
    for device in cluster.devices:
        device.fault = None
    assert cluster.call(method, "/v1/a/c/o", body).status == status


@pytest.mark.parametrize(("method", "body", "status"), REQUESTS[:3])
def test_being_busy_is_no_failure(
    cluster: FakeCluster, method: str, body: bytes, status: int
) -> None:
    """However often: the device is asked again and again."""
    assert cluster.call("PUT", "/v1/a/c/o", b"data").status == 201
    busy(cluster, 1)
    cluster.forget()
    for _ in range(15):
        assert cluster.call(method, "/v1/a/c/o", body).status == status
    assert cluster.devices[0].methods().count(method) == 15

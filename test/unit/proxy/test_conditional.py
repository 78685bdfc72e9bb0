"""Writes that depend on what is stored: the first primary decides, and a majority must agree."""

from __future__ import annotations

import pytest
from fake_cluster import FakeCluster, MakeCluster
from fake_devices import FakeDevice, Seen

from martlet.http.environ import VERSION_REQUEST
from proxy.replicas.versions import VERSION_ID, VersionRequest

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


def check_row(cluster: FakeCluster, device: FakeDevice, method: str) -> None:
    """Check that the proxy has told the container replica that this device was to tell."""
    (refused,) = (seen for seen in device.seen if seen.method == method and is_write(seen))
    told = [
        f"127.0.0.1:{other.port}"
        for other in cluster.devices
        for seen in other.seen
        if seen.method == method and not is_write(seen)
    ]
    assert told == [refused.headers["x-container-host"]]


def is_write(seen: Seen) -> bool:
    """Whether it is a write of an object; else it is a row."""
    return "x-container-host" in seen.headers


@BODIES
@pytest.mark.parametrize("status", [409, 412])
def test_the_proxy_sends_the_row_of_a_put_that_a_replica_refused(
    make_cluster: MakeCluster, body: bytes, status: int
) -> None:
    """That replica has not written, so it sends none. It may have a later version (409)."""
    cluster = make_cluster(devices=3)
    cluster.make_container()
    device = cluster.devices[2]
    device.fault = lambda seen: status if is_write(seen) else None
    asked = {VERSION_REQUEST: VersionRequest("/v1/a/c/o", {VERSION_ID: "2795223550.00000"})}
    assert cluster.call("PUT", "/v1/a/c/o", body, MAYBE, **asked).status == 201
    assert cluster.holders("/a/c/o") == ["sd0", "sd1"]
    check_row(cluster, device, "PUT")


@BODIES
def test_a_later_write_replaces_one_that_adds_no_version(cluster: FakeCluster, body: bytes) -> None:
    cluster.devices[2].fault = 409
    assert cluster.call("PUT", "/v1/a/c/o", body, MAYBE).status == 202


@BODIES
def test_a_version_that_one_replica_took_is_not_done(cluster: FakeCluster, body: bytes) -> None:
    """The others have a later one. It is not known whether this one stays."""
    for device in cluster.devices[1:3]:
        device._act = lambda seen: (409, {"X-Backend-Timestamp": "2795223551.00000"}, b"")
    asked = {VERSION_REQUEST: VersionRequest("/v1/a/c/o", {VERSION_ID: "2795223550.00000"})}
    assert cluster.call("PUT", "/v1/a/c/o", body, MAYBE, **asked).status == 503
    assert cluster.holders("/a/c/o") == ["sd0"]


def test_the_proxy_sends_the_row_of_a_delete_that_a_replica_refused(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(devices=3)
    cluster.make_container()
    cluster.call("PUT", "/v1/a/c/o", b"x")
    since = str(cluster.devices[0].stored["/a/c/o"].timestamp)
    for device in cluster.devices:
        device.read_headers = {"X-Backend-Data-Timestamp": since}
    cluster.forget()
    device = cluster.devices[2]
    device.fault = lambda seen: 412 if is_write(seen) else None
    condition = {"X-Backend-If-Timestamp": since}
    assert cluster.call("DELETE", "/v1/a/c/o", headers=condition).status == 204
    check_row(cluster, device, "DELETE")


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

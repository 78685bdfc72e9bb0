"""How full containers and accounts are, asked of all replicas."""

from __future__ import annotations

import pytest
from fake_cluster import FakeCluster
from fake_devices import FakeDevice

from martlet.http.request import Request
from proxy.lookup.usage import AccountUsage, Usage, account_usage, container_usage
from proxy.middleware.subrequest import get_account_usage, get_container_usage


def request() -> Request:
    return Request.blank("/v1/a/c/o", "PUT", {"X-Timestamp": "1.0"})


def hold(device: FakeDevice, bytes_used: int) -> None:
    device.stored["/a/c"].headers["x-container-bytes-used"] = str(bytes_used)


def test_the_fullest_replica_is_believed(cluster: FakeCluster) -> None:
    for device, bytes_used in zip(cluster.devices[:3], (10, 30, 20), strict=True):
        hold(device, bytes_used)
    cluster.call("PUT", "/v1/a/c/o", b"data")
    assert container_usage(cluster.app.core, request(), "a", "c") == Usage(30, 1)


def test_it_is_asked_each_time(cluster: FakeCluster) -> None:
    hold(cluster.devices[0], 10)
    req = request()
    assert get_container_usage(req.environ, cluster.app, "a", "c", "CQ") == Usage(10, 0)
    hold(cluster.devices[0], 20)
    assert get_container_usage(req.environ, cluster.app, "a", "c", "CQ") == Usage(20, 0)


def test_a_replica_that_is_away_does_not_count(cluster: FakeCluster) -> None:
    hold(cluster.devices[1], 10)
    cluster.devices[0].stop()
    assert container_usage(cluster.app.core, request(), "a", "c") == Usage(10, 0)
    for device in cluster.devices:
        device.stop()
    assert container_usage(cluster.app.core, request(), "a", "c") is None
    assert account_usage(cluster.app.core, request(), "a", "c", 0) is None


ACCOUNT = {
    "x-account-bytes-used": "1000",
    "x-account-object-count": "100",
    "x-account-storage-policy-gold-bytes-used": "500",
    "x-account-storage-policy-gold-object-count": "50",
}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            [{"name": "c", "bytes": 70, "count": 7}],
            AccountUsage(Usage(1000 - 70 + 90, 93), Usage(500 - 70 + 90, 43)),
        ),
        ([{"name": "c2", "bytes": 70, "count": 7}], AccountUsage(Usage(1090, 100), Usage(590, 50))),
        ([], AccountUsage(Usage(1090, 100), Usage(590, 50))),
    ],
)
def test_an_account_counts_the_container_as_it_is_now(
    cluster: FakeCluster, rows: list[dict[str, int | str]], expected: AccountUsage
) -> None:
    for device in cluster.devices[:3]:
        device.stored["/a"].headers |= ACCOUNT
        device.listings["/a"] = rows
    hold(cluster.devices[2], 90)
    found = get_account_usage(request().environ, cluster.app, "a", "c", "AQ")
    assert found == expected
    assert cluster.devices[0].last("GET").path.endswith("/a?format=json&limit=1&prefix=c")

"""How full containers and accounts are, asked of all replicas."""

from __future__ import annotations

import json
from typing import cast

import pytest
from fake_cluster import FakeCluster
from fake_devices import FakeDevice

from martlet.http.request import Request
from proxy.lookup.usage import AccountUsage, Usage, account_usage, container_usage
from proxy.middleware.subrequest import get_account_usage, get_container_usage
from proxy.replicas.backends import BackendRequest
from proxy.replicas.engine import Outcome
from proxy.replicas.quorum import Answer
from ring.ring import Node


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


def test_shards_are_asked_themselves(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they have reported to their root is older."""
    core = cluster.app.core
    asked: list[str] = []
    own = {"name": "a/c", "lower": "m", "bytes_used": 0, "object_count": 0}
    shard = {"name": ".shards_a/c-0", "bytes_used": 30, "object_count": 3}

    def ask(request: BackendRequest, *_: object) -> list[Outcome]:
        asked.append(f"{request.method} {request.path.partition('?')[0]}")
        if "shards" in request.path:
            answers = [headers_of(35, 4), headers_of(50, 5)]
        else:
            # The first replica has all in the shard, the second keeps the rows above m.
            state = {"x-backend-sharding-state": "sharding"}
            answers = [headers_of(30, 3) | state, headers_of(40, 4) | state]
        body = json.dumps([shard, own]).encode() if request.method == "GET" else b""
        return [
            Outcome(index, cast(Node, {}), Answer(200, headers, body))
            for index, headers in enumerate(answers)
        ]

    monkeypatch.setattr(core, "ask", ask)
    assert container_usage(core, request(), "a", "c") == Usage(60, 6)
    assert asked == ["HEAD /a/c", "GET /a/c", "HEAD /.shards_a/c-0"]


def test_a_shard_that_shrinks_does_not_count_its_neighbour(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The neighbour is asked already, and counts the rows that it takes later."""
    core = cluster.app.core
    sharded = {"x-backend-sharding-state": "sharded"}
    donor = {"name": ".shards_a/c-0", "bytes_used": 9, "object_count": 3}
    neighbour = {"name": ".shards_a/c-1", "bytes_used": 70, "object_count": 7}
    taken = neighbour | {"bytes_used": 10, "object_count": 2}
    listed = {"/a/c": [donor, neighbour], "/.shards_a/c-0": [taken]}
    states = {
        "/a/c": headers_of(79, 10) | sharded,
        "/.shards_a/c-0": headers_of(10, 2) | sharded,
        "/.shards_a/c-1": headers_of(71, 8),
    }

    def ask(request: BackendRequest, *_: object) -> list[Outcome]:
        path = request.path.partition("?")[0]
        body = json.dumps(listed[path]).encode() if request.method == "GET" else b""
        return [Outcome(0, cast(Node, {}), Answer(200, states[path], body))]

    monkeypatch.setattr(core, "ask", ask)
    assert container_usage(core, request(), "a", "c") == Usage(81, 10)


def headers_of(size: int, count: int) -> dict[str, str]:
    return {"x-container-bytes-used": str(size), "x-container-object-count": str(count)}


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

# SPDX-License-Identifier: Apache-2.0
"""Tasks for the expirer, and the uploads that a PUT has replaced or a DELETE removed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fake_cluster import FakeCluster

from martlet.http.environ import REPLACED_UPLOADS
from martlet.http.request import Request
from martlet.words.expiring import task_container
from martlet.words.timestamp import Timestamp
from proxy.middleware.subrequest import delete_later

DUE = Timestamp("1800000000.25000")
NAMES = ["ä b/1", "ä b/2"]


def queue(cluster: FakeCluster) -> bool:
    environ = Request.blank("/v1/a/c/o", "PUT", {}).environ
    return delete_later(environ, cluster.app, ("a", "c+segments"), NAMES, DUE, "S3")


def answer_updates(cluster: FakeCluster, *statuses: int) -> None:
    for device, status in zip(cluster.devices, statuses, strict=False):
        device.fault = lambda seen, status=status: status if seen.method == "UPDATE" else None


def updates(cluster: FakeCluster) -> list[Any]:
    return [one for device in cluster.devices for one in device.seen if one.method == "UPDATE"]


def test_each_replica_of_the_queue_gets_all_tasks(cluster: FakeCluster) -> None:
    answer_updates(cluster, 202, 202, 202)
    assert queue(cluster)
    digest = cluster.app.core.rings.hash_path.digest("a", "c+segments", NAMES[0])
    sent = updates(cluster)
    assert len(sent) == 3
    for one in sent:
        assert one.path.endswith(f"/.expiring_objects/{task_container(digest, int(DUE))}")
        assert one.headers["x-backend-storage-policy-index"] == "0"
        rows = json.loads(one.body)
        assert [row["name"] for row in rows] == [
            f"1800000000.25000-a/c+segments/{n}" for n in NAMES
        ]
        assert {row["content_type"] for row in rows} == {"application/async-deleted"}
        assert {row["deleted"] for row in rows} == {0}


def test_tasks_are_taken_back(cluster: FakeCluster) -> None:
    answer_updates(cluster, 202, 202, 202)
    assert queue(cluster)
    environ = Request.blank("/v1/a/c/o", "DELETE", {}).environ
    place = "a", "c+segments"
    assert delete_later(environ, cluster.app, place, NAMES, DUE, "SLO", withdraws=True)
    sent = updates(cluster)
    added, removed = json.loads(sent[0].body), json.loads(sent[3].body)
    assert {one.path.partition("/.")[2] for one in sent} == {sent[0].path.partition("/.")[2]}
    assert [row["name"] for row in removed] == [row["name"] for row in added]
    assert {row["deleted"] for row in removed} == {1}
    assert min(row["created_at"] for row in removed) > max(row["created_at"] for row in added)


@pytest.mark.parametrize(("statuses", "queued"), [((503, 507, 202), True), ((503,) * 3, False)])
def test_one_replica_suffices(
    cluster: FakeCluster, statuses: tuple[int, ...], queued: bool
) -> None:
    answer_updates(cluster, *statuses)
    assert queue(cluster) == queued


@pytest.mark.parametrize(
    ("told", "replaced"),
    [
        (["one"] * 3, [("/a/c/%C3%A4", "one")]),
        (["one", "", "one"], [("/a/c/%C3%A4", "one")]),  # one has missed the upload
        (["two", "one", "one"], [("/a/c/%C3%A4", "one")]),
        (["", "one", ""], []),
        (["one", "two", ""], []),
        ([""] * 3, []),
    ],
)
def test_an_upload_is_replaced_if_most_replicas_say_so(
    cluster: FakeCluster, told: list[str], replaced: list[tuple[str, str]]
) -> None:
    for device, upload in zip(cluster.devices, told, strict=False):
        device.more_headers = {"X-Backend-Replaced-Upload": upload} if upload else {}
    for body in (b"small", b"x" * 100_000):
        found: list[tuple[str, str]] = []
        answer = cluster.call("PUT", "/v1/a/c/ä", body, **{REPLACED_UPLOADS: found})
        assert answer.status == 201
        assert found == replaced
        assert "x-backend-replaced-upload" not in answer.headers
    assert cluster.call("PUT", "/v1/a/c/ä", b"by Swift's API").status == 201


def test_a_hand_off_has_replaced_nothing(cluster: FakeCluster) -> None:
    cluster.devices[1].stop()
    for device in cluster.devices[:3]:
        device.more_headers = {"X-Backend-Replaced-Upload": "one"}
    found: list[tuple[str, str]] = []
    assert cluster.call("PUT", "/v1/a/c/o", b"x", **{REPLACED_UPLOADS: found}).status == 201
    assert found == [("/a/c/o", "one")]
    assert "/a/c/o" in cluster.devices[3].stored
    for device in cluster.devices:
        device.more_headers = {}
    cluster.devices[3].more_headers = {"X-Backend-Replaced-Upload": "two"}
    assert cluster.call("PUT", "/v1/a/c/o", b"x", **{REPLACED_UPLOADS: found}).status == 201
    assert found == [("/a/c/o", "one")]


def test_a_write_that_lost_has_replaced_nothing(cluster: FakeCluster) -> None:
    cluster.call("PUT", "/v1/a/c/o", b"later")
    for device in cluster.devices:
        device.more_headers = {"X-Backend-Replaced-Upload": "one"}
    found: list[tuple[str, str]] = []
    old = {"X-Timestamp": "1.0"}
    assert cluster.call("PUT", "/v1/a/c/o", b"x", old, **{REPLACED_UPLOADS: found}).status == 202
    assert found == []


@pytest.mark.parametrize(
    ("told", "removed"),
    [(["one"] * 3, ["one"]), (["", "one", ""], ["one"]), (["one", "two", ""], ["one", "two"])],
)
def test_one_replica_tells_which_upload_a_delete_removed(
    cluster: FakeCluster, told: list[str], removed: list[str]
) -> None:
    cluster.call("PUT", "/v1/a/c/o", b"x")
    for device, upload in zip(cluster.devices, told, strict=False):
        device.more_headers = {"X-Backend-Replaced-Upload": upload} if upload else {}
    found: list[tuple[str, str]] = []
    assert cluster.call("DELETE", "/v1/a/c/o", **{REPLACED_UPLOADS: found}).status == 204
    assert sorted(found) == [("/a/c/o", upload) for upload in removed]
    assert cluster.call("DELETE", "/v1/a/c/o").status == 404


@pytest.mark.parametrize("status", [409, 412, 503])
def test_a_delete_that_failed_has_removed_nothing(cluster: FakeCluster, status: int) -> None:
    cluster.call("PUT", "/v1/a/c/o", b"x")
    for device in cluster.devices:
        device.more_headers = {"X-Backend-Replaced-Upload": "one"}
        device.fault = lambda seen: status if seen.method == "DELETE" else None
    found: list[tuple[str, str]] = []
    assert cluster.call("DELETE", "/v1/a/c/o", **{REPLACED_UPLOADS: found}).status == status
    assert found == []

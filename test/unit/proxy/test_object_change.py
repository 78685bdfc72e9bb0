"""POST and DELETE of objects."""

from __future__ import annotations

from typing import Any

import pytest
from fake_cluster import FakeCluster, MakeCluster
from fake_devices import HANG_UP, SILENT, Seen, lose_first_answer
from patience import patiently

from martlet.http.environ import AUTHORIZE, OWNER, SYNC_KEY, VERSION_REQUEST
from martlet.http.request import Request
from martlet.http.response import Response, error_response
from proxy.replicas.versions import VersionRequest


@pytest.fixture(params=[True, False], ids=["grid", "http"])
def has_grid(request: pytest.FixtureRequest) -> bool:
    """Nothing is different for servers without the grid."""
    has_grid: bool = request.param
    return has_grid


@pytest.fixture
def stored(cluster: FakeCluster) -> FakeCluster:
    cluster.call("PUT", "/v1/a/c/o", b"data")
    cluster.forget()
    return cluster


def test_post(stored: FakeCluster) -> None:
    assert stored.call("POST", "/v1/a/c/o", headers={"X-Object-Meta-A": "1"}).status == 202
    for device in stored.devices[:3]:
        headers = device.last("POST").headers
        assert headers["x-object-meta-a"] == "1"
        assert "x-container-host" in headers
        assert "content-type" not in headers  # none was given, so none is changed
    assert stored.call("POST", "/v1/a/c/missing").status == 404
    assert stored.call("POST", "/v1/a/missing/o").status == 404


def test_a_post_that_meets_itself_is_done(stored: FakeCluster) -> None:
    """Sent again after a lost answer, a POST finds its own timestamp."""
    for device in stored.devices[:2]:
        lose_first_answer(device, "POST")
    stored.devices[2].fault = HANG_UP
    assert stored.call("POST", "/v1/a/c/o", headers={"X-Object-Meta-A": "1"}).status == 202
    assert [d.methods().count("POST") for d in stored.devices[:2]] == [2, 2]


def test_a_post_that_another_one_precedes_is_409(stored: FakeCluster) -> None:
    same = {"X-Timestamp": "9000000000.00000", "X-Object-Meta-A": "1"}
    assert stored.call("POST", "/v1/a/c/o", headers=same).status == 202
    assert stored.call("POST", "/v1/a/c/o", headers=same).status == 409


def test_names_of_metadata_may_be_beyond_ascii(stored: FakeCluster) -> None:
    """Object servers take ASCII only: such names are encoded for them, and decoded for clients."""
    name = "X-Object-Meta-\U0001f44d\u00df".encode().decode("latin-1")
    assert stored.call("PUT", "/v1/a/c/o", b"", {name: "1"}).status == 201
    wire = "x-object-transient-sysmeta-utf8-x-object-meta-%f0%9f%91%8d%c3%9f"
    assert stored.devices[0].last("PUT").headers[wire] == "1"
    headers = stored.call("HEAD", "/v1/a/c/o").headers
    assert wire not in headers
    assert headers[name.encode("latin-1").lower().decode("latin-1").lower()] == "1"


@pytest.mark.parametrize("name", ["\u00e9", "X-\u00e9", "Foo-\u00e9", "X-Other-Meta-\u00e9"])
def test_other_names_beyond_ascii_mean_nothing(stored: FakeCluster, name: str) -> None:
    headers = {name.encode().decode("latin-1"): "1"}
    assert stored.call("PUT", "/v1/a/c/o", b"", headers).status == 201
    assert stored.call("POST", "/v1/a/c/o", headers=headers).status == 202
    for device in stored.devices[:3]:
        assert not any("utf8" in name for name in device.last("PUT").headers)


def test_post_with_content_type(stored: FakeCluster) -> None:
    stored.call("POST", "/v1/a/c/o", headers={"Content-Type": "text/x"})
    assert stored.devices[0].last("POST").headers["content-type"] == "text/x"


def test_post_finds_handoffs_when_primaries_miss_it(stored: FakeCluster) -> None:
    devices = stored.devices
    devices[3].stored["/a/c/o"] = devices[0].stored["/a/c/o"]
    del devices[0].stored["/a/c/o"], devices[1].stored["/a/c/o"]
    assert stored.call("POST", "/v1/a/c/o").status == 202
    assert "POST" in devices[3].methods()


def test_post_where_one_replica_has_it_is_not_404(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(devices=3)
    cluster.make_container()
    cluster.call("PUT", "/v1/a/c/o", b"data")
    for device in cluster.devices[:2]:
        del device.stored["/a/c/o"]
    assert cluster.call("POST", "/v1/a/c/o").status == 503


def test_post_where_one_replica_has_missed_the_delete_is_404(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(devices=3)
    cluster.make_container()
    cluster.call("PUT", "/v1/a/c/o", b"data")
    stale = cluster.devices[2].stored["/a/c/o"]
    cluster.call("DELETE", "/v1/a/c/o")
    cluster.devices[2].stored["/a/c/o"] = stale
    assert cluster.call("POST", "/v1/a/c/o").status == 404


def test_post_where_one_replica_has_a_later_object_is_not_404(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(devices=3)
    cluster.make_container()
    cluster.call("DELETE", "/v1/a/c/o")
    deleted = [device.stored["/a/c/o"] for device in cluster.devices[:2]]
    cluster.call("PUT", "/v1/a/c/o", b"data")
    for device, tombstone in zip(cluster.devices, deleted, strict=False):
        device.stored["/a/c/o"] = tombstone
    assert cluster.call("POST", "/v1/a/c/o").status == 503


@pytest.mark.parametrize("headers", [{"X-Delete-At": "1"}, {"X-Object-Meta-A": "x" * 257}])
def test_bad_post_is_400(stored: FakeCluster, headers: dict[str, str]) -> None:
    assert stored.call("POST", "/v1/a/c/o", headers=headers).status == 400


def test_delete(stored: FakeCluster) -> None:
    assert stored.call("DELETE", "/v1/a/c/o").status == 204
    assert stored.holders("/a/c/o") == []
    assert stored.call("DELETE", "/v1/a/c/o").status == 404
    for device in stored.devices[:3]:
        assert "x-container-host" in device.last("DELETE").headers


def test_a_delete_of_an_expirer_says_itself_whether_the_queue_is_cleaned(
    stored: FakeCluster,
) -> None:
    own = {"X-Backend-Clean-Expiring-Object-Queue": "no", "X-If-Delete-At": "1700000000"}
    assert stored.call("DELETE", "/v1/a/c/o", headers=own).status == 204
    for device in stored.devices[:3]:
        headers = device.last("DELETE").headers
        assert headers["x-backend-clean-expiring-object-queue"] == "no"
        assert headers["x-if-delete-at"] == "1700000000"
        assert "x-container-host" in headers


def test_delete_of_a_newer_object_is_409(stored: FakeCluster) -> None:
    reply = stored.call("DELETE", "/v1/a/c/o", headers={"X-Timestamp": "0000000001.00000"})
    assert reply.status == 409
    assert len(stored.holders("/a/c/o")) == 3


def test_delete_where_some_replicas_miss_it(stored: FakeCluster) -> None:
    del stored.devices[0].stored["/a/c/o"]
    stored.devices[1].stop()
    # 404, 204 and the hand-off's dated 404: not a quorum of 204, but nothing is left of it.
    assert stored.call("DELETE", "/v1/a/c/o").status in (204, 404)
    assert stored.holders("/a/c/o") == ["sd1"]
    assert stored.devices[3].stored["/a/c/o"].is_deleted


def test_delete_with_a_lost_and_a_silent_device(make_cluster: MakeCluster) -> None:
    def attempt(timeout: float) -> None:
        cluster = make_cluster(devices=3, node_timeout=timeout)
        cluster.make_container()
        cluster.call("PUT", "/v1/a/c/o", b"data")
        cluster.devices[0].fault = lambda seen: SILENT if seen.method == "DELETE" else None
        assert cluster.call("DELETE", "/v1/a/c/o").status == 204
        cluster.devices[1].fault = HANG_UP
        assert cluster.call("DELETE", "/v1/a/c/o2").status == 503

    patiently(attempt)


def test_late_answer_of_a_slow_device_still_counts(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(devices=3, node_timeout=5.0)
    cluster.make_container()
    cluster.call("PUT", "/v1/a/c/o", b"data")

    def dawdle(seen: Seen) -> None:
        if seen.method == "DELETE":
            cluster.devices[0].release.wait(0.15)  # the proxy waits less for an answer in its turn

    for device in cluster.devices[:2]:
        device.fault = dawdle
    assert cluster.call("DELETE", "/v1/a/c/o").status == 204
    assert cluster.holders("/a/c/o") == []


def test_a_handoff_has_the_updates_of_the_replica_that_misses_it(stored: FakeCluster) -> None:
    devices = stored.devices
    devices[3].stored["/a/c/o"] = devices[0].stored["/a/c/o"]
    del devices[1].stored["/a/c/o"], devices[2].stored["/a/c/o"]
    assert stored.call("POST", "/v1/a/c/o").status == 202
    told = devices[3].last("POST").headers["x-container-device"]
    assert told in (devices[1].name, devices[2].name)


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_a_write_tells_the_next_part_power(stored: FakeCluster, method: str) -> None:
    ring: Any = stored.app.core.rings.objects[0]
    ring.next_part_power = 11
    stored.call(method, "/v1/a/c/o")
    for device in stored.devices[:3]:
        assert device.last(method).headers["x-backend-next-part-power"] == "11"


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_a_write_goes_to_as_many_devices_as_there_are_replicas(
    make_cluster: MakeCluster, method: str
) -> None:
    cluster = make_cluster(devices=4, replicas=2)
    cluster.make_container()
    cluster.call("PUT", "/v1/a/c/o", b"data")
    cluster.forget()
    cluster.call(method, "/v1/a/c/o")
    assert [method in d.methods() for d in cluster.devices] == [True, True, False, False]


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "GET"])
def test_the_check_sees_the_acl_and_for_a_write_the_sync_key(
    cluster: FakeCluster, method: str
) -> None:
    key, acls = "X-Container-Sync-Key", {"X-Container-Read": "r", "X-Container-Write": "w"}
    assert (
        cluster.call("POST", "/v1/a/c", headers={key: "k", **acls}, **{OWNER: True}).status == 204
    )
    seen: list[tuple[str | None, str | None]] = []

    def refuse(req: Request) -> Response:
        seen.append((req.acl, req.environ.get(SYNC_KEY)))
        return error_response(403)

    is_read = method == "GET"
    environ: dict[str, Any] = {AUTHORIZE: refuse}
    assert cluster.call(method, "/v1/a/c/o", **environ).status == 403
    environ[VERSION_REQUEST] = VersionRequest("/v1/a/c/o", owner_only=True)
    assert cluster.call(method, "/v1/a/c/o", **environ).status == 403
    key_seen = None if is_read else "k"
    assert seen[1::2] == [("r" if is_read else "w", key_seen), (None, key_seen)]

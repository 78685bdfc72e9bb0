"""POST and DELETE of objects."""

from __future__ import annotations

import pytest
from fake_cluster import FakeCluster, MakeCluster
from fake_devices import HANG_UP, SILENT, Seen
from patience import patiently


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


@pytest.mark.parametrize("headers", [{"X-Delete-At": "1"}, {"X-Object-Meta-A": "x" * 257}])
def test_bad_post_is_400(stored: FakeCluster, headers: dict[str, str]) -> None:
    assert stored.call("POST", "/v1/a/c/o", headers=headers).status == 400


def test_delete(stored: FakeCluster) -> None:
    assert stored.call("DELETE", "/v1/a/c/o").status == 204
    assert stored.holders("/a/c/o") == []
    assert stored.call("DELETE", "/v1/a/c/o").status == 404
    for device in stored.devices[:3]:
        assert "x-container-host" in device.last("DELETE").headers


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

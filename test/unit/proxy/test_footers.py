"""Metadata known only after the body: as headers of a small object, behind a large one."""

from __future__ import annotations

import hashlib
import io
from collections.abc import MutableMapping
from typing import Any

import pytest
from fake_cluster import FakeCluster, MakeCluster
from fake_devices import HANG_UP, FakeDevice, Seen

from martlet.http.headers import Headers
from martlet.http.response import http_error
from proxy.replicas.footers import MimeBody, footers_of, overridden

SMALL = b"x" * 4096
LARGE = bytes(range(256)) * 4096  # 1 MiB
BODIES = pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"", {}),
        (SMALL, {}),
        (LARGE, {}),
        (SMALL, {"If-None-Match": "*"}),
        (SMALL, {"Transfer-Encoding": "chunked"}),
    ],
    ids=["empty", "small", "large", "conditional", "chunked"],
)


class HashedBody(io.BytesIO):
    """A body whose reader knows the MD5 afterwards, as a filter would make it."""

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self.digest = hashlib.md5()

    def read(self, size: int | None = -1) -> bytes:
        chunk = super().read(size)
        self.digest.update(chunk)
        return chunk

    def add_footers(self, footers: MutableMapping[str, str]) -> None:
        footers["X-Object-Sysmeta-Seen"] = self.digest.hexdigest()
        footers["x-object-sysmeta-GIVEN"] = "footer"
        footers["X-Object-Sysmeta-Container-Update-Override-Etag"] = "listed"


def put(cluster: FakeCluster, body: bytes, headers: dict[str, str], **environ: Any) -> int:
    stream = HashedBody(body)
    chunked = "Transfer-Encoding" in headers
    length = {} if chunked else {"Content-Length": str(len(body))}
    environ.setdefault("swift.callback.update_footers", stream.add_footers)
    return cluster.call("PUT", "/v1/a/c/o", stream, {**headers, **length}, **environ).status


@BODIES
def test_footers_reach_every_replica(
    cluster: FakeCluster, body: bytes, headers: dict[str, str]
) -> None:
    given = {"X-Object-Sysmeta-Given": "header", "X-Object-Meta-Color": "red"}
    assert put(cluster, body, headers | given) == 201
    for device in cluster.devices[:3]:
        assert device.stored["/a/c/o"].body == body
        seen = device.last("PUT").headers
        assert seen["x-object-sysmeta-seen"] == hashlib.md5(body).hexdigest()
        assert seen["x-object-sysmeta-given"] == "footer"
        assert seen["x-object-meta-color"] == "red"


@BODIES
def test_an_etag_of_the_footers_is_what_is_verified(
    cluster: FakeCluster, body: bytes, headers: dict[str, str]
) -> None:
    right, wrong = hashlib.md5(body).hexdigest(), "0" * 32
    callback = {"swift.callback.update_footers": lambda f: f.__setitem__("Etag", wrong)}
    assert put(cluster, body, headers, **callback) == 422
    assert cluster.holders("/a/c/o") == []
    callback = {"swift.callback.update_footers": lambda f: f.__setitem__("Etag", right)}
    assert put(cluster, body, headers | {"Etag": wrong}, **callback) == 201


def test_a_large_body_is_compared_with_the_clients_etag(cluster: FakeCluster) -> None:
    right = hashlib.md5(LARGE).hexdigest()
    for etag, status in [("0" * 32, 422), (f'"{right.upper()}"', 201)]:
        answer = cluster.call("PUT", "/v1/a/c/o", LARGE, {"Etag": etag})
        assert answer.status == status
        assert cluster.holders("/a/c/o") == ([] if status == 422 else ["sd0", "sd1", "sd2"])


def test_etag_footer_in_small_letters_is_sent_once(cluster: FakeCluster) -> None:
    right = hashlib.md5(LARGE).hexdigest()
    callback = {"swift.callback.update_footers": lambda f: f.__setitem__("etag", f'"{right}"')}
    assert put(cluster, LARGE, {}, **callback) == 201
    assert cluster.holders("/a/c/o") == ["sd0", "sd1", "sd2"]


@pytest.mark.parametrize("headers", [{}, {"If-None-Match": "*"}], ids=["large", "conditional"])
@pytest.mark.parametrize("status", [422, 499])
def test_a_body_that_changed_on_its_way_is_no_fault_of_the_client(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], status: int
) -> None:
    act = FakeDevice._act

    def blame(device: FakeDevice, seen: Seen) -> tuple[int, dict[str, str], bytes]:
        return (status, {}, b"") if seen.method == "PUT" else act(device, seen)

    monkeypatch.setattr(FakeDevice, "_act", blame)
    assert cluster.call("PUT", "/v1/a/c/o", LARGE, headers).status == 503


@BODIES
def test_a_callback_may_refuse_the_body(
    cluster: FakeCluster, body: bytes, headers: dict[str, str]
) -> None:
    def refuse(footers: MutableMapping[str, str]) -> None:
        raise http_error(422, "no")

    assert put(cluster, body, headers, **{"swift.callback.update_footers": refuse}) == 422
    assert cluster.holders("/a/c/o") == []


@BODIES
def test_the_proxys_own_row_shows_what_the_footers_say(
    make_cluster: MakeCluster, body: bytes, headers: dict[str, str]
) -> None:
    cluster = make_cluster(devices=3)
    cluster.make_container()
    cluster.devices[1].fault = lambda seen: HANG_UP if "x-container-host" in seen.headers else None
    assert put(cluster, body, headers) == 201
    rows = [s.headers for d in cluster.devices for s in d.seen if "x-size" in s.headers]
    assert [(row["x-etag"], row["x-size"]) for row in rows] == [("listed", str(len(body)))]


def test_a_device_that_takes_no_footers_is_replaced(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.devices[1].takes_footers = False
    assert put(cluster, LARGE, {}) == 201
    assert cluster.holders("/a/c/o") == ["sd0", "sd2", "sd3"]
    assert "takes no metadata after the object" in caplog.text
    cluster.devices[0].takes_footers = cluster.devices[2].takes_footers = False
    assert put(cluster, LARGE, {}) == 503


def test_without_a_callback_there_are_no_footers() -> None:
    assert len(footers_of({})) == 0


def test_the_object_length_is_announced_where_it_is_known() -> None:
    assert MimeBody().headers(5)["X-Backend-Obj-Content-Length"] == "5"
    assert "X-Backend-Obj-Content-Length" not in MimeBody().headers(None)


def test_system_metadata_goes_before_backend_headers_in_a_row() -> None:
    metadata = Headers(
        {
            "X-Backend-Container-Update-Override-Etag": "weak",
            "X-Object-Sysmeta-Container-Update-Override-Etag": "strong",
            "X-Backend-Container-Update-Override-Size": "77",
            "x-object-sysmeta-container-update-override-content-type": "c/d",
        }
    )
    assert overridden(5, "etag", "a/b", metadata) == ("77", "strong", "c/d")
    assert overridden(5, "etag", "a/b", Headers()) == ("5", "etag", "a/b")
    parameters = Headers({"X-Object-Sysmeta-Container-Update-Override-Etag": "; a=b"})
    assert overridden(5, "etag", "a/b", parameters) == ("5", "etag; a=b", "a/b")

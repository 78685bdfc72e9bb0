"""What object and container servers are told of versions."""

from __future__ import annotations

import pytest
from fake_cluster import FakeCluster, MakeCluster
from fake_devices import HANG_UP

from martlet.http.environ import VERSION_REQUEST
from martlet.http.request import Request
from proxy.replicas.versions import MARKER_TYPE, VersionRequest

OBJECT = "/v1/a/c/o"
ID = "1795223541.91251"
TIME = {"X-Timestamp": "2795223550.00000"}


def asking(headers: dict[str, str], path: str = OBJECT) -> dict[str, VersionRequest]:
    return {VERSION_REQUEST: VersionRequest(path, headers)}


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "POST", "DELETE"])
def test_object_servers_hear_of_the_version(cluster: FakeCluster, method: str) -> None:
    cluster.call("PUT", OBJECT, b"data")
    cluster.forget()
    cluster.call(method, OBJECT, **asking({"X-Backend-Version-Id": ID}))
    asked = [seen for device in cluster.devices for seen in device.seen if seen.method == method]
    assert any(seen.headers.get("x-backend-version-id") == ID for seen in asked)


def test_another_request_made_for_the_same_is_not_about_the_version(cluster: FakeCluster) -> None:
    cluster.call("PUT", OBJECT, b"data")
    cluster.forget()
    cluster.call("GET", OBJECT, **asking({"X-Backend-Version-Id": ID}, path="/v1/a/c/link"))
    for device in cluster.devices:
        assert all("x-backend-version-id" not in seen.headers for seen in device.seen)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_no_acl_of_a_container_admits_to_what_is_the_owners(
    cluster: FakeCluster, method: str
) -> None:
    acls: list[str | None] = []

    def authorize(request: Request) -> None:
        acls.append(request.acl)

    version = VersionRequest(OBJECT, {}, owner_only=True)
    cluster.call(method, OBJECT, **{VERSION_REQUEST: version, "swift.authorize": authorize})
    assert set(acls) == {None}


@pytest.mark.parametrize(
    ("method", "headers", "rows"),
    [
        ("PUT", {"X-Backend-Version-Id": ID}, [("PUT", ID, "d41d8cd98f00b204e9800998ecf8427e")]),
        ("PUT", {"X-Backend-Version-Restore": ID}, [("PUT", "current", ID)]),
        ("DELETE", {"X-Backend-Version-Id": ID}, [("DELETE", ID, None)]),
        (
            "DELETE",
            {"X-Backend-Version-Id": ID, "X-Backend-Version-Hide": "true"},
            [("DELETE", ID, None), ("DELETE", "current", None)],
        ),
        (
            "DELETE",
            {"X-Backend-Version-Id": ID, "X-Backend-Version-Marker": "true"},
            [("PUT", ID, "d41d8cd98f00b204e9800998ecf8427e")],
        ),
        (
            "DELETE",
            {"X-Backend-Version-Id": "null", "X-Backend-Version-Marker": "true"},
            [("PUT", "null", "~marker")],
        ),
    ],
)
@pytest.mark.parametrize("is_there", [True, False])
def test_rows_of_a_device_without_replacement(
    make_cluster: MakeCluster,
    method: str,
    headers: dict[str, str],
    rows: list[tuple[str, str, str | None]],
    is_there: bool,
) -> None:
    cluster = make_cluster(devices=3)
    cluster.make_container()
    if is_there:
        cluster.call("PUT", OBJECT, b"data")
        cluster.forget()
    cluster.devices[1].fault = lambda seen: HANG_UP if "x-container-host" in seen.headers else None
    cluster.call(method, OBJECT, b"", TIME, **asking(headers))
    sent = [
        (seen.method, seen.headers["x-backend-version-id"], seen.headers.get("x-etag"))
        for device in cluster.devices
        for seen in device.seen
        if "x-backend-version-id" in seen.headers and "x-container-host" not in seen.headers
    ]
    if method == "DELETE" and not is_there and "X-Backend-Version-Marker" not in headers:
        assert sent == []  # nothing was removed
        return
    assert sorted(set(sent), key=str) == sorted(rows, key=str)
    if "X-Backend-Version-Marker" in headers:
        types = [s.headers.get("x-content-type") for d in cluster.devices for s in d.seen]
        assert MARKER_TYPE in types


KEPT = '[{"name":"o","version_id":"1795223541.91251","content_type":"Ã¤"}]'


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize("knowing", [["sd0", "sd2"], ["sd1"], ["sd0", "sd1", "sd2"], []])
def test_rows_that_object_servers_know_of_reach_all_container_replicas(
    cluster: FakeCluster, method: str, knowing: list[str]
) -> None:
    """One that was away when the null version was written has none to keep."""
    cluster.call("PUT", OBJECT, b"data")
    cluster.forget()
    for device in cluster.devices:
        if device.name in knowing:
            device.more_headers = {"X-Backend-Container-Rows": KEPT}
    cluster.call(method, OBJECT, b"")
    told = {
        seen.headers["x-container-device"]
        for device in cluster.devices
        for seen in device.seen
        if device.name in knowing and "x-container-device" in seen.headers
    }
    sent = [
        (seen.path.split("/")[1], seen)
        for d in cluster.devices
        for seen in d.seen
        if seen.method == "UPDATE"
    ]
    assert sorted([*told, *(name for name, _ in sent)]) == (
        ["sd0", "sd1", "sd2"] if knowing else []
    )
    for _, seen in sent:
        assert seen.path.endswith("/a/c")
        assert seen.body == KEPT.encode("latin-1")
        assert seen.headers["x-backend-storage-policy-index"] == "0"

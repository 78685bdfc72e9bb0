"""Requests about containers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fake_cluster import FakeCluster, MakeCluster

from martlet.conf.cluster import StoragePolicy
from martlet.http.response import error_response

POLICIES = (
    StoragePolicy(0, "gold", is_default=True),
    StoragePolicy(1, "silver"),
    StoragePolicy(2, "lead", is_deprecated=True),
)


def test_put_creates_the_account_first(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    assert cluster.call("PUT", "/v1/a/c").status == 201
    assert cluster.call("PUT", "/v1/a/c").status == 202
    assert [("/a" in d.stored, "/a/c" in d.stored) for d in cluster.devices[:3]] == [
        (True, True)
    ] * 3
    assert cluster.devices[3].stored == {}


def test_each_replica_tells_one_account_replica(cluster: FakeCluster) -> None:
    cluster.call("PUT", "/v1/a/c2")
    told = [d.last("PUT").headers["x-account-host"] for d in cluster.devices[:3]]
    assert sorted(told) == sorted(f"127.0.0.1:{d.port}" for d in cluster.devices[:3])


def test_get_and_head(cluster: FakeCluster) -> None:
    cluster.call("PUT", "/v1/a/c/o", b"data")
    reply = cluster.call("GET", "/v1/a/c")
    assert (reply.status, [row["name"] for row in json.loads(reply.body)]) == (200, ["o"])
    assert reply.headers["x-storage-policy"] == "gold"
    head = cluster.call("HEAD", "/v1/a/c")
    assert (head.status, head.headers["accept-ranges"]) == (204, "bytes")
    assert cluster.call("GET", "/v1/a/missing").status == 404
    assert cluster.call("GET", "/v1/nobody/c").status == 404


def test_policies(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(policies=POLICIES)
    assert cluster.call("PUT", "/v1/a/c").status == 201
    assert cluster.devices[0].last("PUT").headers["x-backend-storage-policy-default"] == "0"
    assert cluster.call("PUT", "/v1/a/s", headers={"X-Storage-Policy": "SILVER"}).status == 201
    assert cluster.call("HEAD", "/v1/a/s").headers["x-storage-policy"] == "silver"
    for name in ("lead", "tin"):
        reply = cluster.call("PUT", "/v1/a/x", headers={"X-Storage-Policy": name})
        assert reply.status == 400
    assert cluster.call("PUT", "/v1/a/s/o", b"data").status == 201
    assert cluster.devices[0].last("PUT").headers["x-backend-storage-policy-index"] == "1"


def test_metadata_is_set_and_removed(cluster: FakeCluster) -> None:
    owner = {"swift_owner": True}
    given = {"X-Container-Meta-A": "1", "X-Container-Read": ".r:*"}
    assert cluster.call("POST", "/v1/a/c", headers=given, **owner).status == 204
    headers = cluster.call("HEAD", "/v1/a/c", **owner).headers
    assert (headers["x-container-meta-a"], headers["x-container-read"]) == ("1", ".r:*")
    removed = {"X-Remove-Container-Meta-A": "x", "X-Remove-Container-Read": "x"}
    cluster.call("POST", "/v1/a/c", headers=removed, **owner)
    headers = cluster.call("HEAD", "/v1/a/c", **owner).headers
    assert "x-container-meta-a" not in headers
    assert "x-container-read" not in headers


def test_names_of_metadata_may_be_beyond_ascii(cluster: FakeCluster) -> None:
    """Storage servers take ASCII only: such names are encoded for them, and decoded for clients."""
    tail = "\U0001f44d\u00df".encode().decode("latin-1")
    name = f"X-Container-Meta-{tail}"
    assert cluster.call("POST", "/v1/a/c", headers={name: "1"}).status == 204
    wire = "x-container-sysmeta-utf8-x-container-meta-%f0%9f%91%8d%c3%9f"
    assert cluster.devices[0].last("POST").headers[wire] == "1"
    assert cluster.call("HEAD", "/v1/a/c").headers[name.lower()] == "1"
    removal = f"X-Remove-Container-Meta-{tail}"
    assert cluster.call("POST", "/v1/a/c", headers={removal: "x"}).status == 204
    assert name.lower() not in cluster.call("HEAD", "/v1/a/c").headers


def test_only_owners_set_and_see_acls(cluster: FakeCluster) -> None:
    cluster.call("POST", "/v1/a/c", headers={"X-Container-Read": ".r:*"})
    assert "x-container-read" not in cluster.devices[0].stored["/a/c"].headers
    cluster.call("POST", "/v1/a/c", headers={"X-Container-Read": ".r:*"}, swift_owner=True)
    assert "x-container-read" not in cluster.call("HEAD", "/v1/a/c").headers


@pytest.mark.parametrize("name", ["Container-Read", "Container-Meta-Temp-URL-Key"])
def test_only_owners_take_them_away(cluster: FakeCluster, name: str) -> None:
    cluster.call("POST", "/v1/a/c", headers={f"X-{name}": "secret"}, swift_owner=True)
    cluster.call("POST", "/v1/a/c", headers={f"X-Remove-{name}": "x"})
    assert cluster.call("HEAD", "/v1/a/c", swift_owner=True).headers[f"x-{name.lower()}"]
    cluster.call("POST", "/v1/a/c", headers={f"X-Remove-{name}": "x"}, swift_owner=True)
    assert f"x-{name.lower()}" not in cluster.call("HEAD", "/v1/a/c", swift_owner=True).headers


def test_acls_are_cleaned(cluster: FakeCluster) -> None:
    def clean(name: str, value: str) -> str:
        if value == "bad":
            raise ValueError("Unknown designator")
        return f"{name}={value}"

    environ: dict[str, Any] = {"swift.clean_acl": clean, "swift_owner": True}
    reply = cluster.call("POST", "/v1/a/c", headers={"X-Container-Write": "bad"}, **environ)
    assert reply.status == 400
    assert b"Unknown designator" in reply.body
    cluster.call("POST", "/v1/a/c", headers={"X-Container-Write": "u"}, **environ)
    kept = cluster.devices[0].stored["/a/c"].headers["x-container-write"]
    assert kept == "x-container-write=u"


def test_read_acl_reaches_the_auth_system(cluster: FakeCluster) -> None:
    cluster.call("POST", "/v1/a/c", headers={"X-Container-Read": ".r:*"}, swift_owner=True)
    seen: list[str | None] = []

    def authorize(req: Any) -> Any:
        seen.append(req.acl)
        return None if req.acl == ".r:*" else error_response(403)

    assert cluster.call("GET", "/v1/a/c", **{"swift.authorize": authorize}).status == 200
    assert seen == [None, ".r:*"]
    assert cluster.call("PUT", "/v1/a/c", **{"swift.authorize": authorize}).status == 403


def test_delete(cluster: FakeCluster) -> None:
    assert cluster.call("DELETE", "/v1/a/c").status == 204
    assert cluster.call("DELETE", "/v1/a/c").status == 404
    assert cluster.call("DELETE", "/v1/nobody/c").status == 404


def test_not_empty_is_409(cluster: FakeCluster) -> None:
    for device in cluster.devices[:3]:
        device.fault = lambda seen: 409 if seen.method == "DELETE" else None
    assert cluster.call("DELETE", "/v1/a/c").status == 409


def test_post_to_missing_is_404(cluster: FakeCluster) -> None:
    assert cluster.call("POST", "/v1/a/missing").status == 404


@pytest.mark.parametrize("method", ["PUT", "POST"])
@pytest.mark.parametrize(
    "headers",
    [{"X-Container-Meta-A": "x" * 257}, {"X-Container-Meta-A": "\xff"}],
)
def test_bad_metadata_is_400(cluster: FakeCluster, method: str, headers: dict[str, str]) -> None:
    assert cluster.call(method, "/v1/a/c", headers=headers).status == 400


def test_name_limits(cluster: FakeCluster) -> None:
    assert cluster.call("PUT", "/v1/a/" + "c" * 257).status == 400
    assert cluster.call("PUT", "/v1/a/" + "c" * 256).status == 201
    assert cluster.call("GET", "/v1/a/c?limit=10001").status == 412


def test_container_limit(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(max_containers_per_account=1, recheck_account_existence=0)
    assert cluster.call("PUT", "/v1/a/c1").status == 201
    assert cluster.call("PUT", "/v1/a/c2").status == 403
    assert cluster.call("PUT", "/v1/a/c1").status == 202


def test_unknown_state_of_the_account_is_503_and_not_404(cluster: FakeCluster) -> None:
    for device in cluster.devices:
        device.fault = 503
    for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
        assert cluster.call(method, "/v1/a/c").status == 503


def test_handoff_takes_the_place_of_a_dead_server(cluster: FakeCluster) -> None:
    cluster.devices[0].stop()
    assert cluster.call("PUT", "/v1/a/c2").status == 201
    assert "/a/c2" in cluster.devices[3].stored


@pytest.mark.parametrize("path", ["/v1/a", "/v1/a/c"])
def test_listing_that_breaks_off_is_asked_for_again(cluster: FakeCluster, path: str) -> None:
    cluster.call("PUT", "/v1/a/c/object", b"")
    whole = cluster.call("GET", path)
    for device in cluster.devices[:2]:
        device.cut_after = 3
    for _ in range(4):
        assert cluster.call("GET", path).body == whole.body
    cluster.devices[2].cut_after = 3
    assert cluster.call("GET", path).status == 503


def test_a_server_that_misses_a_known_container_is_told_to_make_it(cluster: FakeCluster) -> None:
    def told(method: str) -> set[str | None]:
        seen = [s for d in cluster.devices for s in d.seen if s.method == method]
        cluster.forget()
        return {s.headers.get("x-backend-restore") for s in seen}

    cluster.call("PUT", "/v1/a/new")
    assert told("PUT") == {None}
    cluster.call("PUT", "/v1/a/new", **{"swift.infocache": {"container/a/new": {"status": 204}}})
    assert told("PUT") == {"true"}
    cluster.call("POST", "/v1/a/new", headers={"X-Container-Meta-A": "1"})
    assert told("POST") == {"true"}
    cluster.call("DELETE", "/v1/a/new")
    assert told("DELETE") == {"true"}
    cluster.call("POST", "/v1/a/none")
    assert told("POST") == {None}

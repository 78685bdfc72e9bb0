"""Requests about accounts."""

from __future__ import annotations

import json

import pytest
from fake_cluster import FakeCluster, MakeCluster


def test_missing_account_reads_as_empty_with_autocreate(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    reply = cluster.call("GET", "/v1/a")
    assert (reply.status, json.loads(reply.body)) == (200, [])
    assert reply.headers["x-account-container-count"] == "0"
    assert cluster.call("HEAD", "/v1/a").status == 200
    assert all(not d.stored for d in cluster.devices)


def test_missing_account_is_404_without_autocreate(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(account_autocreate=False)
    assert cluster.call("GET", "/v1/a").status == 404
    assert cluster.call("POST", "/v1/a", headers={"X-Account-Meta-A": "1"}).status == 404
    assert cluster.call("PUT", "/v1/a/c").status == 404


def test_post_creates_the_account(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    assert cluster.call("POST", "/v1/a", headers={"X-Account-Meta-A": "1"}).status == 204
    assert cluster.call("HEAD", "/v1/a").headers["x-account-meta-a"] == "1"
    assert [("/a" in d.stored) for d in cluster.devices] == [True, True, True, False]


def test_listing_is_asked_for_in_json_with_the_clients_parameters(cluster: FakeCluster) -> None:
    cluster.call("GET", "/v1/a?prefix=%C3%A9&limit=3&format=xml")
    asked = [s.path for d in cluster.devices for s in d.seen if s.method == "GET"]
    assert asked == [asked[0]]
    query = set(asked[0].partition("?")[2].split("&"))
    assert query == {"prefix=%C3%A9", "limit=3", "format=json"}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/a?limit=10001", 412),
        ("/v1/a?prefix=%FF", 400),
        ("/v1/a?marker=a%00", 200),
        ("/v1/a?limit=" + "9" * 5000, 412),
        ("/v1/" + "a" * 257, 400),
    ],
)
def test_bad_listing_requests(cluster: FakeCluster, path: str, status: int) -> None:
    assert cluster.call("GET", path).status == status


def test_metadata_is_set_and_removed(cluster: FakeCluster) -> None:
    cluster.call("POST", "/v1/a", headers={"X-Account-Meta-A": "1", "X-Account-Meta-B": "2"})
    cluster.call("POST", "/v1/a", headers={"X-Remove-Account-Meta-A": "x"})
    headers = cluster.call("HEAD", "/v1/a").headers
    assert "x-account-meta-a" not in headers
    assert headers["x-account-meta-b"] == "2"


def test_put_and_delete_only_where_accounts_are_managed(make_cluster: MakeCluster) -> None:
    closed = make_cluster()
    for method in ("PUT", "DELETE"):
        reply = closed.call(method, "/v1/a")
        assert reply.status == 405
        assert reply.headers["allow"] == "GET, HEAD, OPTIONS, POST"
    managed = make_cluster(allow_account_management=True)
    assert managed.call("PUT", "/v1/a").status == 201
    assert managed.call("PUT", "/v1/a").status == 202
    assert managed.call("DELETE", "/v1/a", QUERY_STRING="x=1").status == 400
    assert managed.call("DELETE", "/v1/a").status == 204
    assert managed.call("HEAD", "/v1/a").status == 200


def test_only_owners_see_owner_headers(cluster: FakeCluster) -> None:
    for device in cluster.devices[:3]:
        device.stored["/a"].headers |= {
            "x-account-meta-temp-url-key": "secret",
            "x-account-sysmeta-core-access-control": '{"admin":["x"]}',
        }
    stranger = cluster.call("HEAD", "/v1/a").headers
    assert not {"x-account-meta-temp-url-key", "x-account-access-control"} & set(stranger)
    owner = cluster.call("HEAD", "/v1/a", swift_owner=True).headers
    assert owner["x-account-meta-temp-url-key"] == "secret"
    assert owner["x-account-access-control"] == '{"admin":["x"]}'
    assert "x-account-sysmeta-core-access-control" not in owner


def test_bad_metadata_is_400(cluster: FakeCluster) -> None:
    assert cluster.call("POST", "/v1/a", headers={"X-Account-Meta-A": "x" * 257}).status == 400
    assert cluster.call("POST", "/v1/a", headers={"X-Account-Meta-A": "\xff"}).status == 400


def test_deleted_account_that_is_still_there_is_410(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    for device in cluster.devices:
        device._act = lambda seen: (404, {"X-Account-Status": "Deleted"}, b"")
    assert cluster.call("GET", "/v1/a").status == 410


def test_a_server_that_misses_a_known_account_is_told_to_make_it(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(allow_account_management=True)

    def told(method: str) -> set[str | None]:
        seen = [s for d in cluster.devices for s in d.seen if s.method == method]
        cluster.forget()
        return {s.headers.get("x-backend-restore") for s in seen}

    cluster.call("PUT", "/v1/new")
    assert told("PUT") == {None}
    cluster.call("POST", "/v1/new", headers={"X-Account-Meta-A": "1"})
    assert told("POST") == {"true"}
    cluster.call("DELETE", "/v1/new")
    assert told("DELETE") == {"true"}
    cluster.call("DELETE", "/v1/none")
    assert told("DELETE") == {None}

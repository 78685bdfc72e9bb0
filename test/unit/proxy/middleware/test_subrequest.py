"""Sub-requests of filters."""

from __future__ import annotations

from typing import Any

from fake_cluster import MakeCluster

from martlet.http.request import Request
from martlet.http.response import Response
from proxy.middleware.subrequest import (
    ask_app,
    get_account_info,
    get_container_info,
    sub_environ,
)


def client_environ(**more: Any) -> dict[str, Any]:
    headers = {"X-Auth-Token": "AUTH_tk1", "X-Object-Meta-Color": "blue", "Range": "bytes=1-2"}
    request = Request.blank("/v1/a/c/o?x=1", "PUT", headers, b"body", more)
    return request.environ


def test_a_sub_request_is_the_clients_but_not_the_request() -> None:
    parent = client_environ(REMOTE_USER="a,a:u", **{"swift.trans_id": "tx1"})
    child = sub_environ(
        parent, "GET", "/v1/a/c2", "TEST", query="limit=1", headers={"X-Newest": "1"}
    )
    assert child["REQUEST_METHOD"] == "GET"
    assert child["PATH_INFO"] == "/v1/a/c2"
    assert child["QUERY_STRING"] == "limit=1"
    assert child["CONTENT_LENGTH"] == "0"
    assert child["wsgi.input"].read() == b""
    assert child["HTTP_X_NEWEST"] == "1"
    assert child["HTTP_X_AUTH_TOKEN"] == "AUTH_tk1"
    assert child["REMOTE_USER"] == "a,a:u"
    assert child["swift.trans_id"] == "tx1"
    assert child["swift.source"] == "TEST"
    assert "HTTP_X_OBJECT_META_COLOR" not in child
    assert "HTTP_RANGE" not in child


def test_what_is_learnt_of_containers_is_shared() -> None:
    parent = client_environ()
    child = sub_environ(parent, "HEAD", "/v1/a", "TEST")
    child["swift.infocache"]["account/a"] = {"status": 200}
    assert parent["swift.infocache"] == {"account/a": {"status": 200}}


def test_authorization_is_the_clients_unless_the_filter_answers_for_it() -> None:
    def refuse(request: Request) -> Response:
        return Response(403)

    parent = client_environ(**{"swift.authorize": refuse})
    assert sub_environ(parent, "GET", "/v1/a", "TEST")["swift.authorize"] is refuse
    child = sub_environ(parent, "GET", "/v1/a", "TEST", pre_authorized=True)
    assert "swift.authorize" not in child
    assert child["swift.authorize_override"] is True
    assert parent["swift.authorize"] is refuse
    assert "swift.authorize_override" not in parent


def test_a_filter_learns_of_accounts_and_containers(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    created = cluster.call("PUT", "/v1/a/c", headers={"X-Container-Meta-Quota-Count": "5"})
    assert created.status == 201
    parent = client_environ()
    info = get_container_info(parent, cluster.app, "a", "c", "TEST")
    assert (info["status"], info["meta"]) == (204, {"quota-count": "5"})
    assert get_account_info(parent, cluster.app, "a", "TEST")["account_really_exists"]
    asked = sum(len(device.seen) for device in cluster.devices)
    assert get_container_info(parent, cluster.app, "a", "c", "TEST") == info
    assert sum(len(device.seen) for device in cluster.devices) == asked
    assert get_container_info(parent, cluster.app, "a", "none", "TEST")["status"] == 404
    assert get_container_info(parent, cluster.app, "a", "\0reserved", "TEST")["status"] == 412


def test_a_filter_learns_past_an_auth_system_that_refuses(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    cluster.make_container()
    parent = client_environ(**{"swift.authorize": lambda request: Response(403)})
    assert get_container_info(parent, cluster.app, "a", "c", "TEST")["status"] == 204
    refused = ask_app(cluster.app, sub_environ(parent, "GET", "/v1/a/c", "TEST"))
    assert (refused.status, refused.is_success) == (403, False)

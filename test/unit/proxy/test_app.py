"""Routing, authorization, information and its cache, CORS."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from typing import Any

import pytest
from fake_cluster import FakeCluster, MakeCluster

from martlet.http.response import error_response


class DictCache:
    """The cache's interface over a dict; remembers for how long things were to be kept."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.times: dict[str, float] = {}

    def lookup(self, key: str) -> tuple[Any, int]:
        return self.values.get(key), 1

    def set(self, key: str, value: Any, time: float = 0, lease: Any = None) -> None:
        self.values[key] = json.loads(json.dumps(value))
        self.times[key] = time

    def delete(self, key: str) -> None:
        self.values.pop(key, None)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 404),
        ("/v1", 412),
        ("/v1/", 412),
        ("//v1/a", 404),
        ("/v2/a", 400),
        ("/v2/a/c/o", 400),
        ("/v1/a//o", 404),
        ("/v1/%FF", 412),
        ("/v1/a/c%00", 412),
        ("/v1/a/c/", 200),
        ("/v1.0/a/c", 200),
    ],
)
def test_paths(cluster: FakeCluster, path: str, status: int) -> None:
    assert cluster.call("GET", path).status == status


@pytest.mark.parametrize("path", ["/v1/a", "/v1/a/c", "/v1/a/c/o"])
def test_unknown_method_names_the_known_ones(cluster: FakeCluster, path: str) -> None:
    reply = cluster.call("PATCH", path)
    assert reply.status == 405
    assert {"GET", "HEAD", "POST", "OPTIONS"} <= set(reply.headers["allow"].split(", "))


def test_denied_host(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(deny_host_headers=["evil.example"])
    assert cluster.call("GET", "/v1/a", headers={"Host": "evil.example:80"}).status == 403


def test_bad_timestamp_is_400(cluster: FakeCluster) -> None:
    assert cluster.call("PUT", "/v1/a/c/o", b"", {"X-Timestamp": "now"}).status == 400


def test_unhandled_error_is_500_and_logged(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.app.core.rings.container.get_nodes = None  # type: ignore[assignment]
    reply = cluster.call("GET", "/v1/a/c", **{"swift.trans_id": "tx123"})
    assert reply.status == 500
    assert "tx123" in caplog.text


class Auth:
    """Says yes once the ACL is right; remembers what it was asked."""

    def __init__(self, acl: str | None) -> None:
        self.acl = acl
        self.asked: list[str | None] = []

    def __call__(self, req: Any) -> Any:
        self.asked.append(req.acl)
        return None if req.acl == self.acl else error_response(403)


def test_denied_at_once_where_no_acl_can_help(cluster: FakeCluster) -> None:
    auth = Auth("never")
    for method in ("GET", "HEAD", "POST"):
        assert cluster.call(method, "/v1/a", **{"swift.authorize": auth}).status == 403
    for method in ("PUT", "POST", "DELETE"):
        assert cluster.call(method, "/v1/a/c", **{"swift.authorize": auth}).status == 403
    assert auth.asked == [None] * 6
    assert all(d.seen == [] for d in cluster.devices)


@pytest.mark.parametrize(
    ("method", "acl", "status"),
    [("GET", "r", 404), ("HEAD", "r", 404), ("PUT", "w", 201), ("DELETE", "w", 404)],
)
def test_object_acl_is_that_of_the_container(
    cluster: FakeCluster, method: str, acl: str, status: int
) -> None:
    cluster.call(
        "POST",
        "/v1/a/c",
        headers={"X-Container-Read": "r", "X-Container-Write": "w"},
        swift_owner=True,
    )
    allowed = {"swift.authorize": Auth(acl)}
    denied = {"swift.authorize": Auth("other")}
    assert cluster.call(method, "/v1/a/c/o", **allowed).status == status
    assert cluster.call(method, "/v1/a/c/o", **denied).status == 403


def test_owner_is_asked_for_once(cluster: FakeCluster) -> None:
    auth = Auth(None)
    cluster.call("PUT", "/v1/a/c/o", b"", **{"swift.authorize": auth})
    assert auth.asked == [None]


def test_existence_of_a_container_is_not_shown_to_strangers(cluster: FakeCluster) -> None:
    denied = {"swift.authorize": Auth("never")}
    assert cluster.call("GET", "/v1/a/missing/o", **denied).status == 403
    assert cluster.call("PUT", "/v1/a/missing/o", b"", **denied).status == 403
    assert cluster.call("GET", "/v1/nobody/missing", **denied).status == 403


def test_information_is_cached_and_forgotten_with_a_change(cluster: FakeCluster) -> None:
    cache = cluster.environ["swift.cache"] = DictCache()
    cluster.call("PUT", "/v1/a/c/o", b"")
    assert cache.values["container/a/c"]["status"] == 204
    assert cache.times["container/a/c"] == 60
    cluster.forget()
    cluster.call("PUT", "/v1/a/c/o", b"")
    assert {m for d in cluster.devices for m in d.methods()} == {"PUT"}
    cluster.call("POST", "/v1/a/c", headers={"X-Container-Write": "w"}, swift_owner=True)
    assert "container/a/c" not in cache.values
    cluster.call("DELETE", "/v1/a/c/o")
    assert cache.values["container/a/c"]["write_acl"] == "w"
    cluster.call("DELETE", "/v1/a/c")
    assert "container/a/c" not in cache.values


def test_information_is_forgotten_also_when_the_change_failed(cluster: FakeCluster) -> None:
    """The servers may have done it all the same."""
    cache = cluster.environ["swift.cache"] = DictCache()
    cluster.call("HEAD", "/v1/a/c/o")
    assert "container/a/c" in cache.values
    for device in cluster.devices:
        device.fault = 503
    cluster.call("DELETE", "/v1/a/c")
    assert "container/a/c" not in cache.values


def test_what_is_missing_is_believed_for_a_tenth_of_the_time(cluster: FakeCluster) -> None:
    cache = cluster.environ["swift.cache"] = DictCache()
    assert cluster.call("PUT", "/v1/a/missing/o", b"").status == 404
    assert cache.times["container/a/missing"] == 6
    assert cluster.call("PUT", "/v1/a/missing").status == 201
    assert cluster.call("PUT", "/v1/a/missing/o", b"").status == 201


def test_errors_are_not_cached(cluster: FakeCluster) -> None:
    cache = cluster.environ["swift.cache"] = DictCache()
    for device in cluster.devices:
        device.fault = 503
    assert cluster.call("GET", "/v1/a/c/o").status == 503
    assert cache.values == {}


def test_info(cluster: FakeCluster) -> None:
    page = json.loads(cluster.call("GET", "/info").body)
    assert page["swift"]["max_file_size"] == 5 * 1024**3 + 2
    assert page["swift"]["policies"] == [{"name": "gold", "aliases": "gold", "default": True}]
    assert "admin" not in page
    assert cluster.call("OPTIONS", "/info").status == 200
    assert cluster.call("POST", "/info").status == 405


def test_info_can_be_hidden(make_cluster: MakeCluster) -> None:
    assert make_cluster(expose_info=False).call("GET", "/info").status == 403
    partly = make_cluster(disallowed_sections=["swift.max_file_size"])
    assert "max_file_size" not in json.loads(partly.call("GET", "/info").body)["swift"]


def test_signed_info(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(admin_key="secret")

    def ask(expires: int, key: str = "secret") -> int:
        message = f"GET\n{expires}\n/info".encode()
        signature = hmac.new(key.encode(), message, hashlib.sha1).hexdigest()
        path = f"/info?swiftinfo_sig={signature}&swiftinfo_expires={expires}"
        reply = cluster.call("GET", path)
        assert (reply.status == 200) == (b'"admin"' in reply.body)
        return reply.status

    soon = int(time.time()) + 60
    assert ask(soon) == 200
    assert ask(soon, key="wrong") == 401
    assert ask(int(time.time()) - 60) == 401
    assert cluster.call("GET", "/info?swiftinfo_sig=x&swiftinfo_expires=x").status == 401
    digits = "9" * 5000
    assert cluster.call("GET", f"/info?swiftinfo_sig=x&swiftinfo_expires={digits}").status == 401


def test_cors(cluster: FakeCluster) -> None:
    allowed = {"X-Container-Meta-Access-Control-Allow-Origin": "http://a.example http://b.example"}
    cluster.call("POST", "/v1/a/c", headers=allowed)
    cluster.call("PUT", "/v1/a/c/o", b"data", {"X-Object-Meta-Color": "red"})
    reply = cluster.call("GET", "/v1/a/c/o", headers={"Origin": "http://a.example"})
    assert reply.headers["access-control-allow-origin"] == "http://a.example"
    assert reply.headers["vary"] == "Origin"
    assert "x-object-meta-color" in reply.headers["access-control-expose-headers"]
    reply = cluster.call("GET", "/v1/a/c/o", headers={"Origin": "http://evil.example"})
    assert reply.status == 200
    assert "access-control-allow-origin" not in reply.headers
    reply = cluster.call("GET", "/v1/a/c/missing", headers={"Origin": "http://a.example"})
    assert reply.status == 404
    assert reply.headers["access-control-allow-origin"] == "http://a.example"
    denied = {"swift.authorize": Auth("never")}
    reply = cluster.call("GET", "/v1/a/c/o", headers={"Origin": "http://a.example"}, **denied)
    assert reply.status == 403
    assert reply.headers["access-control-allow-origin"] == "http://a.example"


@pytest.mark.parametrize(
    ("origin", "method", "status"),
    [
        ("http://a.example", "PUT", 200),
        ("http://a.example", "PATCH", 401),
        ("http://evil.example", "PUT", 401),
    ],
)
def test_preflight(cluster: FakeCluster, origin: str, method: str, status: int) -> None:
    allowed = {
        "X-Container-Meta-Access-Control-Allow-Origin": "http://a.example",
        "X-Container-Meta-Access-Control-Max-Age": "5",
    }
    cluster.call("POST", "/v1/a/c", headers=allowed)
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": "X-Auth-Token, X-A",
    }
    reply = cluster.call("OPTIONS", "/v1/a/c/o", headers=headers)
    assert reply.status == status
    if status == 200:
        assert reply.headers["access-control-allow-origin"] == origin
        assert reply.headers["access-control-max-age"] == "5"
        assert reply.headers["access-control-allow-headers"] == "X-Auth-Token, X-A"
        assert "PUT" in reply.headers["access-control-allow-methods"]


def test_options_without_origin(cluster: FakeCluster) -> None:
    for path in ("/v1/a", "/v1/a/c", "/v1/a/c/o"):
        assert cluster.call("OPTIONS", path).status == 200

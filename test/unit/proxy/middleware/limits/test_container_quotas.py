"""Container quotas."""

from __future__ import annotations

from typing import Any

import pytest
from fake_proxy import FakeProxy

from martlet.http.request import Request
from martlet.http.response import error_response
from proxy.info_registry import clear_info, collect_info
from proxy.lookup.usage import Usage
from proxy.middleware.limits.container_quotas import ContainerQuotas, filter_factory

OBJECT = "/v1/a/c/o"
CHUNKED = {"Transfer-Encoding": "chunked"}


@pytest.fixture
def proxy() -> FakeProxy:
    return FakeProxy()


def put(ask: Any, proxy: FakeProxy, body: bytes, **environ: Any) -> int:
    status: int = ask(ContainerQuotas(proxy), OBJECT, "PUT", {}, body, environ).status
    return status


@pytest.mark.parametrize(
    ("meta", "used", "size", "status"),
    [
        ({}, Usage(1000, 1000), 10, 201),
        ({"quota-bytes": "100"}, Usage(90, 3), 10, 201),
        ({"quota-bytes": "100"}, Usage(90, 3), 11, 413),
        ({"quota-bytes": "100"}, Usage(100, 3), 0, 201),
        ({"quota-bytes": "100"}, Usage(101, 3), 0, 413),
        ({"quota-bytes": "0"}, Usage(0, 0), 1, 413),
        ({"quota-count": "4"}, Usage(90, 3), 1000, 201),
        ({"quota-count": "4"}, Usage(90, 4), 0, 413),
        ({"quota-bytes": "100", "quota-count": "4"}, Usage(0, 4), 1, 413),
        ({"quota-bytes": "none", "quota-count": ""}, Usage(1000, 1000), 10, 201),
        ({"quota-bytes": "²"}, Usage(1000, 1000), 10, 201),
    ],
)
def test_uploads(
    ask: Any, proxy: FakeProxy, meta: dict[str, str], used: Usage, size: int, status: int
) -> None:
    proxy.container["meta"] = meta
    proxy.usage = used
    assert put(ask, proxy, b"x" * size) == status
    assert (OBJECT in proxy.stored) == (status == 201)


def test_only_containers_with_a_quota_are_looked_at(ask: Any, proxy: FakeProxy) -> None:
    put(ask, proxy, b"x")
    assert proxy.looks == 0
    proxy.container["meta"] = {"quota-count": "5"}
    put(ask, proxy, b"x")
    put(ask, proxy, b"x")
    assert proxy.looks == 2


def test_what_is_remembered_counts_when_no_server_answers(ask: Any, proxy: FakeProxy) -> None:
    proxy.usage = None
    proxy.container |= {"meta": {"quota-bytes": "100"}, "bytes": 95}
    assert put(ask, proxy, b"x" * 5) == 201
    assert put(ask, proxy, b"x" * 6) == 413


@pytest.mark.parametrize(("size", "status"), [(9, 201), (10, 201), (11, 413), (5000, 413)])
def test_a_body_of_unknown_length_is_cut_off(
    ask: Any, proxy: FakeProxy, size: int, status: int
) -> None:
    proxy.container["meta"] = {"quota-bytes": "100"}
    proxy.usage = Usage(90, 1)
    answer = ask(ContainerQuotas(proxy), OBJECT, "PUT", CHUNKED, b"x" * size)
    assert answer.status == status
    assert proxy.stored == ({OBJECT: b"x" * size} if status == 201 else {})


def test_a_body_of_unknown_length_is_refused_where_there_is_no_room(
    ask: Any, proxy: FakeProxy
) -> None:
    proxy.container["meta"] = {"quota-bytes": "100"}
    proxy.usage = Usage(101, 1)
    answer = ask(ContainerQuotas(proxy), OBJECT, "PUT", CHUNKED, b"")
    assert (answer.status, proxy.stored) == (413, {})


def test_a_container_that_is_not_there_is_left_to_the_proxy(ask: Any, proxy: FakeProxy) -> None:
    proxy.container |= {"status": 404, "meta": {"quota-bytes": "0"}}
    assert put(ask, proxy, b"x") == 404


def test_who_may_not_write_learns_nothing(ask: Any, proxy: FakeProxy) -> None:
    proxy.container |= {"meta": {"quota-bytes": "0"}, "write_acl": "friend"}

    def friends_only(req: Request) -> Any:
        return None if req.acl == "friend" else error_response(401)

    assert put(ask, proxy, b"x", **{"swift.authorize": friends_only}) == 413
    proxy.container["write_acl"] = None
    assert put(ask, proxy, b"x", **{"swift.authorize": friends_only}) == 401


@pytest.mark.parametrize("method", ["PUT", "POST"])
@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("Bytes", "10", 204),
        ("Bytes", "", 204),
        ("Bytes", "-1", 400),
        ("Bytes", "ten", 400),
        ("Bytes", "1.5", 400),
        ("Count", "10", 204),
        ("Count", "1e3", 400),
        ("Count", "9" * 5000, 400),
    ],
)
def test_a_quota_is_a_whole_number(
    ask: Any, proxy: FakeProxy, method: str, name: str, value: str, status: int
) -> None:
    headers = {f"X-Container-Meta-Quota-{name}": value}
    answer = ask(ContainerQuotas(proxy), "/v1/a/c", method, headers)
    assert answer.status == status
    if status == 400:
        assert answer.body == f"Invalid {name.lower()} quota.".encode()


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", OBJECT), ("GET", OBJECT), ("DELETE", OBJECT), ("PUT", "/v1/a"), ("PUT", "/info")],
)
def test_the_rest_goes_on(ask: Any, proxy: FakeProxy, method: str, path: str) -> None:
    proxy.container["meta"] = {"quota-bytes": "0", "quota-count": "0"}
    assert ask(ContainerQuotas(proxy), path, method).status == 204


def test_a_name_that_is_no_text_is_left_to_the_proxy(ask: Any, proxy: FakeProxy) -> None:
    assert ask(ContainerQuotas(proxy), "/v1/a/%FF/o", "PUT").status == 201


def test_factory(proxy: FakeProxy) -> None:
    assert isinstance(filter_factory({})(proxy), ContainerQuotas)
    assert collect_info()["container_quotas"] == {}
    clear_info()

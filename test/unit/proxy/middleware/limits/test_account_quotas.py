"""Account quotas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_proxy import FakeProxy

from martlet.conf.storage_policies import StoragePolicy
from martlet.http.request import Request
from proxy.info_registry import clear_info, collect_info
from proxy.lookup.usage import AccountUsage, Usage
from proxy.middleware.limits.account_quotas import AccountQuotas, filter_factory

OBJECT = "/v1/a/c/o"
POLICIES = (StoragePolicy(0, "gold", is_default=True), StoragePolicy(1, "silver"))
RESELLER = {"reseller_request": True}


@pytest.fixture
def proxy() -> FakeProxy:
    proxy = FakeProxy()
    proxy.account_usage = AccountUsage(Usage(90, 9), Usage(40, 4))
    return proxy


def put(ask: Any, proxy: FakeProxy, size: int, **environ: Any) -> Any:
    app = AccountQuotas(proxy, POLICIES)
    return ask(app, OBJECT, "PUT", {}, b"x" * size, environ)


@pytest.mark.parametrize(
    ("sysmeta", "size", "status"),
    [
        ({}, 1000, 201),
        ({"quota-bytes": "100"}, 10, 201),
        ({"quota-bytes": "100"}, 11, 413),
        ({"quota-count": "10"}, 1000, 201),
        ({"quota-count": "9"}, 0, 413),
        ({"quota-bytes-policy-1": "50"}, 10, 201),
        ({"quota-bytes-policy-1": "50"}, 11, 413),
        ({"quota-count-policy-1": "5"}, 11, 201),
        ({"quota-count-policy-1": "4"}, 0, 413),
        ({"quota-bytes-policy-0": "0", "quota-count-policy-0": "0"}, 11, 201),
        ({"quota-bytes-policy-11": "0"}, 11, 201),
        ({"quota-bytes": "100", "quota-bytes-policy-1": "1000"}, 11, 413),
        ({"quota-bytes": ""}, 1000, 201),
        ({"quota-bytes": "many"}, 1000, 201),
    ],
)
def test_uploads(
    ask: Any, proxy: FakeProxy, sysmeta: dict[str, str], size: int, status: int
) -> None:
    proxy.account["sysmeta"] = sysmeta
    proxy.container["storage_policy"] = 1
    assert put(ask, proxy, size).status == status
    assert (OBJECT in proxy.stored) == (status == 201)


def test_which_quota_it_was_is_said(ask: Any, proxy: FakeProxy) -> None:
    proxy.account["sysmeta"] = {"quota-bytes": "0"}
    assert put(ask, proxy, 1).body == b"Upload exceeds quota."
    proxy.account["sysmeta"] = {"quota-bytes-policy-0": "0"}
    assert put(ask, proxy, 1).body == b"Upload exceeds policy quota."


def test_the_old_name_counts_where_the_new_one_is_missing(ask: Any, proxy: FakeProxy) -> None:
    proxy.account["meta"] = {"quota-bytes": "0"}
    assert put(ask, proxy, 1).status == 413
    proxy.account["sysmeta"] = {"quota-bytes": "1000"}
    assert put(ask, proxy, 1).status == 201


def test_resellers_are_not_held_to_it(ask: Any, proxy: FakeProxy) -> None:
    proxy.account["sysmeta"] = {"quota-bytes": "0"}
    assert put(ask, proxy, 1, **RESELLER).status == 201


def test_only_accounts_with_a_quota_are_looked_at(ask: Any, proxy: FakeProxy) -> None:
    proxy.account["sysmeta"] = {"quota-bytes-policy-1": "0"}
    put(ask, proxy, 1)
    assert proxy.looks == 0


def test_what_is_remembered_counts_when_no_server_answers(ask: Any, proxy: FakeProxy) -> None:
    proxy.account_usage = None
    proxy.account |= {"sysmeta": {"quota-bytes": "100"}, "bytes": 95}
    assert put(ask, proxy, 5).status == 201
    assert put(ask, proxy, 6).status == 413


def test_a_body_of_unknown_length_is_cut_off(ask: Any, proxy: FakeProxy) -> None:
    proxy.account["sysmeta"] = {"quota-bytes": "100"}
    headers = {"Transfer-Encoding": "chunked"}
    app = AccountQuotas(proxy, POLICIES)
    assert ask(app, OBJECT, "PUT", headers, b"x" * 11).status == 413
    assert proxy.stored == {}
    assert ask(app, OBJECT, "PUT", headers, b"x" * 10).status == 201


def test_a_malformed_length_is_the_clients_mistake(ask: Any, proxy: FakeProxy) -> None:
    proxy.account["sysmeta"] = {"quota-bytes": "100"}
    app = AccountQuotas(proxy, POLICIES)
    assert ask(app, OBJECT, "PUT", {"Content-Length": "x"}).status == 400


@pytest.mark.parametrize("method", ["PUT", "POST"])
@pytest.mark.parametrize(
    ("header", "value", "stored"),
    [
        ("X-Account-Quota-Bytes", "5", "Quota-Bytes"),
        ("X-Account-Quota-Bytes", "", "Quota-Bytes"),
        ("X-Account-Quota-Count", "5", "Quota-Count"),
        ("X-Account-Meta-Quota-Bytes", "5", "Quota-Bytes"),
        ("X-Account-Quota-Bytes-Policy-silver", "5", "Quota-Bytes-Policy-1"),
        ("X-Account-Quota-Count-Policy-gold", "5", "Quota-Count-Policy-0"),
    ],
)
def test_resellers_set_quotas(
    ask: Any, proxy: FakeProxy, method: str, header: str, value: str, stored: str
) -> None:
    app = AccountQuotas(proxy, POLICIES)
    assert ask(app, "/v1/a", method, {header: value}, environ=RESELLER).status == 204
    headers = Request(proxy.requests[-1]).headers
    assert headers[f"X-Account-Sysmeta-{stored}"] == value
    assert len([name for name in headers if name.startswith("X-Account-Sysmeta-")]) == 1


def test_remove_goes_before_a_value(ask: Any, proxy: FakeProxy) -> None:
    app = AccountQuotas(proxy, POLICIES)
    headers = {"X-Account-Quota-Bytes": "5", "X-Remove-Account-Quota-Bytes": "x"}
    ask(app, "/v1/a", "POST", headers, environ=RESELLER)
    assert proxy.requests[-1]["HTTP_X_ACCOUNT_SYSMETA_QUOTA_BYTES"] == ""


@pytest.mark.parametrize(
    "header",
    [
        "X-Account-Quota-Bytes",
        "X-Remove-Account-Quota-Bytes",
        "X-Account-Quota-Count",
        "X-Account-Meta-Quota-Bytes",
        "X-Remove-Account-Meta-Quota-Bytes",
        "X-Account-Quota-Bytes-Policy-silver",
    ],
)
def test_nobody_else_does(ask: Any, proxy: FakeProxy, header: str) -> None:
    app = AccountQuotas(proxy, POLICIES)
    assert ask(app, "/v1/a", "POST", {header: "5"}).status == 403
    if "Remove" in header:  # the proxy application removes it for any value
        assert ask(app, "/v1/a", "POST", {header: ""}).status == 403
    assert ask(app, "/v1/a", "POST", {"X-Account-Meta-Other": "5"}).status == 204
    assert len(proxy.requests) == 1


@pytest.mark.parametrize("value", ["-1", "ten", "1.5", "²", "9" * 5000])
def test_a_quota_is_a_whole_number(ask: Any, proxy: FakeProxy, value: str) -> None:
    app = AccountQuotas(proxy, POLICIES)
    headers = {"X-Account-Quota-Count": value}
    assert ask(app, "/v1/a", "POST", headers, environ=RESELLER).status == 400
    assert proxy.requests == []


def test_everybody_sees_them(ask: Any, proxy: FakeProxy) -> None:
    proxy.headers = {
        "X-Account-Sysmeta-Quota-Bytes": "5",
        "X-Account-Sysmeta-Quota-Bytes-Policy-1": "6",
        "X-Account-Sysmeta-Quota-Count": "",
    }
    headers = ask(AccountQuotas(proxy, POLICIES), "/v1/a", "HEAD").headers
    assert headers["X-Account-Quota-Bytes"] == "5"
    assert headers["X-Account-Quota-Bytes-Policy-silver"] == "6"
    assert "X-Account-Quota-Count" not in headers


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", OBJECT), ("GET", OBJECT), ("DELETE", OBJECT), ("PUT", "/v1/a/c"), ("GET", "/info")],
)
def test_the_rest_goes_on(ask: Any, proxy: FakeProxy, method: str, path: str) -> None:
    proxy.account["sysmeta"] = {"quota-bytes": "0", "quota-count": "0"}
    assert ask(AccountQuotas(proxy, POLICIES), path, method).status == 204


def test_factory(proxy: FakeProxy, tmp_path: Path) -> None:
    (tmp_path / "martlet.conf").write_text(
        "[grid]\ngrid_secret = none\n[swift-hash]\nswift_hash_path_suffix = s\n"
    )
    assert isinstance(filter_factory({"swift_dir": str(tmp_path)})(proxy), AccountQuotas)
    assert collect_info()["account_quotas"] == {}
    clear_info()

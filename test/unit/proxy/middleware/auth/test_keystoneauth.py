"""keystoneauth: the identity from auth_token, and authorization."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from martlet.conf.options import ConfigError
from martlet.http.environ import LOOK_UP, Environ, StartResponse
from martlet.http.request import Request
from martlet.http.response import Response
from proxy.middleware.auth.keystoneauth import filter_factory

OBJECT, CONTAINER, ACCOUNT = "/v1/AUTH_p1/c/o", "/v1/AUTH_p1/c", "/v1/AUTH_p1"


class Proxy:
    """A proxy with a given ACL and account that calls auth and shows the sysmeta."""

    def __init__(self) -> None:
        self.acl: str | None = None
        self.account: dict[str, Any] = {
            "status": 204,
            "account_really_exists": True,
            "sysmeta": {"project-domain-id": "default"},
        }
        self.environ: Environ = {}

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if LOOK_UP in environ:
            environ[LOOK_UP](SimpleNamespace(info=lambda: self.account))
            return Response(204)(environ, start_response)
        self.environ = environ
        req = Request(environ)
        req.acl = self.acl
        check = environ.get("swift.authorize")
        denial = check(req) if check else None
        stored = self.account["sysmeta"].get("project-domain-id", "")
        found = Response(200, {"X-Account-Sysmeta-Project-Domain-Id": stored})
        response: Response = denial or found
        return response(environ, start_response)


@pytest.fixture
def proxy() -> Proxy:
    return Proxy()


def token(
    roles: str = "", project: str = "p1", user: str = "u1", domain: str = "default", **more: str
) -> dict[str, Any]:
    """Return the environ that auth_token creates for a valid token."""
    return {
        "HTTP_X_IDENTITY_STATUS": "Confirmed",
        "HTTP_X_USER_ID": user,
        "HTTP_X_USER_NAME": f"{user}-name",
        "HTTP_X_PROJECT_ID": project,
        "HTTP_X_PROJECT_NAME": f"{project}-name",
        "HTTP_X_USER_DOMAIN_ID": domain,
        "HTTP_X_PROJECT_DOMAIN_ID": domain,
        "HTTP_X_ROLES": roles,
        "keystone.token_info": {"token": {}},
        **{f"HTTP_X_{name.upper()}": value for name, value in more.items()},
    }


def status(
    ask: Any,
    proxy: Proxy,
    path: str = OBJECT,
    method: str = "GET",
    environ: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
    **options: str,
) -> int:
    app = filter_factory({}, **options)(proxy)
    found: int = ask(app, path, method, headers or {}, environ=environ or {}).status
    return found


def test_identity_headers_without_auth_token_give_no_user(ask: Any, proxy: Proxy) -> None:
    environ = token("ResellerAdmin")
    assert status(ask, proxy, environ=environ) == 200
    del environ["keystone.token_info"]
    assert status(ask, proxy, environ=environ) == 401


@pytest.mark.parametrize(
    ("roles", "path", "method", "expected"),
    [
        ("admin", OBJECT, "GET", 200),
        ("SwiftOperator, member", OBJECT, "PUT", 200),
        ("admin", ACCOUNT, "POST", 200),
        ("admin", ACCOUNT, "DELETE", 403),
        ("member", OBJECT, "GET", 403),
        ("", OBJECT, "GET", 403),
        ("admin", "/v1/AUTH_p2/c/o", "GET", 403),
        ("admin", "/v1/SERVICE_p1/c/o", "GET", 403),
        ("admin", "/v1", "GET", 403),
        ("admin", "/", "GET", 404),
        ("ResellerAdmin", "/v1/AUTH_p2/c/o", "PUT", 200),
        ("reselleradmin", "/v1/AUTH_p2", "DELETE", 200),
        ("reader", "/v1/AUTH_p1/c", "GET", 200),
        ("reader", "/v1/AUTH_p1/c", "HEAD", 200),
        ("reader", "/v1/AUTH_p1/c/o", "PUT", 403),
        ("reader", "/v1/AUTH_p2/c", "GET", 403),
        ("auditor", "/v1/AUTH_p2/c", "GET", 200),
        ("auditor", "/v1/AUTH_p2/c", "POST", 403),
        ("member", OBJECT, "OPTIONS", 200),
    ],
)
def test_roles(ask: Any, proxy: Proxy, roles: str, path: str, method: str, expected: int) -> None:
    options = {"project_reader_roles": "Reader", "system_reader_roles": "auditor"}
    assert status(ask, proxy, path, method, token(roles), **options) == expected


def test_a_token_for_a_domain_owns_no_account(ask: Any, proxy: Proxy) -> None:
    environ = token("admin") | {"HTTP_X_PROJECT_ID": None, "HTTP_X_PROJECT_NAME": None}
    assert status(ask, proxy, "/v1/AUTH_None/c/o", "PUT", environ) == 403


@pytest.mark.parametrize(
    ("roles", "owner", "reseller"),
    [("admin", True, False), ("ResellerAdmin", True, True), ("reader", False, False)],
)
def test_what_the_proxy_learns(
    ask: Any, proxy: Proxy, roles: str, owner: bool, reseller: bool
) -> None:
    status(ask, proxy, environ=token(roles), project_reader_roles="reader")
    environ = proxy.environ
    assert environ.get("swift_owner", False) is owner
    assert environ.get("reseller_request", False) is reseller
    assert environ["REMOTE_USER"] == "p1"
    assert environ["swift.access_logging"]["user_id"] == "u1"
    assert environ["swift.clean_acl"]("X-Container-Read", " .r:* ") == ".r:*"


def test_what_one_request_may_does_not_hold_for_the_next(ask: Any, proxy: Proxy) -> None:
    environ = {**token("member"), "swift_owner": True}
    proxy.acl = "p1:u1"
    assert status(ask, proxy, environ=environ) == 200
    assert "swift_owner" not in proxy.environ


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {**token("ResellerAdmin"), "HTTP_X_IDENTITY_STATUS": "Invalid"},
        {**token("ResellerAdmin"), "HTTP_X_SERVICE_IDENTITY_STATUS": "Invalid"},
    ],
)
def test_without_a_valid_token(ask: Any, proxy: Proxy, environ: dict[str, Any]) -> None:
    assert status(ask, proxy, environ=environ) == 401
    assert status(ask, proxy, environ=environ, method="OPTIONS") == 200
    proxy.acl = "*:*,u1,p1"
    assert status(ask, proxy, environ=environ) == 401
    proxy.acl = ".r:*"
    assert status(ask, proxy, environ=environ) == 200
    assert status(ask, proxy, CONTAINER, environ=environ) == 401
    assert status(ask, proxy, "/v1/OTHER_x/c/o", environ=environ) == 401
    assert status(ask, proxy, "/", environ=environ) == 404
    proxy.acl = ".r:*,.rlistings"
    assert status(ask, proxy, CONTAINER, environ=environ) == 200


@pytest.mark.parametrize(
    ("acl", "expected"),
    [
        ("p2:u2", 200),
        ("p2:*", 200),
        ("*:u2", 200),
        ("*:*", 200),
        ("p2-name:u2-name", 200),
        ("p2:u2-name", 200),
        ("p2-name:*", 200),
        ("*:u2-name", 200),
        ("p1:u2", 403),
        ("p2:u1", 403),
        ("p2", 403),
        ("u2", 403),
        ("member", 403),
        ("other:*,p2:u2", 200),
        ("", 403),
    ],
)
def test_acls_for_users_of_other_projects(ask: Any, proxy: Proxy, acl: str, expected: int) -> None:
    proxy.acl = acl
    environ = token("member", project="p2", user="u2")
    assert status(ask, proxy, environ=environ) == expected
    if expected == 200:
        assert "swift_owner" not in proxy.environ


@pytest.mark.parametrize(
    ("domain", "stored", "options", "expected"),
    [
        ("default", "default", {}, 200),
        ("default", None, {}, 200),
        ("default", "other", {}, 403),
        ("default", "_unknown", {}, 403),
        ("other", "default", {}, 403),
        ("other", "other", {"default_domain_id": "other"}, 200),
        ("default", "default", {"allow_names_in_acls": "false"}, 403),
    ],
)
def test_names_in_acls_count_in_the_default_domain_only(
    ask: Any,
    proxy: Proxy,
    domain: str,
    stored: str | None,
    options: dict[str, str],
    expected: int,
) -> None:
    proxy.account["sysmeta"] = {} if stored is None else {"project-domain-id": stored}
    environ = token("member", project="p2", user="u2", domain=domain)
    proxy.acl = "p2-name:u2-name"
    assert status(ask, proxy, environ=environ, **options) == expected
    proxy.acl = "p2:u2"
    assert status(ask, proxy, environ=environ, **options) == 200


def test_names_count_for_tokens_of_the_first_api(ask: Any, proxy: Proxy) -> None:
    proxy.acl = "p2-name:u2-name"
    environ = token("member", project="p2", user="u2", domain="other")
    environ["keystone.token_info"] = {"access": {}}
    assert status(ask, proxy, environ=environ) == 200


@pytest.mark.parametrize(
    ("acl", "path", "expected"),
    [
        ("Member", OBJECT, 200),
        ("other", OBJECT, 403),
        (".r:*", OBJECT, 200),
        (".r:*", CONTAINER, 403),
        (".r:*,.rlistings", CONTAINER, 200),
        (".r:*,member", CONTAINER, 403),
    ],
)
def test_acls_within_the_project(
    ask: Any, proxy: Proxy, acl: str, path: str, expected: int
) -> None:
    proxy.acl = acl
    assert status(ask, proxy, path, environ=token("member")) == expected


@pytest.mark.parametrize(
    ("path", "roles", "service_roles", "expected"),
    [
        ("/v1/SERVICE_p1/c/o", "admin", "Service", 200),
        ("/v1/SERVICE_p1/c/o", "admin", "", 403),
        ("/v1/SERVICE_p1/c/o", "member", "service", 403),
        ("/v1/SERVICE_p1/c/o", "admin", "other", 403),
        ("/v1/AUTH_p1/c/o", "admin", "", 200),
        ("/v1/AUTH_p1/c/o", "boss", "", 403),
        ("/v1/SERVICE_p1/c/o", "boss", "service", 200),
        ("/v1/SERVICE_p2/c/o", "admin", "service", 403),
    ],
)
def test_service_tokens(
    ask: Any, proxy: Proxy, path: str, roles: str, service_roles: str, expected: int
) -> None:
    environ = token(roles, service_roles=service_roles, service_identity_status="Confirmed")
    options = {
        "reseller_prefix": "AUTH, SERVICE",
        "operator_roles": "admin",
        "SERVICE_operator_roles": "admin, boss",
        "SERVICE_service_roles": "service",
    }
    assert status(ask, proxy, path, "PUT", environ, **options) == expected


@pytest.mark.parametrize("prefixes", ["AUTH, AUTH_S", "AUTH_S, AUTH"])
@pytest.mark.parametrize(
    ("path", "project", "service_roles", "expected"),
    [
        ("/v1/AUTH_S_p1/c/o", "p1", "service", 200),
        ("/v1/AUTH_S_p1/c/o", "p1", "", 403),
        ("/v1/AUTH_p1/c/o", "p1", "", 200),
        ("/v1/AUTH_S_p1/c/o", "S_p1", "service", 403),
    ],
)
def test_a_prefix_that_begins_with_another(
    ask: Any,
    proxy: Proxy,
    prefixes: str,
    path: str,
    project: str,
    service_roles: str,
    expected: int,
) -> None:
    environ = token("admin", project, service_roles=service_roles)
    options = {"reseller_prefix": prefixes, "AUTH_S_service_roles": "service"}
    assert status(ask, proxy, path, "PUT", environ, **options) == expected


def test_an_empty_option_is_as_none(ask: Any, proxy: Proxy) -> None:
    def put(roles: str, **options: str) -> int:
        return status(ask, proxy, method="PUT", environ=token(roles), **options)

    assert put("admin", operator_roles="") == 200
    assert put("admin", operator_roles="boss", AUTH_operator_roles="") == 403
    assert put("boss", operator_roles="boss", AUTH_operator_roles="") == 200
    assert put("admin", service_roles="service", AUTH_service_roles="") == 403


def test_the_empty_prefix(ask: Any, proxy: Proxy) -> None:
    options = {"reseller_prefix": "''", "''operator_roles": "boss"}
    assert status(ask, proxy, "/v1/p1/c/o", environ=token("boss"), **options) == 200
    assert status(ask, proxy, "/v1/p2/c/o", environ=token("boss"), **options) == 403


@pytest.mark.parametrize(
    ("sync_key", "headers", "expected"),
    [
        ("k", {"X-Container-Sync-Key": "k", "X-Timestamp": "1"}, 200),
        ("k", {"X-Container-Sync-Key": "l", "X-Timestamp": "1"}, 401),
        ("k", {"X-Container-Sync-Key": "k"}, 401),
        (None, {"X-Timestamp": "1"}, 401),
    ],
)
def test_container_sync_without_realms(
    ask: Any, proxy: Proxy, sync_key: str | None, headers: dict[str, str], expected: int
) -> None:
    environ = {"swift_sync_key": sync_key}
    allowed = {"allow_sync_keys": "yes"}
    assert status(ask, proxy, OBJECT, "PUT", environ, headers, **allowed) == expected
    assert status(ask, proxy, OBJECT, "PUT", environ, headers) == 401, "off unless asked for"


def test_only_a_clients_own_timestamp_goes_with_a_sync_key(ask: Any, proxy: Proxy) -> None:
    """The proxy application sets one in every request before it calls auth."""

    def application(environ: Any, start_response: Any) -> Any:
        environ["HTTP_X_TIMESTAMP"] = "1"
        return proxy(environ, start_response)

    app = filter_factory({}, allow_sync_keys="yes")(application)
    headers = {"X-Container-Sync-Key": "k"}
    environ = {"swift_sync_key": "k"}
    assert ask(app, OBJECT, "PUT", headers, environ=environ).status == 401
    stamped = {**headers, "X-Timestamp": "1"}
    assert ask(app, OBJECT, "PUT", stamped, environ=environ).status == 200


@pytest.mark.parametrize(
    ("method", "path", "exists", "stored", "roles", "project", "domain", "written"),
    [
        ("PUT", ACCOUNT, False, None, "ResellerAdmin", "p1", "d1", "d1"),
        ("PUT", CONTAINER, False, None, "admin", "p1", "d1", "d1"),
        ("PUT", CONTAINER, False, None, "ResellerAdmin", "p2", "d1", "_unknown"),
        ("POST", ACCOUNT, True, None, "admin", "p1", "default", "default"),
        ("POST", ACCOUNT, True, None, "admin", "p1", "d1", None),
        ("POST", ACCOUNT, True, "_unknown", "admin", "p1", "d1", "d1"),
        ("POST", ACCOUNT, True, "_unknown", "ResellerAdmin", "p2", "d1", None),
        ("POST", ACCOUNT, True, "d2", "admin", "p1", "d1", None),
        ("POST", CONTAINER, True, None, "admin", "p1", "default", None),
        ("PUT", OBJECT, False, None, "admin", "p1", "d1", None),
        ("GET", ACCOUNT, False, None, "admin", "p1", "d1", None),
    ],
)
def test_an_account_remembers_the_domain_of_its_project(
    ask: Any,
    proxy: Proxy,
    method: str,
    path: str,
    exists: bool,
    stored: str | None,
    roles: str,
    project: str,
    domain: str,
    written: str | None,
) -> None:
    proxy.account["account_really_exists"] = exists
    proxy.account["sysmeta"] = {} if stored is None else {"project-domain-id": stored}
    status(ask, proxy, path, method, token(roles, project=project, domain=domain))
    headers = Request(proxy.environ).headers
    assert headers.get("X-Account-Sysmeta-Project-Domain-Id") == written


def test_the_domain_is_shown(ask: Any, proxy: Proxy) -> None:
    app = filter_factory({})(proxy)
    answer = ask(app, ACCOUNT, environ=token("admin"))
    assert answer.headers["X-Account-Project-Domain-Id"] == "default"
    proxy.account["sysmeta"] = {}
    assert "X-Account-Project-Domain-Id" not in ask(app, ACCOUNT, environ=token("admin")).headers


@pytest.mark.parametrize(("allow", "expected"), [("true", 200), ("false", 401)])
def test_a_filter_to_the_left_may_authorize(
    ask: Any, proxy: Proxy, allow: str, expected: int
) -> None:
    environ = {"swift.authorize_override": True}
    assert status(ask, proxy, environ=environ, allow_overrides=allow) == expected


def test_what_auth_token_sets_become_headers(ask: Any, proxy: Proxy) -> None:
    environ = {**token("admin"), "HTTP_X_DOMAIN_ID": None, "HTTP_X_USER_NAME": "Zoë 日"}
    proxy.acl = "p1:Zoë 日"
    assert status(ask, proxy, environ={**environ, "HTTP_X_ROLES": None}) == 200
    status(ask, proxy, environ=environ)
    headers = dict(Request(proxy.environ).headers)
    assert "X-Domain-Id" not in headers
    assert headers["X-User-Name"].encode("latin-1").decode("utf-8") == "Zoë 日"


def test_options(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ConfigError, match="unknown option 'operator_role'"):
        filter_factory({}, operator_role="x")
    with pytest.raises(ConfigError, match="unknown option 'OTHER_operator_roles'"):
        filter_factory({}, OTHER_operator_roles="x")
    filter_factory({}, is_admin="true")
    assert "is_admin" in caplog.text

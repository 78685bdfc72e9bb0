"""tempauth: login, tokens in requests, and authorization."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from martlet.conf.cluster import ClusterConf
from martlet.conf.options import ConfigError
from martlet.http.call import call_app
from martlet.http.environ import Environ
from martlet.http.request import Request
from proxy.info_registry import clear_info, collect_info
from proxy.middleware.auth.tempauth import (
    Tempauth,
    TempauthOptions,
    derive_secret,
    filter_factory,
)
from proxy.middleware.auth.tempauth_users import Resellers, read_users

CONF = {
    "reseller_prefix": "AUTH, SERVICE",
    "SERVICE_require_group": ".service",
    "user_admin_admin": "admin .admin .reseller_admin",
    "user_admin_reader": "ro .reseller_reader",
    "user_test_tester": "testing .admin",
    "user_test_tester3": "testing3",
    "user_test2_tester2": "testing2 .admin",
    "user_glance_glance": "glancepw .service",
    "user64_w6k_w7w": "pässword .admin",  # é:ü
}


class Clock:
    now = 1_000_000.5

    def __call__(self) -> float:
        return self.now


def make(
    app: Any, conf: dict[str, str] = CONF, clock: Clock | None = None, **options: Any
) -> Tempauth:
    resellers = Resellers.from_options(conf.get("reseller_prefix", "AUTH"), conf)
    users = read_users(conf, resellers, "conf")
    return Tempauth(app, TempauthOptions(**options), users, resellers, b"secret", clock or Clock())


def token_of(app: Tempauth, user: str, key: str) -> str:
    headers = {"X-Auth-User": user.encode().decode("latin-1"), "X-Auth-Key": key}
    environ = Request.blank("/auth/v1.0", headers=headers).environ
    environ["HTTP_X_AUTH_KEY"] = key.encode().decode("latin-1")
    status, response_headers, _ = call_app(app, environ)
    assert status == "200 OK", (user, status)
    return dict(response_headers)["X-Auth-Token"]


# Logging in.


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/auth/v1.0", {"X-Auth-User": "test:tester", "X-Auth-Key": "testing"}),
        ("/auth/v1.0", {"X-Storage-User": "test:tester", "X-Storage-Pass": "testing"}),
        ("/auth/v1.0/", {"X-Auth-User": "test:tester", "X-Auth-Key": "testing"}),
        ("/auth/auth", {"X-Auth-User": "test:tester", "X-Auth-Key": "testing"}),
        ("/auth/v1/test/auth", {"X-Storage-User": "tester", "X-Storage-Pass": "testing"}),
        ("/auth/v1/test/auth", {"X-Auth-User": "test:tester", "X-Auth-Key": "testing"}),
        ("/auth/v1/test/auth", {"X-Storage-User": "tester", "X-Auth-Key": "testing"}),
    ],
)
def test_login(ask: Any, Inner: Any, path: str, headers: dict[str, str]) -> None:
    inner = Inner()
    app = make(inner, token_life=60)
    answer = ask(app, path, headers={**headers, "Host": "swift.example:8080"})
    assert answer.status == 200
    assert answer.headers["X-Storage-Url"] == "http://swift.example:8080/v1/AUTH_test"
    assert answer.headers["X-Auth-Token-Expires"] == "60"
    token = answer.headers["X-Auth-Token"]
    assert answer.headers["X-Storage-Token"] == token
    assert answer.environ["swift.access_logging"] == {"user_id": "test:tester"}
    ask(app, "/v1/AUTH_test", headers={"X-Auth-Token": token})
    assert inner.environ["REMOTE_USER"] == "test,test:tester,AUTH_test,SERVICE_test"


@pytest.mark.parametrize(
    ("path", "headers", "realm"),
    [
        ("/auth/v1.0", {}, "unknown"),
        ("/auth/v1.0", {"X-Auth-User": "test:tester"}, "test"),
        ("/auth/v1.0", {"X-Auth-User": "test:tester", "X-Auth-Key": "wrong"}, "test"),
        ("/auth/v1.0", {"X-Auth-User": "test:tester", "X-Auth-Key": ""}, "test"),
        ("/auth/v1.0", {"X-Auth-User": "test:nobody", "X-Auth-Key": "testing"}, "test"),
        ("/auth/v1.0", {"X-Auth-User": "nobody:nobody", "X-Auth-Key": ""}, "nobody"),
        ("/auth/v1.0", {"X-Auth-User": ":", "X-Auth-Key": ""}, "unknown"),
        ("/auth/v1.0", {"X-Auth-User": "tester", "X-Auth-Key": "testing"}, "unknown"),
        ("/auth/v1.0", {"X-Auth-User": '"\r\n:x', "X-Auth-Key": "x"}, "%22%0D%0A"),
        ("/auth/v1/test/auth", {"X-Storage-User": "tester", "X-Storage-Pass": "no"}, "test"),
        ("/auth/v1/test/auth", {"X-Storage-Pass": "testing"}, "test"),
        ("/auth/v1/test/auth", {"X-Auth-User": "tester", "X-Auth-Key": "testing"}, "test"),
        ("/auth/v1/test2/auth", {"X-Auth-User": "test:tester", "X-Auth-Key": "testing"}, "test2"),
        ("/auth/v1/%C3%A9/auth", {}, "%C3%A9"),
    ],
)
def test_login_refused(
    ask: Any, Inner: Any, path: str, headers: dict[str, str], realm: str
) -> None:
    answer = ask(make(Inner()), path, headers=headers)
    assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, f'Swift realm="{realm}"')
    assert "X-Auth-Token" not in answer.headers


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("POST", "/auth/v1.0", {}, 405),
        ("HEAD", "/auth/v1.0", {}, 405),
        ("GET", "/auth/", {}, 404),
        ("GET", "/auth/v2", {}, 400),
        ("GET", "/auth/v1", {}, 400),
        ("GET", "/auth/v1/test", {}, 400),
        ("GET", "/auth/v1/test/other", {}, 400),
        ("GET", "/auth/v1//auth", {}, 400),
        ("GET", "/auth/v1.0", {"X-Auth-User": "\xff:x", "X-Auth-Key": "x"}, 400),
        ("GET", "/auth/v1/%FF/auth", {"X-Storage-User": "x", "X-Auth-Key": "x"}, 400),
    ],
)
def test_login_asked_in_a_wrong_way(
    ask: Any, Inner: Any, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    inner = Inner()
    assert ask(make(inner), path, method, headers).status == status
    assert inner.environs == []


def test_refused_key_is_not_logged(ask: Any, Inner: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    ask(make(Inner()), "/auth/v1.0", headers={"X-Auth-User": "test:u", "X-Auth-Key": "almost"})
    assert "user=test:u" in caplog.text
    assert "almost" not in caplog.text


def test_names_beyond_ascii(ask: Any, Inner: Any) -> None:
    inner = Inner()
    app = make(inner)
    token = token_of(app, "é:ü", "pässword")
    answer = ask(app, "/v1/AUTH_%C3%A9/c", headers={"X-Auth-Token": token})
    assert answer.status == 200
    assert inner.environ["swift.authorize"](Request(inner.environ)) is None


@pytest.mark.parametrize(
    ("scheme", "url"),
    [("default", "http://h/v1/AUTH_test"), ("https", "https://h/v1/AUTH_test")],
)
def test_storage_url_scheme(ask: Any, Inner: Any, scheme: str, url: str) -> None:
    app = make(Inner(), storage_url_scheme=scheme)
    headers = {"X-Auth-User": "test:tester", "X-Auth-Key": "testing", "Host": "h"}
    assert ask(app, "/auth/v1.0", headers=headers).headers["X-Storage-Url"] == url


# Tokens in requests.


def test_token_ends_with_its_time(ask: Any, Inner: Any) -> None:
    clock = Clock()
    app = make(Inner(), clock=clock, token_life=60)
    headers = {"X-Auth-Token": token_of(app, "test:tester", "testing")}
    clock.now += 59
    assert ask(app, "/v1/AUTH_test", headers=headers).status == 200
    clock.now += 1
    assert ask(app, "/v1/AUTH_test", headers=headers).status == 401
    assert ask(app, "/v1/AUTH_test", headers=headers).status == 401


def test_token_holds_in_other_workers_and_after_a_restart(ask: Any, Inner: Any) -> None:
    token = token_of(make(Inner()), "test:tester", "testing")
    assert ask(make(Inner()), "/v1/AUTH_test", headers={"X-Auth-Token": token}).status == 200
    assert ask(make(Inner()), "/v1/AUTH_test", headers={"X-Storage-Token": token}).status == 200


@pytest.mark.parametrize(
    "change",
    [
        {"user_test_tester": "newkey .admin"},
        {"user_test_tester": None},
    ],
)
def test_token_ends_with_the_users_key(ask: Any, Inner: Any, change: dict[str, str | None]) -> None:
    token = token_of(make(Inner()), "test:tester", "testing")
    conf = {k: v for k, v in {**CONF, **change}.items() if v is not None}
    answer = ask(make(Inner(), conf), "/v1/AUTH_test", headers={"X-Auth-Token": token})
    assert answer.status == 401


def test_groups_are_those_of_now(ask: Any, Inner: Any) -> None:
    token = token_of(make(Inner()), "test:tester", "testing")
    inner = Inner()
    conf = {**CONF, "user_test_tester": "testing"}
    ask(make(inner, conf), "/v1/AUTH_test", headers={"X-Auth-Token": token})
    assert inner.environ["REMOTE_USER"] == "test,test:tester"


@pytest.mark.parametrize(
    ("path", "realm"),
    [("/v1/AUTH_test/c/o", "AUTH_test"), ("/info", "unknown"), ("/v1/%22/c", "%22")],
)
def test_token_that_is_not_valid_is_401_at_once(
    ask: Any, Inner: Any, path: str, realm: str
) -> None:
    inner = Inner()
    answer = ask(make(inner), path, headers={"X-Auth-Token": "AUTH_tkforged"})
    assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, f'Swift realm="{realm}"')
    assert inner.environs == []


def test_known_tokens_are_bounded(ask: Any, Inner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.middleware.auth.tempauth._KNOWN_TOKENS_MAX", 3)
    clock = Clock()
    app = make(Inner(), clock=clock)
    for _ in range(10):
        clock.now += 1
        token = token_of(app, "test:tester", "testing")
        assert ask(app, "/v1/AUTH_test", headers={"X-Auth-Token": token}).status == 200
        assert len(app._known_tokens) <= 3


# Decisions.


def decide(
    app: Tempauth,
    inner: Any,
    user: str | None,
    method: str,
    path: str,
    acl: str | None = None,
    headers: dict[str, str] | None = None,
    account_acl: str | None = None,
    service: str | None = None,
) -> tuple[int, Environ]:
    """Return the status of the refusal, or 0, and the environ that the controller sees."""
    request = Request.blank(path, method, headers)
    if user:
        key = CONF[f"user_{user.replace(':', '_')}"].split()[0]
        request.headers["X-Auth-Token"] = token_of(app, user, key)
    if service:
        key = CONF[f"user_{service.replace(':', '_')}"].split()[0]
        request.headers["X-Service-Token"] = token_of(app, service, key)
    asked = []

    def account_info(request: Request, account: str) -> dict[str, Any]:
        asked.append(account)
        return {"sysmeta": {"core-access-control": account_acl} if account_acl else {}}

    request.environ["martlet.account_info"] = account_info
    status, _, _ = call_app(app, request.environ)
    assert status == "200 OK"
    seen = Request(inner.environ)
    seen.acl = acl
    refusal = inner.environ["swift.authorize"](seen)
    assert asked in ([], path.split("/")[2:3])
    return (refusal.status if refusal else 0), inner.environ


TABLE = [
    # user, method, path, ACL of the container, status, owner
    ("test:tester", "GET", "/v1/AUTH_test", None, 0, True),
    ("test:tester", "POST", "/v1/AUTH_test", None, 0, True),
    ("test:tester", "PUT", "/v1/AUTH_test", None, 403, False),
    ("test:tester", "DELETE", "/v1/AUTH_test", None, 403, False),
    ("test:tester", "DELETE", "/v1/AUTH_test/c", None, 0, True),
    ("test:tester", "PUT", "/v1/AUTH_test/c/o", None, 0, True),
    ("test:tester", "GET", "/v1/AUTH_test2/c/o", None, 403, False),
    ("test:tester", "GET", "/v1/AUTH_testing/c/o", None, 403, False),
    ("test:tester", "GET", "/v1/SERVICE_test/c/o", None, 403, False),
    ("test:tester", "GET", "/v1/OTHER_test", None, 403, False),
    ("test:tester", "OPTIONS", "/v1/AUTH_test2/c", None, 0, False),
    ("test:tester3", "GET", "/v1/AUTH_test", None, 403, False),
    ("test:tester3", "GET", "/v1/AUTH_test/c/o", None, 403, False),
    ("test:tester3", "GET", "/v1/AUTH_test/c/o", "test:tester3", 0, False),
    ("test:tester3", "GET", "/v1/AUTH_test/c", "test:tester3", 0, False),
    ("test:tester3", "PUT", "/v1/AUTH_test/c/o", "test", 0, False),
    ("test:tester3", "GET", "/v1/AUTH_test/c/o", "test:tester", 403, False),
    ("test:tester3", "GET", "/v1/AUTH_test/c/o", "test2,other:tester3", 403, False),
    ("test:tester3", "GET", "/v1/AUTH_test/c/o", "*:tester3", 403, False),
    ("test:tester3", "GET", "/v1/AUTH_test/c/o", "test:*", 403, False),
    ("test:tester3", "GET", "/v1/AUTH_test/c/o", "*:*", 403, False),
    ("test:tester3", "GET", "/v1/AUTH_test/c/o", "*:tester,test2:*", 403, False),
    ("test2:tester2", "GET", "/v1/AUTH_test/c/o", "test2:tester2", 0, False),
    ("test2:tester2", "GET", "/v1/AUTH_test/c/o", "test%32", 0, False),
    ("admin:admin", "PUT", "/v1/AUTH_new", None, 0, True),
    ("admin:admin", "DELETE", "/v1/AUTH_test", None, 0, True),
    ("admin:admin", "GET", "/v1/SERVICE_test/c", None, 0, True),
    ("admin:admin", "GET", "/v1/AUTH_", None, 403, False),
    ("admin:admin", "GET", "/v1/AUTH_.hidden", None, 403, False),
    ("admin:admin", "GET", "/v1/OTHER_test", None, 403, False),
    ("admin:reader", "GET", "/v1/AUTH_test/c/o", None, 0, False),
    ("admin:reader", "HEAD", "/v1/AUTH_test", None, 0, False),
    ("admin:reader", "PUT", "/v1/AUTH_test/c/o", None, 403, False),
    ("admin:reader", "POST", "/v1/AUTH_test", None, 403, False),
    ("admin:reader", "GET", "/v1/AUTH_.hidden/c", None, 403, False),
    (None, "GET", "/v1/AUTH_test/c/o", None, 401, False),
    (None, "GET", "/v1/AUTH_test/c/o", "test", 401, False),
    (None, "GET", "/v1/AUTH_test/c/o", "*:*", 401, False),
    (None, "GET", "/v1/AUTH_test/c/o", ".r:*", 0, False),
    (None, "GET", "/v1/AUTH_test/c", ".r:*", 401, False),
    (None, "GET", "/v1/AUTH_test/c", ".r:*,.rlistings", 0, False),
    (None, "GET", "/v1/AUTH_test/c", ".rlistings", 401, False),
    (None, "GET", "/v1/AUTH_test/c/o", ".r:good.com", 0, False),
    (None, "GET", "/v1/AUTH_test/c/o", ".r:*,.r:-good.com", 401, False),
    (None, "GET", "/v1/OTHER_test/c/o", ".r:*", 401, False),
    (None, "GET", "/info", None, 401, False),
    (None, "OPTIONS", "/v1/AUTH_test/c/o", None, 0, False),
    ("test:tester", "GET", "/v1/AUTH_test2/c/o", ".r:*", 0, False),
    ("test:tester", "GET", "//c", None, 404, False),
]


@pytest.mark.parametrize(("user", "method", "path", "acl", "status", "is_owner"), TABLE)
def test_who_may_do_what(
    Inner: Any,
    user: str | None,
    method: str,
    path: str,
    acl: str | None,
    status: int,
    is_owner: bool,
) -> None:
    inner = Inner()
    headers = {"Referer": "http://good.com/page"}
    got, environ = decide(make(inner), inner, user, method, path, acl, headers)
    assert (got, bool(environ.get("swift_owner"))) == (status, is_owner)
    assert bool(environ.get("reseller_request")) is (user == "admin:admin")


@pytest.mark.parametrize(
    ("user", "service", "status"),
    [
        ("test:tester", None, 403),
        ("test:tester", "glance:glance", 0),
        ("test:tester", "test2:tester2", 403),
        ("test:tester3", "glance:glance", 403),
        ("glance:glance", "test:tester", 0),  # all groups of both count together
        (None, "glance:glance", 401),
        ("admin:admin", None, 0),
    ],
)
def test_required_group_from_a_service_token(
    Inner: Any, user: str | None, service: str | None, status: int
) -> None:
    inner = Inner()
    path = "/v1/SERVICE_test/c/o"
    got, _ = decide(make(inner), inner, user, "PUT", path, service=service)
    assert got == status


def test_forged_service_token_adds_nothing(ask: Any, Inner: Any) -> None:
    inner = Inner()
    app = make(inner)
    token = token_of(app, "test:tester3", "testing3")
    ask(app, "/v1/AUTH_t", headers={"X-Auth-Token": token, "X-Service-Token": "AUTH_tkforged"})
    assert inner.environ["REMOTE_USER"] == "test,test:tester3"


@pytest.mark.parametrize(
    ("acl", "method", "path", "status", "is_owner"),
    [
        ('{"admin":["test2:tester2"]}', "POST", "/v1/AUTH_test", 0, True),
        ('{"admin":["test2"]}', "PUT", "/v1/AUTH_test/c", 0, True),
        ('{"read-write":["test2"]}', "PUT", "/v1/AUTH_test/c", 0, False),
        ('{"read-write":["test2"]}', "GET", "/v1/AUTH_test", 0, False),
        ('{"read-write":["test2"]}', "POST", "/v1/AUTH_test", 403, False),
        ('{"read-only":["test2"]}', "GET", "/v1/AUTH_test", 0, False),
        ('{"read-only":["test2"]}', "HEAD", "/v1/AUTH_test/c/o", 0, False),
        ('{"read-only":["test2"]}', "PUT", "/v1/AUTH_test/c/o", 403, False),
        ('{"read-only":["test3"]}', "GET", "/v1/AUTH_test", 403, False),
        ("{damaged", "GET", "/v1/AUTH_test", 403, False),
    ],
)
def test_account_acls(
    Inner: Any, acl: str, method: str, path: str, status: int, is_owner: bool
) -> None:
    inner = Inner()
    got, environ = decide(make(inner), inner, "test2:tester2", method, path, account_acl=acl)
    assert (got, bool(environ.get("swift_owner"))) == (status, is_owner)


def test_account_acl_does_not_open_to_strangers(Inner: Any) -> None:
    inner = Inner()
    acl = '{"read-only":[""]}'
    assert decide(make(inner), inner, None, "GET", "/v1/AUTH_test", account_acl=acl)[0] == 401


@pytest.mark.parametrize(
    ("value", "stored"), [('{"admin": ["\xc3\xa9"]}', '{"admin":["\\u00e9"]}'), ("", "")]
)
def test_account_acl_header_becomes_sysmeta(Inner: Any, value: str, stored: str) -> None:
    inner = Inner()
    headers = {"X-Account-Access-Control": value}
    got, environ = decide(
        make(inner), inner, "test:tester", "POST", "/v1/AUTH_test", headers=headers
    )
    assert got == 0
    assert environ["HTTP_X_ACCOUNT_SYSMETA_CORE_ACCESS_CONTROL"] == stored
    assert "HTTP_X_ACCOUNT_ACCESS_CONTROL" not in environ


@pytest.mark.parametrize("value", ["{", "[]", '{"x":[]}', '{"admin":"a"}', "\xff"])
def test_bad_account_acl_header_is_400(Inner: Any, value: str) -> None:
    inner = Inner()
    headers = {"X-Account-Access-Control": value}
    got, environ = decide(
        make(inner), inner, "test:tester", "POST", "/v1/AUTH_test", headers=headers
    )
    assert got == 400
    assert "HTTP_X_ACCOUNT_SYSMETA_CORE_ACCESS_CONTROL" not in environ


def test_clean_acl_is_offered(ask: Any, Inner: Any) -> None:
    inner = Inner()
    ask(make(inner), "/v1/AUTH_test/c")
    assert inner.environ["swift.clean_acl"]("X-Container-Read", ".ref : *") == ".r:*"


# Beside other auth filters.


@pytest.mark.parametrize("allow", [True, False])
def test_override_by_a_filter_to_the_left(ask: Any, Inner: Any, allow: bool) -> None:
    inner = Inner()
    app = make(inner, allow_overrides=allow)
    environ = {"swift.authorize_override": True, "swift.authorize": "theirs"}
    headers = {"X-Auth-Token": "AUTH_tkforged"}
    answer = ask(app, "/v1/AUTH_test", headers=headers, environ=environ)
    assert answer.status == (200 if allow else 401)
    if allow:
        assert inner.environ["swift.authorize"] == "theirs"


def test_accounts_and_tokens_of_others_are_left_to_them(ask: Any, Inner: Any) -> None:
    inner = Inner()
    headers = {"X-Auth-Token": "OTHER_tk1"}
    ask(make(inner), "/v1/OTHER_a", headers=headers, environ={"swift.authorize": "theirs"})
    assert inner.environ["swift.authorize"] == "theirs"


def test_empty_prefix_leaves_unknown_tokens_to_others(ask: Any, Inner: Any) -> None:
    inner = Inner()
    conf = {**CONF, "reseller_prefix": "''"}
    headers = {"X-Auth-Token": "tkforged"}
    ask(make(inner, conf), "/v1/a", headers=headers, environ={"swift.authorize": "theirs"})
    assert inner.environ["swift.authorize"] == "theirs"
    ask(make(inner, conf), "/v1/a", headers=headers)
    assert inner.environ["swift.authorize"](Request(inner.environ)).status == 401
    ask(make(inner, conf), "/v1/a")
    assert inner.environ["swift.authorize"](Request(inner.environ)).status == 401


# The configuration.


@pytest.fixture
def swift_dir(tmp_path: Path) -> Path:
    (tmp_path / "martlet.conf").write_text(
        "[grid]\ngrid_secret = none\n[swift-hash]\nswift_hash_path_suffix = salt\n"
    )
    return tmp_path


def test_factory(ask: Any, Inner: Any, swift_dir: Path) -> None:
    clear_info()
    app = filter_factory({"swift_dir": str(swift_dir)}, **CONF)(Inner())
    token = token_of(app, "test:tester", "testing")
    again = filter_factory({"swift_dir": str(swift_dir)}, **CONF)(Inner())
    assert ask(again, "/v1/AUTH_test", headers={"X-Auth-Token": token}).status == 200
    assert collect_info() == {"tempauth": {"account_acls": True}}


def test_secret_option_needs_no_martlet_conf(Inner: Any, tmp_path: Path) -> None:
    app = filter_factory({"swift_dir": str(tmp_path)}, token_secret="s", **CONF)(Inner())
    assert token_of(app, "test:tester", "testing")


def test_derived_secret_covers_salts_and_keys(swift_dir: Path) -> None:
    def secret(conf: dict[str, str]) -> bytes:
        users = read_users(conf, Resellers.from_options("AUTH", {}), "conf")
        return derive_secret(ClusterConf.load(swift_dir), users)

    first = secret(CONF)
    assert secret(dict(reversed(CONF.items()))) == first
    assert secret({**CONF, "user_test_tester": "other .admin"}) != first
    (swift_dir / "martlet.conf").write_text(
        "[grid]\ngrid_secret = none\n[swift-hash]\nswift_hash_path_suffix = other\n"
    )
    assert secret(CONF) != first


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"log_naem": "x"}, "unknown option 'log_naem'"),
        ({"OTHER_require_group": "x"}, "unknown option 'OTHER_require_group'"),
        ({"token_life": "0"}, "token_life must be positive"),
        ({"token_life": "x"}, "whole number"),
        ({"auth_prefix": "/"}, "auth_prefix may not be empty"),
        ({"storage_url_scheme": "ftp"}, "storage_url_scheme must be one of"),
        ({"user_a_b": ""}, "no key set"),
    ],
)
def test_bad_configuration_is_named(swift_dir: Path, change: dict[str, str], reason: str) -> None:
    conf = {"swift_dir": str(swift_dir), "__file__": "p.conf"}
    with pytest.raises(ConfigError, match=reason) as caught:
        filter_factory(conf, **{**CONF, **change})
    assert str(caught.value).startswith("p.conf [filter:tempauth]")


def test_configuration_without_users_is_refused(swift_dir: Path) -> None:
    with pytest.raises(ConfigError, match="no user could log in"):
        filter_factory({"swift_dir": str(swift_dir)})


def test_missing_martlet_conf_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"martlet\.conf"):
        filter_factory({"swift_dir": str(tmp_path)}, **CONF)

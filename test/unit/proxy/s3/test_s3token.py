"""s3token: what it asks Keystone, what it remembers, and what it lets through."""

from __future__ import annotations

from typing import Any

import pytest

from martlet.conf.options import ConfigError
from martlet.http.environ import KEYSTONE_INFO, S3_AUTH_DETAILS, Environ
from martlet.http.request import Request
from proxy.s3.keystone import Credential, KeystoneError, Verdict
from proxy.s3.s3token import S3Token, S3TokenOptions, filter_factory, headers_of

_DOMAIN = {"id": "default", "name": "Default"}
TOKEN: dict[str, Any] = {
    "token": {
        "user": {"id": "u1", "name": "ann", "domain": _DOMAIN},
        "project": {"id": "p1", "name": "blue", "domain": _DOMAIN},
        "roles": [{"name": "member"}, {"name": "operator"}],
    }
}


class FakeKeystone:
    """Knows one key; ``asked`` counts the questions."""

    has_user = True
    secret: str | None = "secret"
    refusal = 404

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.verdict: Verdict | KeystoneError = Verdict(200, TOKEN)

    def check(self, access_key: str, signature: str, string_to_sign: bytes) -> Verdict:
        self.asked.append("check")
        if isinstance(self.verdict, KeystoneError):
            raise self.verdict
        return self.verdict

    def secret_of(self, user_id: str, access_key: str) -> str | None:
        self.asked.append(f"secret of {user_id} {access_key}")
        return self.secret

    def credential(self, access_key: str) -> Credential:
        self.asked.append(f"credential {access_key}")
        return Credential(200 if self.secret else self.refusal, self.secret)

    def owner_of(self, access_key: str, secret: str) -> Verdict:
        self.asked.append(f"owner of {access_key} {secret}")
        assert isinstance(self.verdict, Verdict)
        return self.verdict


class App:
    """Keeps the environ that it gets."""

    seen: Environ

    def __call__(self, environ: Environ, start_response: Any) -> list[bytes]:
        self.seen = environ
        start_response("200 OK", [])
        return [b""]


class Filter:
    """The filter with its surroundings."""

    def __init__(self, **options: Any) -> None:
        self.keystone, self.app, self.now = FakeKeystone(), App(), 100.0
        chosen = S3TokenOptions(auth_uri="http://k:5000/v3", **options)
        self.filter = S3Token(self.app, chosen, self.keystone, lambda: self.now)  # type: ignore[arg-type]

    def ask(self, path: str = "/v1/key/b/o", details: Any = None, **environ: Any) -> str:
        req = Request.blank(path, "GET", {}, environ=environ)
        req.environ[S3_AUTH_DETAILS] = details or self.details()
        said: list[str] = []
        list(self.filter(req.environ, lambda status, headers, exc=None: said.append(status)))
        return said[0][:3]

    def details(self) -> dict[str, Any]:
        return {
            "access_key": "key",
            "signature": "s",
            "string_to_sign": b"text",
            "check_signature": lambda secret: secret == "secret",
        }


def test_a_signed_request_gets_the_user_and_the_account() -> None:
    tested = Filter(reseller_prefix="AUTH_")
    other = {"HTTP_X_USER_ID": "forged", "HTTP_X_SERVICE_ROLES": "admin"}
    assert tested.ask(**other) == "200"
    seen = tested.app.seen
    assert seen["PATH_INFO"] == "/v1/AUTH_p1/b/o"
    assert (seen["HTTP_X_USER_ID"], seen["HTTP_X_ROLES"]) == ("u1", "member,operator")
    assert "HTTP_X_SERVICE_ROLES" not in seen
    assert seen[KEYSTONE_INFO] == TOKEN
    tested.ask("/v1/AUTH_other/b")
    assert tested.app.seen["PATH_INFO"] == "/v1/AUTH_other/b"


def test_a_secret_is_kept_for_a_while() -> None:
    tested = Filter()
    for _ in range(3):
        tested.ask()
    assert tested.keystone.asked == ["check", "secret of u1 key"]
    tested.now += 61
    tested.ask()
    assert tested.keystone.asked.count("check") == 2


@pytest.mark.parametrize("secret", [None, "another"])
def test_without_the_secret_keystone_is_asked_once_for_each_request(secret: str | None) -> None:
    tested = Filter()
    tested.keystone.secret = secret
    details = tested.details()
    for _ in range(3):  # the requests that s3api makes for one of a client
        assert tested.ask(details=details) == "200"
    assert tested.keystone.asked.count("check") == 1
    tested.ask()
    assert tested.keystone.asked.count("check") == 2


def test_no_secret_is_asked_for_without_need() -> None:
    tested = Filter(secret_cache_duration=0)
    tested.ask()
    assert tested.keystone.asked == ["check"]


def test_the_secret_proves_what_keystone_cannot_check() -> None:
    tested = Filter()
    details = {**tested.details(), "needs_secret": True}
    assert tested.ask(details=dict(details)) == "200"
    assert tested.app.seen["HTTP_X_USER_ID"] == "u1"
    assert tested.keystone.asked == ["credential key", "owner of key secret"]
    assert tested.ask(details=dict(details)) == "200"
    assert tested.ask() == "200"
    assert len(tested.keystone.asked) == 2  # the secret is kept, for all requests
    each_time = Filter(secret_cache_duration=0)
    for _ in range(2):
        assert each_time.ask(details=dict(details)) == "200"
    assert len(each_time.keystone.asked) == 4


@pytest.mark.parametrize(
    ("secret", "refusal", "is_known"), [(None, 404, False), (None, 403, True), ("another", 0, True)]
)
def test_a_secret_that_does_not_prove_it(secret: str | None, refusal: int, is_known: bool) -> None:
    tested = Filter()
    tested.keystone.secret, tested.keystone.refusal = secret, refusal
    details = {**tested.details(), "needs_secret": True}
    assert tested.ask(details=details) == "401"
    assert details["is_known"] == is_known
    assert tested.keystone.asked == ["credential key"]


def test_a_secret_whose_user_may_not_log_in() -> None:
    tested = Filter()
    tested.keystone.verdict = Verdict(401, None)
    assert tested.ask(details={**tested.details(), "needs_secret": True}) == "401"


@pytest.mark.parametrize(("status", "is_known"), [(401, True), (403, True), (404, False)])
def test_a_refused_signature(status: int, is_known: bool) -> None:
    tested = Filter()
    tested.keystone.verdict = Verdict(status, None)
    details = tested.details()
    assert tested.ask(details=details) == "401"
    assert details["is_known"] == is_known
    late = Filter(delay_auth_decision=True)
    late.keystone.verdict = Verdict(status, None)
    assert late.ask() == "200"
    assert KEYSTONE_INFO not in late.app.seen
    assert late.app.seen["PATH_INFO"] == "/v1/key/b/o"


def test_a_secret_that_does_not_fit_any_more() -> None:
    tested = Filter()
    tested.ask()
    tested.keystone.verdict = Verdict(401, None)
    details = {**tested.details(), "check_signature": lambda secret: False}
    assert tested.ask(details=details) == "401"


@pytest.mark.parametrize(
    "verdict", [KeystoneError("down"), Verdict(200, {}), Verdict(200, {"token": {"user": 1}})]
)
def test_answers_that_make_no_sense(verdict: Any) -> None:
    tested = Filter()
    tested.keystone.verdict = verdict
    assert tested.ask() == "503"


def test_other_requests_pass() -> None:
    tested = Filter()
    req = Request.blank("/v1/AUTH_p1", "GET", {})
    list(tested.filter(req.environ, lambda *_: None))
    assert tested.keystone.asked == []
    assert tested.app.seen["PATH_INFO"] == "/v1/AUTH_p1"


@pytest.mark.parametrize(
    "options",
    [
        {"auth_uri": "host:5000"},
        {"auth_uri": "ftp://host"},
        {"auth_uri": "http://user:secret@host/v3"},
        {"auth_uri": "http://host/v3?x=y"},
        {"http_timeout": 0.0},
        {"http_timeout": 61.0},
        {"secret_cache_duration": -1},
    ],
)
def test_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        S3TokenOptions(**{"auth_uri": "http://host/v3", **options})


def test_the_address_is_needed() -> None:
    with pytest.raises(ConfigError, match="auth_uri"):
        filter_factory({})


def test_headers_are_text() -> None:
    assert headers_of(TOKEN)["X-Project-Domain-Name"] == "Default"

"""Who the client is behind a TLS terminator, and who may say so."""

from __future__ import annotations

import pytest

from martlet.conf.options import ConfigError
from martlet.http.call import call_app
from martlet.http.environ import Environ, StartResponse
from martlet.http.request import Request
from martlet.http.response import Response
from proxy.middleware.frame.client_address import networks_of, see_client
from proxy.middleware.frame.gatekeeper import filter_factory

TRUSTED = networks_of(["192.0.2.11", "10.0.0.0/8", "fd00::/16"])


def seen(peer: str, forwarded: str | None, scheme: str | None = "https") -> tuple[str, str]:
    environ: Environ = {"REMOTE_ADDR": peer, "wsgi.url_scheme": "http"}
    if forwarded is not None:
        environ["HTTP_X_FORWARDED_FOR"] = forwarded
    if scheme is not None:
        environ["HTTP_X_FORWARDED_PROTO"] = scheme
    see_client(environ, TRUSTED)
    return environ["REMOTE_ADDR"], environ["wsgi.url_scheme"]


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("192.0.2.11", "198.51.100.7", "198.51.100.7"),
        ("192.0.2.11", "203.0.113.1, 198.51.100.7", "198.51.100.7"),  # the client sent the first
        ("192.0.2.11", "198.51.100.7, 10.1.2.3", "198.51.100.7"),  # through two proxies
        ("192.0.2.11", "10.9.9.9,10.1.2.3", "10.9.9.9"),  # a client in a trusted network
        ("::ffff:192.0.2.11", "2001:db8::7", "2001:db8::7"),
        ("fd00::1", "198.51.100.7", "198.51.100.7"),
        ("192.0.2.11", None, "192.0.2.11"),
        ("192.0.2.11", "", "192.0.2.11"),
        ("192.0.2.11", "unknown", "192.0.2.11"),
        ("192.0.2.11", "198.51.100.7, nonsense", "192.0.2.11"),
    ],
)
def test_a_trusted_proxy_names_its_client(peer: str, forwarded: str | None, client: str) -> None:
    assert seen(peer, forwarded) == (client, "https")


def test_others_do_not_name_a_client() -> None:
    assert seen("198.51.100.7", "203.0.113.1") == ("198.51.100.7", "http")
    assert seen("", "203.0.113.1") == ("", "http")


@pytest.mark.parametrize("scheme", ["", "ftp", "https, http", None])
def test_other_schemes_change_nothing(scheme: str | None) -> None:
    assert seen("192.0.2.11", "198.51.100.7", scheme) == ("198.51.100.7", "http")


@pytest.mark.parametrize(("trusted", "expected"), [("", "127.0.0.1"), ("127.0.0.1", "192.0.2.5")])
def test_the_gatekeeper_applies_it(trusted: str, expected: str) -> None:
    found = []

    def app(environ: Environ, start_response: StartResponse) -> object:
        found.append(environ["REMOTE_ADDR"])
        return Response(204)(environ, start_response)

    environ = Request.blank("/v1/a", "GET", {"X-Forwarded-For": "192.0.2.5"}).environ
    environ["REMOTE_ADDR"] = "127.0.0.1"
    call_app(filter_factory({}, trusted_proxies=trusted)(app), environ)  # type: ignore[arg-type]
    assert found == [expected]


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="trusted_proxies"):
        filter_factory({}, trusted_proxies="127.0.0.1, balancer")

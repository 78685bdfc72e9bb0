"""Private headers pass in neither direction."""

from __future__ import annotations

from typing import Any

import pytest

from martlet.conf.options import ConfigError
from martlet.http.headers import environ_key
from proxy.middleware.frame.gatekeeper import Gatekeeper, GatekeeperOptions, filter_factory

PRIVATE = [
    "X-Account-Sysmeta-Core-Access-Control",
    "X-Container-Sysmeta-Anything",
    "X-Object-Sysmeta-A-B",
    "x-object-SYSMETA-container-update-override-size",
    "X-Object-Transient-Sysmeta-Crypto",
    "X-Backend-Storage-Policy-Index",
    "x-backend-anything",
    "X-Backend",
    "X-Account-Host",
    "X-Account-Device",
    "X-Account-Partition",
    "X-Container-Host",
    "X-Container-Device",
    "X-Container-Partition",
    "X-Container-Root-Db-State",
    "X-Delete-At-Host",
    "X-Delete-At-Device",
    "X-Delete-At-Partition",
    "X-Delete-At-Container",
]
PUBLIC = [
    "X-Object-Meta-Sysmeta",
    "X-Object-Meta-X-Backend-A",
    "X-Account-Meta-Host",
    "X-Account-Hostile",
    "X-Container-Read",
    "X-Container-Host-Name",
    "X-Delete-At",
    "X-Auth-Token",
    "X-Newest",
    "Accept",
    "Sysmeta",
    "My-X-Backend",
]


@pytest.mark.parametrize("name", PRIVATE)
def test_private_headers_are_stripped(ask: Any, Inner: Any, name: str) -> None:
    inner = Inner(headers=[(name, "out"), ("Content-Length", "4"), (name.lower(), "out")])
    answer = ask(Gatekeeper(inner, GatekeeperOptions()), "/v1/a", headers={name: "in"})
    assert environ_key(name) not in inner.environ
    assert name not in answer.headers
    assert answer.headers["Content-Length"] == "4"


@pytest.mark.parametrize("name", PUBLIC)
def test_public_headers_pass(ask: Any, Inner: Any, name: str) -> None:
    inner = Inner(headers=[(name, "out"), ("Content-Length", "4")])
    answer = ask(Gatekeeper(inner, GatekeeperOptions()), "/v1/a", headers={name: "in"})
    assert inner.environ[environ_key(name)] == "in"
    assert answer.headers[name] == "out"


def test_many_private_headers_at_once(ask: Any, Inner: Any) -> None:
    inner = Inner()
    headers = {name: "in" for name in PRIVATE + PUBLIC}
    ask(Gatekeeper(inner, GatekeeperOptions()), "/v1/a", headers=headers)
    kept = {k for k in inner.environ if k.startswith("HTTP_")} - {"HTTP_HOST"}
    assert kept == {environ_key(name) for name in PUBLIC}


@pytest.mark.parametrize(
    ("is_relative", "expected"),
    [(True, "/v1/a/c%20d/o?x=1"), (False, "http://host:80/v1/a/c%20d/o?x=1")],
)
def test_a_location_that_others_made_absolute(
    ask: Any, Inner: Any, is_relative: bool, expected: str
) -> None:
    location = ("Location", "http://host:80/v1/a/c%20d/o?x=1")
    inner = Inner(headers=[location, ("Content-Length", "4")])
    environ = {"swift.leave_relative_location": is_relative}
    answer = ask(Gatekeeper(inner, GatekeeperOptions()), "/v1/a", environ=environ)
    assert answer.headers["Location"] == expected


@pytest.mark.parametrize(
    ("shunt", "expected"),
    [
        (True, {"HTTP_X_BACKEND_INBOUND_X_TIMESTAMP": "5"}),
        (False, {"HTTP_X_TIMESTAMP": "5"}),
    ],
)
def test_timestamp_of_a_client_has_no_effect(
    ask: Any, Inner: Any, shunt: bool, expected: dict[str, str]
) -> None:
    inner = Inner()
    app = Gatekeeper(inner, GatekeeperOptions(shunt_inbound_x_timestamp=shunt))
    headers = {"X-Timestamp": "5", "X-Backend-Inbound-X-Timestamp": "6"}
    ask(app, "/v1/a", headers=headers)
    assert {k: v for k, v in inner.environ.items() if k.endswith("X_TIMESTAMP")} == expected


@pytest.mark.parametrize("is_allowed", [True, False])
def test_reserved_names(ask: Any, Inner: Any, is_allowed: bool) -> None:
    inner = Inner()
    app = Gatekeeper(inner, GatekeeperOptions(allow_reserved_names_header=is_allowed))
    ask(app, "/v1/a", headers={"X-Allow-Reserved-Names": "true"})
    assert ("HTTP_X_BACKEND_ALLOW_RESERVED_NAMES" in inner.environ) is is_allowed


def test_factory_reads_the_options(ask: Any, Inner: Any) -> None:
    inner = Inner()
    app = filter_factory({}, shunt_inbound_x_timestamp="no")(inner)
    ask(app, "/", headers={"X-Timestamp": "5"})
    assert inner.environ["HTTP_X_TIMESTAMP"] == "5"
    with pytest.raises(ConfigError, match="true or false"):
        filter_factory({}, shunt_inbound_x_timestamp="perhaps")

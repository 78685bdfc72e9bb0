"""A real Keystone, a cluster, and a proxy in front of it that takes Keystone's tokens."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from real_keystone import PASSWORD, Keystone
from running_cluster import RunningCluster, await_true, free_port
from swift_api import Account, RawConnection

#: Who is what where: user, project, role.
GRANTS = [
    ("ann", "blue", "swiftoperator"),
    ("ben", "blue", "swiftoperator"),
    ("rob", "blue", "auditor"),
    ("mia", "blue", "member"),
    ("eve", "red", "swiftoperator"),
    ("boss", "service", "ResellerAdmin"),
    ("glance", "service", "service"),
]
_PROXY_CONF = """\
[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
workers = 2
swift_dir = {swift_dir}
[pipeline:main]
pipeline = {pipeline}
[filter:authtoken]
paste.filter_factory = keystonemiddleware.auth_token:filter_factory
www_authenticate_uri = {keystone}
auth_url = {keystone}
auth_type = password
project_domain_id = default
user_domain_id = default
project_name = admin
username = admin
password = {password}
delay_auth_decision = True
include_service_catalog = False
cache = swift.cache
token_cache_time = 3600
[filter:keystoneauth]
use = egg:martlet#keystoneauth
reseller_prefix = AUTH, SERVICE
operator_roles = swiftoperator
project_reader_roles = auditor
SERVICE_service_roles = service
[app:proxy-server]
use = egg:martlet#proxy
account_autocreate = true
"""
_PIPELINE = (
    "catch_errors gatekeeper healthcheck proxy-logging cache listing_formats bulk authtoken "
    "keystoneauth copy container-quotas account-quotas slo dlo proxy-logging proxy-server"
)


@pytest.fixture(scope="session")
def programs() -> Path:
    """Where keystone-manage, and a martlet that has keystonemiddleware, are installed."""
    place = os.environ.get("MARTLET_KEYSTONE")
    assert place, "MARTLET_KEYSTONE names no directory: run `make keystone`"
    return Path(place)


@pytest.fixture(scope="session")
def keystone(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keystone]:
    """Keystone with everybody of GRANTS."""
    keystone = Keystone(programs, tmp_path_factory.mktemp("keystone"))
    try:
        keystone.start()
        for user, project, role in GRANTS:
            keystone.grant(user, project, role)
        yield keystone
    finally:
        keystone.stop()


@pytest.fixture(scope="session")
def proxy_port(
    programs: Path, keystone: Keystone, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[int]:
    """The port of a proxy that asks Keystone, in front of a cluster."""
    home = tmp_path_factory.mktemp("cluster")
    cluster = RunningCluster(home).start()
    port = free_port()
    conf = home / "keystone-proxy.conf"
    text = _PROXY_CONF.format(
        port=port,
        swift_dir=home / "etc",
        keystone=keystone.url,
        password=PASSWORD,
        pipeline=_PIPELINE,
    )
    for name in dict.fromkeys(_PIPELINE.split()):
        if f":{name}]" not in text:
            text += f"[filter:{name}]\nuse = egg:martlet#{name.replace('-', '_')}\n"
    conf.write_text(text)
    with (home / "keystone-proxy.log").open("wb") as log:
        process = subprocess.Popen(
            [programs / "martlet-proxy-server", conf], stdout=log, stderr=log
        )

    def is_up() -> bool:
        assert process.poll() is None, (home / "keystone-proxy.log").read_text()
        try:
            with RawConnection(port) as connection:
                connection.send(b"GET /healthcheck HTTP/1.1\r\nHost: martlet\r\n\r\n")
                return connection.answer().status == 200
        except OSError:
            return False

    try:
        await_true(is_up, "the proxy's first answer", 60)
        yield port
    finally:
        process.terminate()
        process.wait(30)
        cluster.stop()


class Tenants(NamedTuple):
    """Who uses what."""

    keystone: Keystone
    port: int

    def path(self, project: str, prefix: str = "AUTH_") -> str:
        """The path of a project's account."""
        return f"/v1/{prefix}{self.keystone.id_of('project', project)}"

    def open(self, user: str, project: str, of: str | None = None) -> Account:
        """The account of a project, of the user's own by default, as a user sees it."""
        token = self.keystone.token(user, project)
        return Account.with_token(self.port, token, self.path(of or project))


@pytest.fixture(scope="session")
def tenants(keystone: Keystone, proxy_port: int) -> Tenants:
    """Everybody of GRANTS; the accounts of blue and red were made by their own users."""
    tenants = Tenants(keystone, proxy_port)
    for user, project in (("ann", "blue"), ("eve", "red")):
        assert tenants.open(user, project).call("POST").status == 204
    return tenants


@pytest.fixture(scope="session")
def open_account(tenants: Tenants) -> Callable[..., Account]:
    """``open_account(user, project, of)``: one token for each, and a connection for each call."""
    known: dict[tuple[str, str, str | None], Account] = {}

    def opened(user: str, project: str, of: str | None = None) -> Account:
        if (user, project, of) not in known:
            known[user, project, of] = tenants.open(user, project, of)
        return known[user, project, of].again()

    return opened

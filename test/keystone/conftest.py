"""A real Keystone, a cluster, and a proxy in front of it that accepts Keystone's tokens."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from keystone_proxy import keystone_proxy
from real_keystone import Keystone
from running_cluster import RunningCluster
from swift_api import Account

#: The role grants: user, project, role.
GRANTS = [
    ("ann", "blue", "swiftoperator"),
    ("ben", "blue", "swiftoperator"),
    ("rob", "blue", "auditor"),
    ("mia", "blue", "member"),
    ("eve", "red", "swiftoperator"),
    ("boss", "service", "ResellerAdmin"),
    ("glance", "service", "service"),
]
_OPTIONS = {
    "reseller_prefix": "AUTH, SERVICE",
    "operator_roles": "swiftoperator",
    "project_reader_roles": "auditor",
    "SERVICE_service_roles": "service",
}


@pytest.fixture(scope="session")
def programs() -> Path:
    """The directory with keystone-manage and a martlet with keystonemiddleware."""
    place = os.environ.get("MARTLET_KEYSTONE")
    assert place, "MARTLET_KEYSTONE names no directory: run `make keystone`"
    return Path(place)


@pytest.fixture(scope="session")
def keystone(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keystone]:
    """Keystone with all users of GRANTS."""
    keystone = Keystone(programs, tmp_path_factory.mktemp("keystone"))
    try:
        keystone.start()
        for user, project, role in GRANTS:
            keystone.grant(user, project, role)
        yield keystone
    finally:
        keystone.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """The cluster behind the proxy."""
    running = RunningCluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield running.start().await_writes()
    finally:
        running.stop()


@pytest.fixture(scope="session")
def proxy_port(programs: Path, keystone: Keystone, cluster: RunningCluster) -> Iterator[int]:
    """The port of a proxy that authenticates with Keystone, in front of the cluster."""
    with keystone_proxy(programs, keystone, cluster.home, _OPTIONS) as port:
        yield port


class Tenants(NamedTuple):
    """The users and their accounts."""

    keystone: Keystone
    port: int

    def path(self, project: str, prefix: str = "AUTH_") -> str:
        """Return the path of a project's account."""
        return f"/v1/{prefix}{self.keystone.id_of('project', project)}"

    def open(self, user: str, project: str, of: str | None = None) -> Account:
        """Return a user's view of a project's account, by default of the user's own project."""
        token = self.keystone.token(user, project)
        return Account.with_token(self.port, token, self.path(of or project))


@pytest.fixture(scope="session")
def tenants(keystone: Keystone, proxy_port: int) -> Tenants:
    """All users of GRANTS; the accounts of blue and red were created by their own users."""
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

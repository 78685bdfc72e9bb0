"""Suites with users of a real Keystone, on our cluster and on real Swift."""

from __future__ import annotations

import os
import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import judges
from keystone_proxy import authtoken, keystone_proxy
from real_keystone import HOST, Keystone
from real_swift import real_swift
from suite import STORAGE_DOMAIN

_DOMAIN = "test-domain"
#: Number in the suites' conf -> project, user, password, role; as Swift requires them.
_USERS = {
    "": ("test", "tester", "testing", "admin"),
    "2": ("test2", "tester2", "testing2", "admin"),
    "3": ("test", "tester3", "testing3", "_member_"),
    "4": ("test4", "tester4", "testing4", "admin"),
    "5": ("test5", "tester5", "testing5", "service"),
    "6": ("test", "tester6", "testing6", "ResellerAdmin"),
}
_OPTIONS = {
    "reseller_prefix": "AUTH, SERVICE",
    "operator_roles": "admin, swiftoperator",
    "SERVICE_service_roles": "service",
}


@contextmanager
def with_keystone(home: Path) -> Iterator[str]:
    """Run a proxy with Keystone's users for the cluster in ``home``; yield the suites' conf."""
    with _keystone() as keystone, keystone_proxy(_programs(), keystone, home, _OPTIONS) as port:
        yield _conf(keystone, port)


@contextmanager
def real_swift_with_keystone(home: Path) -> Iterator[str]:
    """Run real Swift with Keystone's users; yield the suites' conf."""
    with _keystone() as keystone:
        auth = {"authtoken": authtoken(keystone), "keystoneauth": _OPTIONS}
        with real_swift(home, auth) as url:
            yield _conf(keystone, int(url.rpartition(":")[2]))


def _programs() -> Path:
    place = os.environ.get("MARTLET_KEYSTONE")
    assert place, "MARTLET_KEYSTONE names no directory with Keystone and keystonemiddleware"
    return Path(place)


@contextmanager
def _keystone() -> Iterator[Keystone]:
    home = judges.WORK / "keystone"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    keystone = Keystone(_programs(), home)
    try:
        keystone.start()
        domain = keystone.make("domain", _DOMAIN)
        for number, (project, user, password, role) in _USERS.items():
            elsewhere = {"domain": domain} if number == "4" else {}
            keystone.grant(user, project, role, password, **elsewhere)
        yield keystone
    finally:
        keystone.stop()


def _conf(keystone: Keystone, port: int) -> str:
    """Return both suites' conf. The catalogue has the proxy, and the account exists."""
    url = f"http://{HOST}:{port}"
    keystone.publish("object-store", f"{url}/v1/AUTH_$(project_id)s")
    project, user, password, _ = _USERS[""]
    headers = {"X-Auth-Token": keystone.token(user, project, password)}
    account = f"{url}/v1/AUTH_{keystone.id_of('project', project)}"
    urllib.request.urlopen(urllib.request.Request(account, method="POST", headers=headers)).close()
    lines = [
        "[func_test]",
        "auth_version = 3",
        f"auth_uri = {keystone.url}/v3",
        "service_prefix = SERVICE",
        "collate = C",
        "insecure = no",
        f"storage_domain = {STORAGE_DOMAIN}",
    ]
    for number, (project, user, password, _) in _USERS.items():
        # Users of one project have one account.
        if number != "3":
            lines.append(f"account{number} = {project}")
        lines += [f"username{number} = {user}", f"password{number} = {password}"]
        lines.append(f"domain{number} = {_DOMAIN if number == '4' else 'Default'}")
    return "\n".join([*lines, ""])

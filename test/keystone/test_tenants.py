"""Tokens, roles and ACLs of a real Keystone's users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from running_cluster import await_true
from swift_api import Account

Open = Callable[..., Account]


@pytest.fixture(scope="module")
def shared(open_account: Open) -> str:
    """A container of project blue with an object ``o``."""
    ann = open_account("ann", "blue")
    assert ann.call("PUT", "shared").status == 201
    assert ann.call("PUT", "shared", "o", body=b"blue").status == 201
    return "shared"


def test_a_token_is_needed(open_account: Open, shared: str) -> None:
    ann = open_account("ann", "blue")
    assert ann.call("GET", shared, "o").body == b"blue"
    for token in ("", "nonsense", ann.token + "x"):
        other = Account.with_token(ann.port, token, ann.path)
        answer = other.call("GET", shared, "o")
        assert answer.status == 401
        assert "www-authenticate" in answer.headers


def test_a_token_that_was_revoked_before_its_first_use(tenants: Any, shared: str) -> None:
    account = tenants.open("ann", "blue")
    tenants.keystone.revoke(account.token)
    assert account.call("GET", shared, "o").status == 401


@pytest.mark.parametrize(
    ("user", "project", "get", "put", "post"),
    [
        ("ann", "blue", 200, 201, 204),
        ("ben", "blue", 200, 201, 204),
        ("rob", "blue", 200, 403, 403),
        ("mia", "blue", 403, 403, 403),
        ("eve", "red", 403, 403, 403),
        ("boss", "service", 200, 201, 204),
    ],
)
def test_roles(
    open_account: Open, shared: str, user: str, project: str, get: int, put: int, post: int
) -> None:
    account = open_account(user, project, "blue")
    assert account.call("GET", shared, "o").status == get
    assert account.call("PUT", shared, f"by-{user}", body=b"x").status == put
    assert account.call("POST", headers={"X-Account-Meta-Color": user}).status == post


def test_the_owner_alone_sees_the_acl(open_account: Open) -> None:
    ann = open_account("ann", "blue")
    ann.call("PUT", "seen", headers={"X-Container-Read": "mia:*, *:*"})
    assert "x-container-read" in ann.call("HEAD", "seen").headers
    rob = open_account("rob", "blue").call("HEAD", "seen")
    assert (rob.status, rob.headers.get("x-container-read")) == (204, None)


@pytest.mark.parametrize(
    ("acl", "reads"),
    [
        ("{red}:{eve}", True),
        ("{red}:*", True),
        ("*:{eve}", True),
        ("*:*", True),
        ("red:eve", True),
        ("red:{eve}", True),
        ("{blue}:{eve}", False),
        ("{red}:{ann}", False),
        ("{red}", False),
    ],
)
def test_acls_across_projects(
    open_account: Open, tenants: Any, acl: str, reads: bool, request: Any
) -> None:
    keystone = tenants.keystone
    names = {name: keystone.id_of("project", name) for name in ("blue", "red")}
    names |= {name: keystone.id_of("user", name) for name in ("ann", "eve")}
    ann, eve = open_account("ann", "blue"), open_account("eve", "red", "blue")
    container = f"acl-{abs(hash(acl))}"
    granted = {"X-Container-Read": acl.format(**names), "X-Container-Write": acl.format(**names)}
    assert ann.call("PUT", container, headers=granted).status == 201
    assert ann.call("PUT", container, "o", body=b"x").status == 201
    assert eve.call("GET", container, "o").status == (200 if reads else 403)
    assert eve.call("PUT", container, "new", body=b"y").status == (201 if reads else 403)
    assert eve.call("POST", container).status == 403
    taken = {"X-Remove-Container-Read": "x", "X-Remove-Container-Write": "x"}
    assert ann.call("POST", container, headers=taken).status == 204
    await_true(lambda: eve.call("GET", container, "o").status == 403, "the ACL's end")


def test_everybody_reads_what_is_public(open_account: Open) -> None:
    ann = open_account("ann", "blue")
    ann.call("PUT", "public", headers={"X-Container-Read": ".r:*"})
    ann.call("PUT", "public", "o", body=b"x")
    nobody = Account.with_token(ann.port, "", ann.path)
    assert nobody.call("GET", "public", "o").status == 200
    assert nobody.call("GET", "public").status == 401
    assert open_account("eve", "red", "blue").call("GET", "public", "o").status == 200


def test_a_copy_needs_both_ends(open_account: Open, tenants: Any, shared: str) -> None:
    eve = open_account("eve", "red")
    assert eve.call("PUT", "mine").status == 201
    source = {
        "X-Copy-From": f"{shared}/o",
        "X-Copy-From-Account": tenants.path("blue").rpartition("/")[2],
    }
    assert eve.call("PUT", "mine", "o", headers=source).status == 403
    ann = open_account("ann", "blue")
    assert ann.call("POST", shared, headers={"X-Container-Read": "*:*"}).status == 204
    await_true(lambda: eve.call("PUT", "mine", "o", headers=source).status == 201, "the ACL")
    assert eve.call("GET", "mine", "o").body == b"blue"


def test_service_accounts_need_a_service_token(tenants: Any, open_account: Open) -> None:
    ann = open_account("ann", "blue")
    path = tenants.path("blue", "SERVICE_")
    assert ann.send("PUT", f"{path}/images").status == 403
    service = {"X-Service-Token": tenants.keystone.token("glance", "service")}
    assert ann.send("PUT", f"{path}/images", service).status == 201
    assert ann.send("PUT", f"{path}/images/o", service, b"x").status == 201
    assert ann.send("GET", f"{path}/images/o").status == 403
    assert ann.send("GET", f"{path}/images/o", service).body == b"x"
    wrong = {"X-Service-Token": "nonsense"}
    assert ann.send("GET", f"{path}/images/o", wrong).status == 401


def test_the_account_remembers_its_domain(open_account: Open) -> None:
    ann = open_account("ann", "blue")
    ann.call("PUT", "any")
    await_true(lambda: ann.call("HEAD").status == 204, "the account")
    assert ann.call("HEAD").headers["x-account-project-domain-id"] == "default"


def test_another_origin_may_ask_first(open_account: Open) -> None:
    ann = open_account("ann", "blue")
    allowed = {"X-Container-Meta-Access-Control-Allow-Origin": "http://example.com"}
    ann.call("PUT", "cors", headers=allowed)
    nobody = Account.with_token(ann.port, "", ann.path)
    asked = {"Origin": "http://example.com", "Access-Control-Request-Method": "GET"}
    answer = nobody.call("OPTIONS", "cors", "o", headers=asked)
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "http://example.com"

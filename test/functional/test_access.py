"""Authorization with container ACLs, through real processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from running_cluster import RunningCluster, await_true
from swift_api import Account, Answer, RawConnection

#: How long a worker may use the cached info of a container, a minute, and time to ask them all.
CACHE_SECONDS_MAX = 90.0


@pytest.fixture
def stranger(cluster: RunningCluster) -> Iterator[Account]:
    """The admin of another account."""
    account = Account(cluster.port, "test2:tester2", "testing2")
    yield account
    account.close()


@pytest.fixture
def colleague(cluster: RunningCluster) -> Iterator[Account]:
    """A user of the same account without own rights."""
    account = Account(cluster.port, "test:tester3", "testing3")
    yield account
    account.close()


def anonymous(cluster: RunningCluster, path: str, referrer: str = "") -> Answer:
    """Send a GET without a token."""
    extra = f"Referer: {referrer}\r\n" if referrer else ""
    with RawConnection(cluster.port) as connection:
        connection.send(f"GET {path} HTTP/1.1\r\nHost: martlet\r\n{extra}\r\n".encode())
        return connection.answer()


def secure(account: Account, container: str, **acls: str) -> None:
    """Create the container with its ACLs, so that no worker has cached other ACLs."""
    names = {"read": "X-Container-Read", "write": "X-Container-Write"}
    headers = {names[kind]: acl for kind, acl in acls.items()}
    assert account.call("PUT", container, headers=headers).status == 201
    assert account.call("PUT", container, "o", body=b"shown").status == 201


def test_without_acl_only_the_account_may(
    cluster: RunningCluster, account: Account, stranger: Account, colleague: Account
) -> None:
    secure(account, "private")
    path = account.url("private", "o")
    assert account.send("GET", path).body == b"shown"
    assert stranger.send("GET", path).status == 403
    assert colleague.send("GET", path).status == 403
    assert anonymous(cluster, path).status == 401


def test_everyone_reads_objects_but_no_listing(cluster: RunningCluster, account: Account) -> None:
    secure(account, "public", read=".r:*")
    assert anonymous(cluster, account.url("public", "o")).body == b"shown"
    assert anonymous(cluster, account.url("public")).status == 401


def test_rlistings_shows_the_listing(cluster: RunningCluster, account: Account) -> None:
    secure(account, "browsed", read=".r:*,.rlistings")

    def is_shown() -> bool:
        answer = anonymous(cluster, account.url("browsed"))
        assert answer.status == 200
        return answer.lines == ["o"]

    await_true(is_shown, "the object is listed")


def test_a_referrer_is_let_in_and_another_is_not(cluster: RunningCluster, account: Account) -> None:
    secure(account, "linked", read=".r:.example.com,.r:-bad.example.com")
    path = account.url("linked", "o")
    assert anonymous(cluster, path, "http://www.example.com/page").status == 200
    assert anonymous(cluster, path, "http://bad.example.com/page").status == 401
    assert anonymous(cluster, path).status == 401


def test_a_user_or_an_account_is_let_in(
    account: Account, stranger: Account, colleague: Account
) -> None:
    secure(account, "shared", read="test2:tester2", write="test:tester3")
    path = account.url("shared", "o")
    assert stranger.send("GET", path).status == 200
    assert stranger.send("PUT", path, body=b"changed").status == 403
    assert colleague.send("PUT", account.url("shared", "new"), body=b"x").status == 201
    assert colleague.send("GET", path).status == 403
    assert colleague.send("POST", account.url("shared")).status == 403


def test_an_acl_that_is_taken_away_ends(cluster: RunningCluster, account: Account) -> None:
    secure(account, "withdrawn", read=".r:*")
    path = account.url("withdrawn", "o")
    assert anonymous(cluster, path).status == 200
    headers = {"X-Remove-Container-Read": "x"}
    assert account.call("POST", "withdrawn", headers=headers).status == 204

    def refused_by_every_worker() -> bool:
        return all(anonymous(cluster, path).status == 401 for _ in range(8))

    await_true(refused_by_every_worker, "the change is seen everywhere", CACHE_SECONDS_MAX)


def test_a_malformed_acl_is_refused(account: Account) -> None:
    assert account.call("PUT", "bad-acl", headers={"X-Container-Read": ".r:"}).status == 400


def test_the_reseller_admin_may_read_every_account(
    cluster: RunningCluster, account: Account, container: str
) -> None:
    assert account.call("PUT", container, "o", body=b"x").status == 201
    admin = Account(cluster.port, "admin:admin", "admin")
    assert admin.send("GET", account.url(container, "o")).status == 200
    admin.close()


def test_the_service_account_needs_both_tokens(cluster: RunningCluster, account: Account) -> None:
    service = Account(cluster.port, "test5:tester5", "testing5")
    path = account.path.replace("AUTH_", "SERVICE_") + "/images"
    assert account.send("PUT", path).status == 403
    both = {"X-Service-Token": service.token}
    assert account.send("PUT", path, headers=both).status == 201
    assert account.send("GET", path, headers=both).status in (200, 204)
    service.close()

"""Quotas through real processes: the guarantees of doc/quotas.md."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from racing import CLIENTS, race
from running_cluster import RunningCluster, await_true
from swift_api import Account
from usage import settled, used

SIZE = 1000


@pytest.fixture
def reseller(cluster: RunningCluster) -> Iterator[Account]:
    """A reseller admin."""
    account = Account(cluster.port, "admin:admin", "admin")
    yield account
    account.close()


@pytest.fixture
def tenant(cluster: RunningCluster, reseller: Account) -> Iterator[Account]:
    """The admin of an account that no other test uses; its quotas are removed afterwards."""
    account = Account(cluster.port, "test2:tester2", "testing2")
    assert account.call("POST").status == 204
    yield account
    names = ("Quota-Bytes", "Quota-Count", "Quota-Bytes-Policy-Policy-0")
    reseller.send("POST", account.path, {f"X-Remove-Account-{name}": "x" for name in names})
    account.close()


@pytest.mark.parametrize("kind", ["Bytes", "Count"])
def test_64_clients_exceed_a_container_by_no_more_than_what_is_in_flight(
    account: Account, container: str, kind: str
) -> None:
    quota = 50
    value = quota * SIZE if kind == "Bytes" else quota
    account.call("POST", container, headers={f"X-Container-Meta-Quota-{kind}": str(value)})
    body = b"x" * SIZE
    statuses = race(account, lambda a, n: a.call("PUT", container, f"o{n}", body=body))
    stored = statuses.count(201)
    assert quota <= stored <= quota + CLIENTS - 1
    await_true(lambda: used(account, container) == (stored, stored * SIZE), "every row")
    assert account.call("PUT", container, "late", body=body).status == 413


def test_64_clients_exceed_an_account_by_no_more_than_what_is_in_flight(
    cluster: RunningCluster, tenant: Account, reseller: Account
) -> None:
    tenant.call("PUT", "raced")
    quota = 50 * SIZE + settled(tenant, cluster.home)[1]
    assert set_quota(reseller, tenant, "Bytes", quota) == 204
    body = b"x" * SIZE
    statuses = race(tenant, lambda a, n: a.call("PUT", "raced", f"o{n}", body=body))
    assert 50 <= statuses.count(201) <= 50 + CLIENTS - 1
    assert tenant.call("PUT", "raced", "late", body=body).status == 413


def set_quota(reseller: Account, tenant: Account, kind: str, value: int | str) -> int:
    headers = {f"X-Account-Quota-{kind}": str(value)}
    return reseller.send("POST", tenant.path, headers).status


def test_room_that_a_delete_made_can_be_used_at_once(account: Account, container: str) -> None:
    account.call("POST", container, headers={"X-Container-Meta-Quota-Bytes": "10"})
    for _ in range(3):
        assert account.call("PUT", container, "o1", body=b"0123456789").status == 201
        assert account.call("PUT", container, "o2", body=b"0").status == 413
        assert account.call("DELETE", container, "o1").status == 204


def test_copies_count_with_their_sources_size(account: Account, container: str) -> None:
    small = f"{container}-small"
    account.call("PUT", small, headers={"X-Container-Meta-Quota-Bytes": "15"})
    account.call("PUT", container, "o", body=b"0123456789")
    source = f"{container}/o"
    assert account.call("PUT", small, "o1", headers={"X-Copy-From": source}).status == 201
    assert account.call("PUT", small, "o2", headers={"X-Copy-From": source}).status == 413
    copied = {"Destination": f"{small}/o2"}
    assert account.call("COPY", container, "o", headers=copied).status == 413
    assert (
        account.call("COPY", container, "o", headers={**copied, "Range": "bytes=0-4"}).status == 201
    )
    account.await_names(["o1", "o2"], small)


@pytest.mark.parametrize(("pieces", "status"), [(10, 201), (11, 413), (2000, 413)])
def test_an_upload_of_unknown_length_is_cut_off(
    account: Account, container: str, pieces: int, status: int
) -> None:
    account.call("POST", container, headers={"X-Container-Meta-Quota-Bytes": "100000"})
    try:
        answer = account.call("PUT", container, "o", body=(b"x" * 10_000 for _ in range(pieces)))
        assert answer.status == status
    except ConnectionError:
        assert status == 413  # refused and closed while the rest was being sent
    account.await_names(["o"] if status == 201 else [], container)


def test_account_quotas(cluster: RunningCluster, tenant: Account, reseller: Account) -> None:
    tenant.call("PUT", "c")
    tenant.call("DELETE", "c", "o1")
    objects, bytes_used = settled(tenant, cluster.home)
    assert tenant.call("POST", headers={"X-Account-Quota-Bytes": "1"}).status == 403
    assert set_quota(reseller, tenant, "Bytes", "much") == 400
    assert set_quota(reseller, tenant, "Bytes", bytes_used + 10) == 204
    assert tenant.call("HEAD").headers["x-account-quota-bytes"] == str(bytes_used + 10)
    assert tenant.call("PUT", "c", "o1", body=b"x" * 11).status == 413
    assert tenant.call("PUT", "c", "o1", body=b"x" * 10).status == 201
    assert tenant.call("PUT", "c", "o2", body=b"x").status == 413
    by_reseller = reseller.send("PUT", f"{tenant.path}/c/o2", body=b"x")
    assert by_reseller.status == 201
    assert tenant.call("DELETE", "c", "o2").status == 204
    assert tenant.call("DELETE", "c", "o1").status == 204
    assert tenant.call("PUT", "c", "o1", body=b"x" * 10).status == 201
    assert set_quota(reseller, tenant, "Bytes", "") == 204
    assert set_quota(reseller, tenant, "Count", objects + 1) == 204
    assert tenant.call("PUT", "c", "o2", body=b"x").status == 413
    assert set_quota(reseller, tenant, "Count", "") == 204
    assert set_quota(reseller, tenant, "Bytes-Policy-Policy-0", 0) == 204
    refused = tenant.call("PUT", "c", "o2", body=b"x")
    assert (refused.status, refused.body) == (413, b"Upload exceeds policy quota.")


def test_who_writes_by_an_account_acl_learns_of_the_quota(
    cluster: RunningCluster, account: Account, container: str
) -> None:
    account.call("POST", container, headers={"X-Container-Meta-Quota-Bytes": "1"})
    friend = Account(cluster.port, "test2:tester2", "testing2")
    friend.path = account.path
    assert friend.call("PUT", container, "o", body=b"xx").status == 403
    acl = {"X-Account-Access-Control": '{"read-write":["test2:tester2"]}'}
    assert account.call("POST", headers=acl).status == 204
    try:
        assert friend.call("PUT", container, "o", body=b"xx").status == 413
        assert friend.call("PUT", container, "o", body=b"x").status == 201
    finally:
        assert account.call("POST", headers={"X-Account-Access-Control": ""}).status == 204
        friend.close()

"""Quotas of a tenant, set by a reseller admin and enforced for all users of the tenant."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterator

import pytest
from racing import CLIENTS, race
from running_cluster import RunningCluster
from swift_api import Account
from usage import settled

Open = Callable[..., Account]
SIZE = 1000


@pytest.fixture
def boss(open_account: Open) -> Account:
    """A reseller admin, at the account of project blue."""
    return open_account("boss", "service", "blue")


@pytest.fixture
def ann(open_account: Open, boss: Account) -> Iterator[Account]:
    """A user of project blue, whose account has no quotas afterwards."""
    yield open_account("ann", "blue")
    boss.call(
        "POST", headers={f"X-Remove-Account-Quota-{kind}": "x" for kind in ("Bytes", "Count")}
    )


@pytest.fixture
def known_to_all(ann: Account) -> None:
    """Make each worker of the proxy cache the token: otherwise 64 clients cause 64 validations."""
    for _ in range(16):
        account = ann.again()
        assert account.call("HEAD").status == 204
        account.close()


@pytest.fixture
def ben(open_account: Open) -> Account:
    """Another user of project blue."""
    return open_account("ben", "blue")


@pytest.fixture
def container(ann: Account, request: pytest.FixtureRequest) -> str:
    """A new container of project blue."""
    name = f"quota-{abs(hash(request.node.name))}"
    assert ann.call("PUT", name).status == 201
    return name


def limit(boss: Account, room_bytes: int) -> None:
    """Set a quota that allows so many more bytes in the account of ``boss``."""
    used = int(boss.call("HEAD").headers["x-account-bytes-used"])
    # Usage that containers have not reported yet is missing here: start with an idle account.
    quota = {"X-Account-Quota-Bytes": str(used + room_bytes)}
    assert boss.call("POST", headers=quota).status == 204


@pytest.fixture
def limited(boss: Account, container: str, quiet: None) -> str:
    """A container in an account with room for 1000 more bytes."""
    limit(boss, SIZE)
    return container


@pytest.fixture
def quiet(cluster: RunningCluster, ann: Account) -> None:
    """All containers have reported their usage to the account."""
    settled(ann, cluster.home)


def test_only_a_reseller_sets_them(ann: Account, boss: Account) -> None:
    assert ann.call("POST", headers={"X-Account-Quota-Bytes": "10"}).status == 403
    assert ann.call("POST", headers={"X-Account-Meta-Quota-Bytes": "10"}).status == 403
    assert boss.call("POST", headers={"X-Account-Quota-Bytes": "10"}).status == 204
    assert ann.call("HEAD").headers["x-account-quota-bytes"] == "10"


def test_all_users_of_the_tenant_are_held_to_it(
    ann: Account, ben: Account, boss: Account, limited: str
) -> None:
    assert ann.call("PUT", limited, "o1", body=b"x" * 600).status == 201
    assert ben.call("PUT", limited, "o2", body=b"x" * 600).status == 413
    assert ben.call("PUT", limited, "o2", body=b"x" * 400).status == 201
    assert ann.call("PUT", limited, "o3", body=b"x").status == 413
    assert boss.call("PUT", limited, "o3", body=b"x").status == 201


def test_the_other_tenant_is_not(open_account: Open, limited: str) -> None:
    eve = open_account("eve", "red")
    eve.call("PUT", "c")
    assert eve.call("PUT", "c", "o", body=b"x" * 10 * SIZE).status == 201


def test_copies(ann: Account, limited: str) -> None:
    assert ann.call("PUT", limited, "o1", body=b"x" * 600).status == 201
    copy = {"X-Copy-From": f"{limited}/o1"}
    assert ann.call("PUT", limited, "o2", headers=copy).status == 413
    assert ann.call("PUT", limited, "o2", headers={**copy, "Range": "bytes=0-99"}).status == 201


def test_archives(ann: Account, limited: str) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for number in range(200):
            info = tarfile.TarInfo(f"o{number}")
            info.size = 100
            archive.addfile(info, io.BytesIO(b"x" * 100))
    path = f"{ann.url(limited)}?extract-archive=tar"
    report = ann.send("PUT", path, {"Accept": "application/json"}, stream.getvalue()).json
    created, in_flight = report["Number Files Created"], 128
    assert 10 <= created <= 10 + in_flight - 1
    assert report["Response Status"] == "400 Bad Request"
    assert {status for _, status in report["Errors"]} == {"413 Request Entity Too Large"}
    assert len(report["Errors"]) == 200 - created


def test_large_objects(ann: Account, limited: str) -> None:
    put = ann.call("PUT", limited, "segment", body=b"x" * 400)
    assert put.status == 201
    assert ann.call("PUT", limited, "segment2", body=b"x" * 700).status == 413
    segment = {"path": f"/{limited}/segment", "etag": put.headers["etag"], "size_bytes": 400}
    manifest = json.dumps([segment, segment]).encode()
    made = ann.send("PUT", f"{ann.url(limited, 'large')}?multipart-manifest=put", body=manifest)
    assert made.status == 201
    assert ann.call("HEAD", limited, "large").headers["content-length"] == "800"
    # A copy is one object with the size of the whole large object.
    source = {"X-Copy-From": f"{limited}/large"}
    assert ann.call("PUT", limited, "copied", headers=source).status == 413


def test_uploads_of_unknown_length(ann: Account, limited: str) -> None:
    assert ann.call("PUT", limited, "o1", body=iter([b"x" * 500, b"x" * 501])).status == 413
    assert ann.call("PUT", limited, "o1", body=iter([b"x" * 500, b"x" * 500])).status == 201
    ann.await_names(["o1"], limited)


@pytest.mark.usefixtures("known_to_all", "quiet")
def test_64_clients_at_the_edge(ann: Account, boss: Account, container: str) -> None:
    limit(boss, 50 * SIZE)
    body = b"x" * SIZE
    statuses = race(ann, lambda account, n: account.call("PUT", container, f"o{n}", body=body))
    assert 50 <= statuses.count(201) <= 50 + CLIENTS - 1
    assert ann.call("PUT", container, "late", body=body).status == 413


@pytest.mark.usefixtures("known_to_all")
@pytest.mark.parametrize(("kind", "quota"), [("Bytes", 50 * SIZE), ("Count", 50)])
def test_64_clients_at_the_edge_of_a_container(
    ann: Account, container: str, kind: str, quota: int
) -> None:
    ann.call("POST", container, headers={f"X-Container-Meta-Quota-{kind}": str(quota)})
    body = b"x" * SIZE
    statuses = race(ann, lambda account, n: account.call("PUT", container, f"o{n}", body=body))
    assert 50 <= statuses.count(201) <= 50 + CLIENTS - 1
    assert ann.call("PUT", container, "late", body=body).status == 413

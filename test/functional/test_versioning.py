"""Object versioning through real processes: the guarantees of doc/versioning.md."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException

import pytest
from frozen import frozen
from running_cluster import RunningCluster, await_true, descendants
from storage_connection import StorageConnection
from swift_api import Account, Answer

from ring.ring import load_rings

WRITERS = 8
ENABLED = {"X-Versions-Enabled": "true"}

Versions = dict[str, bytes]


def call(
    account: Account,
    method: str,
    container: str,
    name: str,
    version: str,
    headers: dict[str, str] | None = None,
) -> Answer:
    """Send a request about one version."""
    path = f"{account.url(container, name)}?version-id={version}"
    return account.send(method, path, headers)


def put(account: Account, container: str, name: str, body: bytes) -> str:
    answer = account.call("PUT", container, name, body=body)
    assert answer.status == 201, answer
    return answer.headers["x-object-version-id"]


def get(account: Account, container: str, name: str, version: str = "") -> tuple[int, bytes]:
    answer = (
        call(account, "GET", container, name, version)
        if version
        else account.call("GET", container, name)
    )
    return answer.status, answer.body if answer.status == 200 else b""


def listed(account: Account, container: str, name: str = "") -> list[tuple[str, bool]]:
    """Return the versions of the names that begin with ``name``, as (id, is latest)."""
    answer = account.call("GET", container, versions="", prefix=name)
    assert answer.status == 200, answer
    return [(entry["version_id"], entry["is_latest"]) for entry in answer.json]


def assert_all_there(account: Account, container: str, name: str, versions: Versions) -> None:
    """Check that each version is readable and, after all updates, listed; the latest is current."""
    for version, body in versions.items():
        assert get(account, container, name, version) == (200, body), version

    def is_listed() -> bool:
        """Whether the replica that answers has all rows: each listing may be of another one."""
        entries = listed(account, container, name)
        found = [version for version, _ in entries]
        assert found == sorted(found, reverse=True)
        # A replica that was down for the last write may still have an older one.
        newest = account.call("HEAD", container, name, headers={"X-Newest": "true"})
        return (
            set(versions) <= set(found)
            and [version for version, is_latest in entries if is_latest] == found[:1]
            and newest.headers.get("x-object-version-id") == found[0]
        )

    await_true(is_listed, "all versions are listed, and the newest is the latest")


class Writer(threading.Thread):
    """Writes versions of one name until stopped; records the acknowledged ones."""

    def __init__(self, account: Account, container: str, name: str, number: int) -> None:
        super().__init__()
        self.account, self.container, self.object = account.again(), container, name
        self.number = number
        self.versions: Versions = {}
        self.failed = 0
        self.ended = threading.Event()

    def run(self) -> None:
        count = 0
        while not self.ended.is_set():
            count += 1
            body = f"{self.number} {count}".encode()
            try:
                answer = self.account.call("PUT", self.container, self.object, body=body)
            except (OSError, HTTPException):
                self.failed += 1
                continue
            if answer.status == 201:
                self.versions[answer.headers["x-object-version-id"]] = body
            else:
                self.failed += 1
        self.account.close()


@contextmanager
def writing(account: Account, container: str, name: str) -> Iterator[list[Writer]]:
    writers = [Writer(account, container, name, number) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        yield writers
    finally:
        for writer in writers:
            writer.ended.set()
        for writer in writers:
            writer.join()


def acknowledged(writers: list[Writer]) -> Versions:
    versions: Versions = {}
    for writer in writers:
        assert not versions.keys() & writer.versions.keys()
        versions |= writer.versions
    return versions


def await_more(writers: list[Writer], count: int) -> None:
    target = sum(len(writer.versions) for writer in writers) + count
    await_true(
        lambda: sum(len(writer.versions) for writer in writers) >= target, f"{count} versions more"
    )


@pytest.fixture
def versioned(account: Account, container: str) -> str:
    """A new container with versioning enabled."""
    assert account.call("POST", container, headers=ENABLED).status == 204
    return container


def test_the_life_of_an_object(account: Account, container: str) -> None:
    null = account.call("PUT", container, "o", body=b"null")
    assert (null.status, "x-object-version-id" in null.headers) == (201, False)
    assert account.call("POST", container, headers=ENABLED).status == 204
    one = put(account, container, "o", b"one")
    large = put(account, container, "o", b"x" * (2 << 20))
    assert get(account, container, "o", one) == (200, b"one")
    assert get(account, container, "o", large) == (200, b"x" * (2 << 20))
    assert get(account, container, "o", "null") == (404, b"")  # it has an id by now
    first = min(version for version, _ in listed(account, container, "o"))
    assert get(account, container, "o", first) == (200, b"null")
    copied = {"Destination": f"{container}/copy"}
    answer = call(account, "COPY", container, "o", one, copied)
    assert (answer.status, answer.headers["x-copied-from-version-id"]) == (201, one)
    assert get(account, container, "copy") == (200, b"one")

    marker = account.call("DELETE", container, "o").headers["x-object-version-id"]
    assert get(account, container, "o") == (404, b"")
    shown = listed(account, container, "o")
    assert [version for version, _ in shown[:3]] == [marker, large, one]
    assert call(account, "PUT", container, "o", one).status == 201
    assert get(account, container, "o") == (200, b"one")
    assert (one, True) in listed(account, container, "o")
    assert call(account, "DELETE", container, "o", one).status == 204
    assert get(account, container, "o") == (404, b"")

    assert account.call("DELETE", container).status == 409
    for name in ("o", "copy"):
        for version, _ in listed(account, container, name):
            assert call(account, "DELETE", container, name, version).status == 204
    assert account.call("DELETE", container).status == 204


def test_many_writers_of_one_name(account: Account, versioned: str) -> None:
    with writing(account, versioned, "o") as writers:
        await_more(writers, 200)
    versions = acknowledged(writers)
    assert not any(writer.failed for writer in writers)
    assert len(versions) >= 200
    assert_all_there(account, versioned, "o", versions)


def test_posts_among_writers(cluster: RunningCluster, account: Account, versioned: str) -> None:
    """A POST reaches one version, the same on all replicas, also during other writes."""
    with writing(account, versioned, "o") as writers:
        await_more(writers, 1)
        statuses = [
            account.call("POST", versioned, "o", headers={"X-Object-Meta-N": str(number)}).status
            for number in range(60)
        ]
    names = (account.path.rpartition("/")[2], versioned, "o")
    reached: dict[str, set[str]] = {}
    for version in acknowledged(writers):
        for number in posts_of_replicas(cluster, names, version):
            reached.setdefault(number, set()).add(version)
    assert statuses.count(202) > 30
    assert {number: versions for number, versions in reached.items() if len(versions) > 1} == {}
    assert len(reached) > 30


def posts_of_replicas(
    cluster: RunningCluster, names: tuple[str, str, str], version: str
) -> Iterator[str]:
    """Return X-Object-Meta-N of a version from each device that has it."""
    partition, nodes = load_rings(cluster.home / "etc").object_ring(0).get_nodes(*names)
    for node in nodes:
        connection = StorageConnection(cluster.home, node["ip"], node["port"])
        headers = {"X-Backend-Version-Id": version, "X-Backend-Storage-Policy-Index": "0"}
        path = f"/{node['device']}/{partition}/{'/'.join(names)}"
        connection.request("HEAD", path, None, headers)
        answer = connection.getresponse()
        assert answer.status == 200
        if number := answer.headers["X-Object-Meta-N"]:
            yield number
        connection.close()


def test_kill_of_an_object_server(four_nodes: RunningCluster) -> None:
    account = Account(four_nodes.port)
    assert account.call("PUT", "kill-versions", headers=ENABLED).status == 201
    with writing(account, "kill-versions", "o") as writers:
        for node in (1, 2, 3):
            await_more(writers, 20)
            kill(four_nodes, f"object-server-node{node}")
        await_more(writers, 20)
    assert_all_there(account, "kill-versions", "o", acknowledged(writers))
    account.close()


def test_kill_of_the_only_object_server(cluster: RunningCluster, versioned: str) -> None:
    account = Account(cluster.port)
    with writing(account, versioned, "o") as writers:
        await_more(writers, 40)
        kill(cluster, "object-server")
        await_more(writers, 40)
    # The worker of the proxy that serves this connection may reach the server later than the other.
    await_true(lambda: get(account, versioned, "o")[0] == 200, "the object server is reached")
    assert_all_there(account, versioned, "o", acknowledged(writers))
    account.close()


def kill(cluster: RunningCluster, service: str) -> None:
    before = cluster.pid_of(service)
    os.kill(before, signal.SIGKILL)
    await_true(lambda: cluster.pid_of(service) != before, f"a new process for {service}")


def test_rows_that_come_late(new_cluster: Callable[..., RunningCluster]) -> None:
    """While the container server hangs, rows wait on the object servers without an order.

    The cluster is a new one: the others' object servers wait five times as long for each row.
    """
    cluster = new_cluster().start()
    account, versioned = Account(cluster.port), "late"
    assert account.call("PUT", versioned, headers=ENABLED).status == 201
    first = put(account, versioned, "o", b"first")
    hung = cluster.pid_of("container-server")
    with frozen(hung, *descendants(hung)):
        second = put(account, versioned, "o", b"second")
        third = put(account, versioned, "o", b"third")
        assert call(account, "DELETE", versioned, "o", third).status == 204
        assert call(account, "PUT", versioned, "o", first).status == 201
        gone = put(account, versioned, "gone", b"gone")
        marker = account.call("DELETE", versioned, "gone").headers["x-object-version-id"]
    await_true(
        lambda: listed(account, versioned, "o") == [(second, False), (first, True)],
        "the rows of o",
    )
    await_true(
        lambda: listed(account, versioned, "gone") == [(marker, True), (gone, False)],
        "the rows of gone",
    )
    account.await_names(["o"], versioned)
    await_true(  # each request may use another replica
        lambda: account.call("HEAD", versioned).headers["x-container-bytes-used"] == "15",
        "the bytes of all versions",
    )
    assert get(account, versioned, "o") == (200, b"first")
    account.close()


def test_a_null_version_is_kept_in_every_listing(four_nodes: RunningCluster) -> None:
    """Also in the listing that a stopped object server should have updated."""
    account = Account(four_nodes.port)
    names = (account.path.rpartition("/")[2], "kept-null", "o")
    assert account.call("PUT", "kept-null").status == 201
    assert account.call("PUT", "kept-null", "o", body=b"null").status == 201
    kept = account.call("HEAD", "kept-null", "o").headers["x-timestamp"]
    assert account.call("POST", "kept-null", headers=ENABLED).status == 204
    # The proxy may ask any replica of the container, also one that is late.
    await_true(lambda: all(are_enabled(four_nodes, names)), "a setting that all replicas know")
    version = put(account, "kept-null", "o", b"version")
    suspended = {"X-Versions-Enabled": "false"}
    assert account.call("POST", "kept-null", headers=suspended).status == 204
    _, nodes = load_rings(four_nodes.home / "etc").object_ring(0).get_nodes(*names)
    (number,) = (n for n in range(1, 5) if four_nodes.storage_port("object", n) == nodes[1]["port"])
    with frozen(four_nodes.pid_of(f"object-server-node{number}")):
        assert account.call("PUT", "kept-null", "o", body=b"new").status == 201
        await_true(
            lambda: all({kept, version} < ids for ids in listed_by_replicas(four_nodes, names)),
            "the row of the null version at each replica",
        )
    account.close()


def are_enabled(cluster: RunningCluster, names: tuple[str, str, str]) -> Iterator[bool]:
    """Return for each replica of the container whether it has versions."""
    partition, nodes = load_rings(cluster.home / "etc").container.get_nodes(*names[:2])
    for node in nodes:
        connection = StorageConnection(cluster.home, node["ip"], node["port"])
        connection.request("HEAD", f"/{node['device']}/{partition}/{'/'.join(names[:2])}")
        yield connection.getresponse().headers["X-Container-Sysmeta-Versions-Enabled"] == "True"
        connection.close()


def listed_by_replicas(cluster: RunningCluster, names: tuple[str, str, str]) -> Iterator[set[str]]:
    """Return the versions that each replica of the container lists."""
    partition, nodes = load_rings(cluster.home / "etc").container.get_nodes(*names[:2])
    for node in nodes:
        connection = StorageConnection(cluster.home, node["ip"], node["port"])
        path = f"/{node['device']}/{partition}/{'/'.join(names[:2])}?versions&format=json"
        connection.request("GET", path)
        yield {entry["version_id"] for entry in json.loads(connection.getresponse().read())}
        connection.close()

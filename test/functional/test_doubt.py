"""One damaged record header on one device: no stored object is a 404 or an outdated version."""

from __future__ import annotations

import hashlib
import http.client
import itertools
from collections.abc import Callable
from typing import NamedTuple

import pytest
from running_cluster import RunningCluster, await_true
from storage_connection import StorageConnection
from swift_api import Account

from cluster.ports import HOST
from ring.hashing import HashPath
from ring.ring import Ring

UNIT = 64  # records begin at multiples of it (doc/formats/bundle.md)
SEAL_HEADER = b"mrRC\x01\x08"
DEVICE = "d1"
OBJECTS = 16  # in each of three partitions
STALE = (200, "stale")
READS = 6  # the order of replicas is random


class Partition(NamedTuple):
    """Names of one partition that has a replica on the device.

    The record in the middle, the last about ``victim``, is destroyed.
    """

    number: int
    names: list[str]
    never_written: str

    @property
    def victim(self) -> str:
        return self.names[OBJECTS // 2]


def choose(ring: Ring, account: str, count: int) -> list[Partition]:
    """Return the first partitions on the device, with names of objects in container ``c``."""
    known = (n for n in itertools.count() if DEVICE in devices_of(ring, n))
    numbers = list(itertools.islice(known, count))
    names: dict[int, list[str]] = {number: [] for number in numbers}
    for name in (f"o{n}" for n in itertools.count()):
        found = names.get(ring.get_part(account, "c", name))
        if found is not None and len(found) <= OBJECTS:
            found.append(name)
            if all(len(names[number]) > OBJECTS for number in numbers):
                break
    return [Partition(number, names[number][:-1], names[number][-1]) for number in numbers]


def devices_of(ring: Ring, partition: int) -> set[str]:
    return {node["device"] for node in ring.get_part_nodes(partition)}


def body_of(name: str) -> bytes:
    return f"what {name} holds now".encode()


def write(cluster: RunningCluster, account: Account, partition: Partition, writes: str) -> None:
    """Write all objects; in the middle, the victim is ``writes``: put, replaced or deleted."""
    for name in partition.names:
        if name == partition.victim and writes != "put":
            assert account.call("PUT", "c", name, body=b"before").status == 201
            await_replica(cluster, account, partition, name, 200, b"before")
        if name == partition.victim and writes == "deleted":
            assert account.call("DELETE", "c", name).status == 204
            await_replica(cluster, account, partition, name, 404)
        else:
            assert account.call("PUT", "c", name, body=body_of(name)).status == 201
    for name in partition.names:
        if name != partition.victim or writes != "deleted":
            await_replica(cluster, account, partition, name, 200, body_of(name))


def await_replica(
    cluster: RunningCluster,
    account: Account,
    partition: Partition,
    name: str,
    status: int,
    body: bytes = b"",
) -> None:
    """Wait until the device has the newest write of a name: the client waited for a quorum only."""

    def has_it() -> bool:
        found = ask_device(cluster, account, partition, name)
        etag = found.headers.get("ETag", "").strip('"')
        return found.status == status and (status != 200 or etag == hashlib.md5(body).hexdigest())

    await_true(has_it, f"a replica of {name} on {DEVICE}")


def ask_device(
    cluster: RunningCluster, account: Account, partition: Partition, name: str
) -> http.client.HTTPResponse:
    """Send a HEAD to the object server itself for the replica on the device."""
    connection = StorageConnection(cluster.home, HOST, cluster.storage_port("object"))
    try:
        owner = account.path.rpartition("/")[2]
        connection.request("HEAD", f"/{DEVICE}/{partition.number}/{owner}/c/{name}")
        return connection.getresponse()
    finally:
        connection.close()


def destroy_header(cluster: RunningCluster, partition: int, digest: bytes) -> None:
    """Overwrite half the header of an object's newest record on the device with zeros."""
    folder = cluster.home / "devices" / DEVICE / "bundles" / str(partition)
    (segment,) = folder.glob("*.bundle")
    data = segment.read_bytes()
    assert not data.startswith(SEAL_HEADER, len(data) - 128), "its footer would keep what is lost"
    headers = [
        offset
        for offset in range(128, len(data), UNIT)
        if data.startswith(b"mrRC", offset) and any(data[offset + 24 : offset + 40])
    ]
    (*_, found) = [offset for offset in headers if data.startswith(digest, offset + 24)]
    assert headers[0] < found < headers[-1]
    with segment.open("r+b") as file:
        file.seek(found)
        file.write(bytes(UNIT))


@pytest.fixture
def damaged(new_cluster: Callable[..., RunningCluster]) -> tuple[RunningCluster, list[Partition]]:
    """A cluster with three partitions; one device has lost a record of each."""
    cluster = new_cluster().start()
    hash_path = HashPath.from_conf(cluster.home / "etc" / "martlet.conf")
    ring = Ring(cluster.home / "etc" / "object.ring.gz", hash_path)
    account = Account(cluster.port)
    assert account.call("PUT", "c").status == 201
    owner = account.path.rpartition("/")[2]
    partitions = choose(ring, owner, 3)
    for partition, writes in zip(partitions, ("put", "replaced", "deleted"), strict=True):
        write(cluster, account, partition, writes)
    account.close()
    assert cluster.stop() == 0, "".join(cluster.output)
    for partition in partitions:
        digest = hash_path.digest(owner, "c", partition.victim)
        destroy_header(cluster, partition.number, digest)
    return cluster.start(), partitions


def device_denies_nothing(
    cluster: RunningCluster, account: Account, partitions: list[Partition]
) -> None:
    """The device itself answers no 404 for lost records, and marks outdated answers."""
    for partition in partitions:
        told = doubt_of(cluster, account, partition, partition.victim)
        # For two of them an older write is left, which may be served if it is marked.
        allowed = [(503, "unknown")] if partition is partitions[0] else [(503, "unknown"), STALE]
        assert told in allowed
        assert doubt_of(cluster, account, partition, partition.names[0])[0] == 200
        assert doubt_of(cluster, account, partition, partition.names[-1]) == (200, None)


def doubt_of(
    cluster: RunningCluster, account: Account, partition: Partition, name: str
) -> tuple[int, str | None]:
    """Return the device's own answer for one name."""
    answer = ask_device(cluster, account, partition, name)
    return answer.status, answer.headers.get("X-Backend-Doubt")


def test_one_rotten_record_header(damaged: tuple[RunningCluster, list[Partition]]) -> None:
    """Clients see no effect of it."""
    cluster, partitions = damaged
    account = Account(cluster.port)
    device_denies_nothing(cluster, account, partitions)
    for partition in partitions:
        is_deleted = partition is partitions[-1]
        for name in [*partition.names, partition.never_written] * READS:
            answer = account.call("GET", "c", name)
            assert not any(header.startswith("x-backend-") for header in answer.headers)
            if name == partition.never_written or (is_deleted and name == partition.victim):
                assert answer.status == 404, name
            else:
                assert (answer.status, answer.body) == (200, body_of(name)), name

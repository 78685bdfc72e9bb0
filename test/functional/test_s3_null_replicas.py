"""The null version where a replica has missed a write, and after it is current again."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from frozen import frozen
from null_versions import NULL, body, listed, missed_by, put, put_upload, versioning
from object_replicas import ObjectReplicas, replicate_objects
from running_cluster import RunningCluster
from s3_client import s3_client
from swift_api import Account

_numbers = itertools.count(1)
NODES = (1, 2, 3)
Clusters = Callable[..., RunningCluster]


def three_nodes(new_cluster: Clusters) -> tuple[RunningCluster, Any]:
    cluster = new_cluster("--nodes", "3", "--no-background").start().await_writes()
    return cluster, s3_client(cluster.port)


def key(s3: Any) -> dict[str, str]:
    """A key of a new bucket."""
    at = {"Bucket": f"null-replicas-{next(_numbers)}-{os.getpid()}", "Key": "k"}
    s3.create_bucket(Bucket=at["Bucket"])
    return at


def for_all(keys: list[dict[str, str]], write: Callable[[dict[str, str]], Any]) -> None:
    for at in keys:
        write(at)


def read_all(s3: Any, at: dict[str, str]) -> list[bytes]:
    return [body(s3, at, VersionId=v) for kind, v, _ in listed(s3, at) if kind == "Versions"]


@pytest.mark.parametrize("then", ["marker", "write"])
def test_an_overwritten_null_version_stays_away(new_cluster: Clusters, then: str) -> None:
    """A replica missed the overwrite, and then got the removal of what had been written."""
    cluster, s3 = three_nodes(new_cluster)
    at = key(s3)
    versioning(s3, at, "Enabled")
    first = put(s3, at, b"first")
    versioning(s3, at, "Suspended")
    put(s3, at, b"second")
    missed_by(cluster, 3, lambda: put(s3, at, b"third"))
    assert s3.delete_object(**at, **NULL)["VersionId"] == "null"
    expected = [("DeleteMarkers", "null", True), ("Versions", first, False)]
    if then == "marker":
        s3.delete_object(**at)
    else:
        put(s3, at, b"fourth")
        expected[0] = ("Versions", "null", True)
    for _ in range(2):
        replicate_objects(cluster)
    assert listed(s3, at) == expected, read_all(s3, at)


def test_a_null_marker_is_removed_though_a_replica_missed_it(new_cluster: Clusters) -> None:
    cluster, s3 = three_nodes(new_cluster)
    keys = {node: [key(s3) for _ in range(4)] for node in NODES}
    for at in itertools.chain(*keys.values()):
        put(s3, at, b"null")
        versioning(s3, at, "Enabled")
        put(s3, at, b"version")
        s3.delete_object(**at, **NULL)
        versioning(s3, at, "Suspended")
    for node, ats in keys.items():
        missed_by(cluster, node, partial(for_all, ats, lambda at: s3.delete_object(**at)))
        for at in ats:
            versioning(s3, at, "Enabled")
            put(s3, at, b"above")
            assert s3.delete_object(**at, **NULL)["VersionId"] == "null"
    for _ in range(2):
        replicate_objects(cluster)
    for at in itertools.chain(*keys.values()):
        assert ("DeleteMarkers", "null", False) not in listed(s3, at), at


@pytest.mark.parametrize("below", [False, True])
def test_a_lock_of_the_null_version_that_is_current(new_cluster: Clusters, below: bool) -> None:
    """A replica missed an overwrite: the lock must not keep there what was overwritten."""
    cluster, s3 = three_nodes(new_cluster)
    keys = {node: [key(s3) for _ in range(4)] for node in NODES}
    for at in itertools.chain(*keys.values()):
        if below:
            versioning(s3, at, "Enabled")
            put(s3, at, b"version")
            versioning(s3, at, "Suspended")
        put(s3, at, b"first")
    for node, ats in keys.items():
        missed_by(cluster, node, partial(for_all, ats, lambda at: put(s3, at, b"second")))
        for at in ats:
            versioning(s3, at, "Enabled")
            lock = {"ObjectLockEnabled": "Enabled"}
            s3.put_object_lock_configuration(Bucket=at["Bucket"], ObjectLockConfiguration=lock)
            s3.put_object_legal_hold(**at, LegalHold={"Status": "ON"})
    for _ in range(2):
        replicate_objects(cluster)
    account = Account(cluster.port).path.rsplit("/", 1)[-1]
    replicas = ObjectReplicas(cluster)
    for at in itertools.chain(*keys.values()):
        primaries, _ = replicas.of(account, at["Bucket"], at["Key"])
        assert len({(found.timestamp, found.etag) for found in primaries}) == 1, (at, primaries)
        assert body(s3, at) == b"second"
        assert s3.get_object_legal_hold(**at)["LegalHold"] == {"Status": "ON"}


@pytest.mark.parametrize("above", [False, True])
def test_a_lock_keeps_what_it_was_meant_for(new_cluster: Clusters, above: bool) -> None:
    """A replica missed an overwrite; a lock of the older version there must not undo it."""
    cluster, s3 = three_nodes(new_cluster)
    keys = {node: [key(s3) for _ in range(4)] for node in NODES}
    for at in itertools.chain(*keys.values()):
        put(s3, at, b"first")
        versioning(s3, at, "Enabled")
        put(s3, at, b"second")
        versioning(s3, at, "Suspended")
    for node, ats in keys.items():
        missed_by(cluster, node, partial(for_all, ats, lambda at: put(s3, at, b"third")))
        for at in ats:
            versioning(s3, at, "Enabled")
            lock = {"ObjectLockEnabled": "Enabled"}
            s3.put_object_lock_configuration(Bucket=at["Bucket"], ObjectLockConfiguration=lock)
            if above:
                put(s3, at, b"fourth")
            s3.put_object_legal_hold(**at, **NULL, LegalHold={"Status": "ON"})
    for _ in range(2):
        replicate_objects(cluster)
    for at in itertools.chain(*keys.values()):
        assert b"third" in read_all(s3, at), (at, read_all(s3, at))


def test_the_parts_of_another_version_stay(new_cluster: Clusters) -> None:
    """A replica still has an upload as the null version, which has got an id elsewhere."""
    cluster, s3 = three_nodes(new_cluster)
    keys = {node: [key(s3) for _ in range(8)] for node in NODES}
    for at in itertools.chain(*keys.values()):
        put_upload(s3, at, b"upload")
        versioning(s3, at, "Enabled")
        put(s3, at, b"second")
        versioning(s3, at, "Suspended")
    failed = 0
    for node, ats in keys.items():
        missed_by(cluster, node, partial(for_all, ats, lambda at: put(s3, at, b"third")))
        for at in ats:
            try:
                s3.delete_object(**at, **NULL)
            except s3.exceptions.ClientError:
                failed += 1
    for _ in range(2):
        replicate_objects(cluster)
    for at in itertools.chain(*keys.values()):
        assert {b"second", b"upload"} <= set(read_all(s3, at)), (at, read_all(s3, at))
    assert failed == 0


@pytest.mark.parametrize("how", ["plain", "conditional", "many"])
def test_an_upload_that_is_current_again_keeps_its_parts(cluster: RunningCluster, how: str) -> None:
    """Where versioning is suspended, a DELETE keeps it under its time, so it must be readable."""
    s3 = s3_client(cluster.port)
    at = key(s3)
    put_upload(s3, at, b"upload")
    versioning(s3, at, "Enabled")
    s3.delete_object(**at, VersionId=put(s3, at, b"second"))
    versioning(s3, at, "Suspended")
    if how == "plain":
        s3.delete_object(**at)
    elif how == "conditional":
        s3.delete_object(**at, IfMatch=s3.head_object(**at)["ETag"])
    else:
        s3.delete_objects(Bucket=at["Bucket"], Delete={"Objects": [{"Key": "k"}]})
    assert read_all(s3, at) in ([], [b"upload"])


def test_who_may_read_and_remove_it(cluster: RunningCluster, account: Account) -> None:
    """Once it is not current, it is a version like others: for owners."""
    s3 = s3_client(cluster.port)
    member = s3_client(cluster.port, "test:tester3", "testing3")
    at = key(s3)
    put(s3, at, b"overwritten")
    versioning(s3, at, "Enabled")
    second = put(s3, at, b"second")
    put(s3, at, b"third")
    acl = {"X-Container-Read": "test:tester3", "X-Container-Write": "test:tester3"}
    assert account.call("POST", at["Bucket"], headers=acl).status == 204
    assert body(member, at) == b"third"
    assert body(member, at, VersionId=second) == b"AccessDenied"
    assert body(member, at, **NULL) == b"AccessDenied"
    with pytest.raises(s3.exceptions.ClientError, match="AccessDenied"):
        member.delete_object(**at, **NULL)


@pytest.mark.parametrize("status", ["Enabled", "Suspended"])
def test_a_removal_at_a_hand_off_hides_no_other_version(new_cluster: Clusters, status: str) -> None:
    """The hand-off knows the removal, which is later than the version, and nothing else."""
    cluster, s3 = three_nodes(new_cluster)
    keys = [key(s3) for _ in range(4)]
    removed = []
    for at in keys:
        versioning(s3, at, "Enabled")
        removed.append(put(s3, at, b"removed"))
        versioning(s3, at, status)
        put(s3, at, b"current")
    with frozen(cluster.pid_of("object-server-node3")):
        for at, version in zip(keys, removed, strict=True):
            s3.delete_object(**at, VersionId=version)
            s3.put_object_tagging(**at, Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
            assert body(s3, at) == b"current"
    for at in keys:
        assert s3.get_object_tagging(**at)["TagSet"] == [{"Key": "a", "Value": "b"}]

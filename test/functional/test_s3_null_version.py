"""The null version keeps the id null when versions lie above it, with boto3."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError
from null_versions import NULL, body, listed, put, versioning
from object_replicas import replicate_objects
from running_cluster import RunningCluster, await_true
from s3_client import s3_client
from swift_api import Account

_numbers = itertools.count(1)
PART = 5 << 20


@pytest.fixture
def s3(cluster: RunningCluster) -> Any:
    """The client of test:tester."""
    return s3_client(cluster.port)


@pytest.fixture
def at(s3: Any) -> dict[str, str]:
    """A key of a new bucket, written before versioning was enabled."""
    name = f"null-version-{next(_numbers)}-{os.getpid()}"
    s3.create_bucket(Bucket=name)
    at = {"Bucket": name, "Key": "k"}
    s3.put_object(**at, Body=b"first", Metadata={"a": "b"}, Tagging="t=1")
    versioning(s3, at, "Enabled")
    return at


def is_empty(s3: Any, at: dict[str, str]) -> bool:
    return listed(s3, at) == []


def code_of(call: Any, **arguments: Any) -> tuple[int, str]:
    """The status and the code of a refusal."""
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    response = caught.value.response
    return response["ResponseMetadata"]["HTTPStatusCode"], str(response["Error"]["Code"])


def time_id(account: Account, at: dict[str, str]) -> str:
    """The id that the null version has in Swift's API, once it is not current."""
    query: dict[str, Any] = {"versions": "true", "format": "json", "prefix": at["Key"]}
    return str(account.call("GET", at["Bucket"], **query).json[-1]["version_id"])


def test_reads_of_the_null_version(s3: Any, at: dict[str, str], account: Account) -> None:
    second = put(s3, at, b"second")
    assert listed(s3, at) == [("Versions", second, True), ("Versions", "null", False)]
    assert body(s3, at) == b"second"
    got, head = s3.get_object(**at, **NULL), s3.head_object(**at, **NULL)
    assert got["Body"].read() == b"first"
    for answer in (got, head):
        assert (answer["VersionId"], answer["Metadata"]) == ("null", {"a": "b"})
    assert s3.get_object(**at, **NULL, Range="bytes=1-2")["Body"].read() == b"ir"
    tags = s3.get_object_tagging(**at, **NULL)
    assert (tags["VersionId"], tags["TagSet"]) == ("null", [{"Key": "t", "Value": "1"}])
    attributes = s3.get_object_attributes(**at, **NULL, ObjectAttributes=["ObjectSize"])
    assert (attributes["VersionId"], attributes["ObjectSize"]) == ("null", 5)
    assert len(s3.get_object_acl(**at, **NULL)["Grants"]) == 1

    source = {**at, **NULL}
    copied = s3.copy_object(Bucket=at["Bucket"], Key="copy", CopySource=source)
    assert copied["CopySourceVersionId"] == "null"
    assert body(s3, {**at, "Key": "copy"}) == b"first"
    s3.copy_object(
        Bucket=at["Bucket"], Key="copy", CopySource=source, ChecksumAlgorithm="SHA256"
    )  # the body goes through the proxy
    assert body(s3, {**at, "Key": "copy"}) == b"first"
    code = (501, "NotImplemented")  # as for other old versions
    assert code_of(s3.put_object_tagging, **at, **NULL, Tagging={"TagSet": []}) == code

    # Clients of earlier releases know the id of its time, as Swift's API does.
    known = time_id(account, at)
    assert body(s3, at, VersionId=known) == b"first"
    assert s3.head_object(**at, VersionId=known)["VersionId"] == known
    null: dict[str, Any] = {"version-id": "null"}
    assert account.call("GET", at["Bucket"], "k", **null).status == 404


def test_the_null_version_is_removed_alone(s3: Any, at: dict[str, str], account: Account) -> None:
    second = put(s3, at, b"second")
    removed = s3.delete_object(**at, **NULL)
    assert (removed["VersionId"], removed.get("DeleteMarker")) == ("null", None)
    assert listed(s3, at) == [("Versions", second, True)]
    assert body(s3, at) == b"second"
    assert s3.head_object(**at)["VersionId"] == second
    assert code_of(s3.get_object, **at, **NULL)[0] == 404
    assert s3.delete_object(**at, **NULL)["VersionId"] == "null"  # there is none any more
    assert listed(s3, at) == [("Versions", second, True)]
    assert body(s3, at) == b"second"
    assert account.call("GET", at["Bucket"], "k").body == b"second"

    other = {**at, "Key": "never"}
    s3.delete_object(**other, **NULL)
    assert listed(s3, other) == []
    version = put(s3, other, b"never null")
    assert s3.delete_object(**other, **NULL)["VersionId"] == "null"
    assert listed(s3, other) == [("Versions", version, True)]
    assert body(s3, other) == b"never null"


def test_the_id_of_its_time_removes_it(s3: Any, at: dict[str, str], account: Account) -> None:
    second = put(s3, at, b"second")
    s3.delete_object(**at, VersionId=time_id(account, at))
    assert listed(s3, at) == [("Versions", second, True)]
    assert code_of(s3.get_object, **at, **NULL)[0] == 404


def test_a_delete_marker_above_it(s3: Any, at: dict[str, str]) -> None:
    marker = s3.delete_object(**at)["VersionId"]
    assert listed(s3, at) == [("DeleteMarkers", marker, True), ("Versions", "null", False)]
    assert body(s3, at, **NULL) == b"first"
    assert s3.delete_object(**at, **NULL)["VersionId"] == "null"
    assert listed(s3, at) == [("DeleteMarkers", marker, True)]
    assert code_of(s3.get_object, **at)[0] == 404
    s3.delete_object(**at, VersionId=marker)
    assert listed(s3, at) == []
    s3.delete_bucket(Bucket=at["Bucket"])


def test_it_is_current_again_with_another_id(s3: Any, at: dict[str, str], account: Account) -> None:
    """The removal of all that lies above it, one by one; clients that know it as null find it."""
    ids = [put(s3, at, b"%d" % number) for number in range(2)]
    ids.append(s3.delete_object(**at)["VersionId"])
    known = time_id(account, at)
    modified = s3.head_object(**at, **NULL)["LastModified"]
    while ids:
        s3.delete_object(**at, VersionId=ids.pop())
    assert listed(s3, at) == [("Versions", known, True)]
    assert body(s3, at) == body(s3, at, **NULL) == body(s3, at, VersionId=known) == b"first"
    assert s3.head_object(**at)["VersionId"] == known
    assert s3.head_object(**at, **NULL)["VersionId"] == "null"
    assert s3.head_object(**at)["LastModified"] == modified
    assert [row["Key"] for row in s3.list_objects_v2(Bucket=at["Bucket"])["Contents"]] == ["k"]
    assert account.call("GET", at["Bucket"], "k").headers["x-object-version-id"] == known

    s3.put_object_tagging(**at, **NULL, Tagging={"TagSet": [{"Key": "t", "Value": "2"}]})
    assert s3.get_object_tagging(**at)["TagSet"] == [{"Key": "t", "Value": "2"}]
    assert account.call("POST", at["Bucket"], "k", headers={"X-Object-Meta-C": "d"}).status == 202
    assert s3.head_object(**at, **NULL)["Metadata"] == {"c": "d"}

    third = put(s3, at, b"third")
    assert listed(s3, at) == [("Versions", third, True), ("Versions", known, False)]
    assert code_of(s3.get_object, **at, **NULL)[0] == 404
    s3.delete_object(**at, VersionId=third)
    assert s3.delete_object(**at, VersionId=known)["VersionId"] == known
    assert listed(s3, at) == []
    s3.delete_bucket(Bucket=at["Bucket"])


@pytest.mark.parametrize("count", [1, 3])
def test_a_bucket_is_emptied_version_by_version(s3: Any, at: dict[str, str], count: int) -> None:
    """The ids are those of one listing, the newest first; what is left is current each time."""
    for number in range(count):
        put(s3, at, b"%d" % number)
    s3.delete_object(**at)
    for _, version, _ in listed(s3, at):
        assert s3.delete_object(**at, VersionId=version)["VersionId"] == version
    assert listed(s3, at) == []
    s3.delete_bucket(Bucket=at["Bucket"])


def test_a_bucket_is_emptied_at_once(s3: Any, at: dict[str, str]) -> None:
    for key in ("k", "k2", "k3"):
        if key != "k":
            versioning(s3, at, "Suspended")
            put(s3, {**at, "Key": key}, b"null")
            versioning(s3, at, "Enabled")
        for number in range(3):
            put(s3, {**at, "Key": key}, b"%d" % number)
    rows = s3.list_object_versions(Bucket=at["Bucket"])["Versions"]
    doomed = [{"Key": row["Key"], "VersionId": row["VersionId"]} for row in rows]
    assert [one["VersionId"] for one in doomed].count("null") == 3
    assert len(s3.delete_objects(Bucket=at["Bucket"], Delete={"Objects": doomed})["Deleted"]) == 12
    s3.delete_bucket(Bucket=at["Bucket"])


@pytest.mark.parametrize("suspended", [True, False])
def test_the_current_null_version_is_removed(s3: Any, at: dict[str, str], suspended: bool) -> None:
    """The newest version that is left becomes current."""
    if not suspended:
        assert s3.delete_object(**at, **NULL)["VersionId"] == "null"
        assert listed(s3, at) == []
        return
    second = put(s3, at, b"second")
    versioning(s3, at, "Suspended")
    put(s3, at, b"third")
    _, two, (_, kept, _) = listed(s3, at)
    assert two == ("Versions", second, False)
    assert body(s3, at, VersionId=kept) == b"first"  # Amazon replaces this one
    assert body(s3, at, **NULL) == body(s3, at) == b"third"
    s3.delete_object(**at, **NULL)
    assert listed(s3, at) == [("Versions", second, True), ("Versions", kept, False)]
    assert body(s3, at) == b"second"
    assert code_of(s3.get_object, **at, **NULL)[0] == 404


def test_suspended_writes_replace_the_current_null_version(s3: Any, at: dict[str, str]) -> None:
    versioning(s3, at, "Suspended")
    put(s3, at, b"second")
    assert listed(s3, at) == [("Versions", "null", True)]
    assert body(s3, at, **NULL) == b"second"
    versioning(s3, at, "Enabled")
    third = put(s3, at, b"third")
    assert listed(s3, at) == [("Versions", third, True), ("Versions", "null", False)]
    assert body(s3, at, **NULL) == b"second"


def test_parallel_deletes_leave_nothing(s3: Any, at: dict[str, str], cluster: Any) -> None:
    """The null version becomes current, and gets an id, while a client deletes it as null."""
    clients = [s3_client(cluster.port) for _ in range(3)]
    for number in range(30):
        name = {**at, "Key": f"k{number}"}
        versioning(s3, at, "Suspended")
        put(s3, name, b"null")
        versioning(s3, at, "Enabled")
        ids = [put(s3, name, b"second"), put(s3, name, b"third")]
        versions = [ids[1], ids[0], "null"]

        def remove(client: Any, version: str, name: dict[str, str] = name) -> str:
            return str(client.delete_object(**name, VersionId=version)["VersionId"])

        with ThreadPoolExecutor(3) as pool:
            assert list(pool.map(remove, clients, versions)) == versions
        await_true(partial(is_empty, s3, name), f"an empty listing of {name}")


def test_many_deletes_name_it(s3: Any, at: dict[str, str]) -> None:
    second = put(s3, at, b"second")
    other = {**at, "Key": "k2"}
    version = put(s3, other, b"x")
    objects = [{"Key": "k", **NULL}, {"Key": "k2", **NULL}, {"Key": "k2", "VersionId": version}]
    done = s3.delete_objects(Bucket=at["Bucket"], Delete={"Objects": objects})
    assert "Errors" not in done
    assert sorted((row["Key"], row["VersionId"]) for row in done["Deleted"]) == sorted(
        (row["Key"], row["VersionId"]) for row in objects
    )
    assert listed(s3, at) == [("Versions", second, True)]
    assert body(s3, at) == b"second"


def test_pages_of_versions(s3: Any, at: dict[str, str]) -> None:
    """Each page begins behind a marker, which may be null."""
    names = ["k", "k1", "k2"]
    for name in names[1:]:
        versioning(s3, at, "Suspended")
        put(s3, {**at, "Key": name}, b"null")
    versioning(s3, at, "Enabled")
    expected = []
    for name in names:
        ids = [put(s3, {**at, "Key": name}, b"%d" % number) for number in range(2)]
        expected += [(name, ids[1], True), (name, ids[0], False), (name, "null", False)]
    for size in (1, 2, 3, 4):
        found: list[tuple[str, str, bool]] = []
        marker: dict[str, str] = {}
        while True:
            page = s3.list_object_versions(Bucket=at["Bucket"], MaxKeys=size, **marker)
            found += [(r["Key"], r["VersionId"], r["IsLatest"]) for r in page["Versions"]]
            if not page["IsTruncated"]:
                break
            marker = {
                "KeyMarker": page["NextKeyMarker"],
                "VersionIdMarker": page["NextVersionIdMarker"],
            }
            assert (marker["KeyMarker"], marker["VersionIdMarker"]) == found[-1][:2]
        assert found == expected


def test_an_upload_that_is_the_null_version(s3: Any) -> None:
    """Its parts are read by its id."""
    bucket = f"null-upload-{os.getpid()}"
    s3.create_bucket(Bucket=bucket)
    at = {"Bucket": bucket, "Key": "k"}
    upload = {**at, "UploadId": s3.create_multipart_upload(**at)["UploadId"]}
    parts = [
        {"PartNumber": n, "ETag": s3.upload_part(**upload, PartNumber=n, Body=data)["ETag"]}
        for n, data in ((1, b"x" * PART), (2, b"end"))
    ]
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    versioning(s3, at, "Enabled")
    second = put(s3, at, b"second")
    got = s3.get_object(**at, **NULL, PartNumber=2)
    assert (got["Body"].read(), got["PartsCount"]) == (b"end", 2)
    assert body(s3, at, **NULL) == b"x" * PART + b"end"
    wanted = ["ObjectParts", "ObjectSize"]
    attributes = s3.get_object_attributes(**at, **NULL, ObjectAttributes=wanted)
    assert attributes["ObjectParts"]["TotalPartsCount"] == 2
    begun = s3.create_multipart_upload(Bucket=bucket, Key="copy")
    copy = {"Bucket": bucket, "Key": "copy", "UploadId": begun["UploadId"], "PartNumber": 1}
    source = {**at, **NULL}
    copied = s3.upload_part_copy(
        **copy, CopySource=source, CopySourceRange=f"bytes={PART}-{PART + 2}"
    )
    assert copied["CopySourceVersionId"] == "null"
    del copy["PartNumber"]
    s3.abort_multipart_upload(**copy)

    assert s3.delete_object(**at, **NULL)["VersionId"] == "null"
    assert listed(s3, at) == [("Versions", second, True)]
    assert body(s3, at) == b"second"


def test_locks_of_the_null_version(s3: Any, at: dict[str, str]) -> None:
    second = put(s3, at, b"second")
    configuration = {"ObjectLockEnabled": "Enabled"}
    s3.put_object_lock_configuration(Bucket=at["Bucket"], ObjectLockConfiguration=configuration)
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1000)
    retention = {"Mode": "GOVERNANCE", "RetainUntilDate": until}
    s3.put_object_retention(**at, **NULL, Retention=retention)
    s3.put_object_legal_hold(**at, **NULL, LegalHold={"Status": "ON"})
    assert s3.get_object_retention(**at, **NULL)["Retention"] == retention
    assert s3.get_object_legal_hold(**at, **NULL)["LegalHold"] == {"Status": "ON"}
    head = s3.head_object(**at, **NULL)
    assert (head["ObjectLockMode"], head["ObjectLockLegalHoldStatus"]) == ("GOVERNANCE", "ON")
    assert "ObjectLockMode" not in s3.head_object(**at)
    refused = (403, "AccessDenied")
    assert code_of(s3.delete_object, **at, **NULL) == refused
    assert code_of(s3.delete_object, **at, **NULL, BypassGovernanceRetention=True) == refused
    s3.put_object_legal_hold(**at, **NULL, LegalHold={"Status": "OFF"})
    assert code_of(s3.delete_object, **at, **NULL) == refused
    assert body(s3, at, **NULL) == b"first"
    removed = s3.delete_object(**at, **NULL, BypassGovernanceRetention=True)
    assert removed["VersionId"] == "null"
    assert listed(s3, at) == [("Versions", second, True)]
    assert body(s3, at) == b"second"


@pytest.mark.parametrize("missed", ["removal", "removal and version", "removal before a write"])
def test_a_replica_that_missed_the_removal(
    new_cluster: Callable[..., RunningCluster], missed: str
) -> None:
    """The null version does not come back, and nothing else goes."""
    cluster = new_cluster("--nodes", "3", "--no-background").start().await_writes()
    s3, at = s3_client(cluster.port), {"Bucket": "missed", "Key": "k"}
    s3.create_bucket(Bucket="missed")
    put(s3, at, b"first")
    versioning(s3, at, "Enabled")
    away = cluster.pid_of("object-server-node3")
    if missed == "removal and version":
        os.kill(away, signal.SIGSTOP)
    second = put(s3, at, b"second")
    os.kill(away, signal.SIGSTOP)
    try:
        assert s3.delete_object(**at, **NULL)["VersionId"] == "null"
        assert listed(s3, at) == [("Versions", second, True)]
    finally:
        os.kill(away, signal.SIGCONT)
    expected = [("Versions", second, True)]
    if missed != "removal":
        versioning(s3, at, "Suspended")
        put(s3, at, b"third")
        expected = [("Versions", "null", True), ("Versions", second, False)]
    for _ in range(2):
        replicate_objects(cluster)
    await_true(lambda: listed(s3, at) == expected, "the listing")
    for _ in range(6):  # of any replica
        assert body(s3, at, VersionId=second) == b"second"
        assert body(s3, at) == (b"second" if missed == "removal" else b"third")

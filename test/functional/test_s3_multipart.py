"""Multipart uploads and versions by the S3 API, through real processes."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from other_proxy import OtherProxy
from running_cluster import RunningCluster
from s3_client import s3_client
from swift_api import Account

from cluster.confs import PIPELINE

_numbers = itertools.count(1)
PART = os.urandom(1 << 20) * 5


@pytest.fixture
def s3(cluster: RunningCluster) -> Any:
    """The client of test:tester."""
    return s3_client(cluster.port)


@pytest.fixture
def bucket(s3: Any) -> str:
    """A new bucket of that user."""
    name = f"parts-{next(_numbers)}-{os.getpid()}"
    s3.create_bucket(Bucket=name)
    return name


def code_of(caught: pytest.ExceptionInfo[ClientError]) -> str:
    return str(caught.value.response["Error"]["Code"])


def begin(s3: Any, bucket: str, bodies: list[bytes]) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Start an upload of ``big`` and upload the parts; return what names it, and the parts."""
    created = s3.create_multipart_upload(
        Bucket=bucket, Key="big", ContentType="text/x", Metadata={"a_b": "1"}
    )
    target = {"Bucket": bucket, "Key": "big", "UploadId": created["UploadId"]}
    parts = []
    for number, body in enumerate(bodies, 1):
        etag = s3.upload_part(**target, PartNumber=number, Body=body)["ETag"]
        parts.append({"PartNumber": number, "ETag": etag})
    return target, parts


@pytest.fixture
def impatient(cluster: RunningCluster, tmp_path: Path) -> Iterator[Any]:
    """A client of a proxy that sends white space at once; ``bodies`` has those of its answers."""
    section = {"use": "egg:martlet#s3api", "yield_frequency": "0.001"}
    with OtherProxy(cluster, tmp_path, PIPELINE, {"filter:s3api": section}) as proxy:
        client = s3_client(proxy.port)
        client.bodies = []

        def keep(response_dict: dict[str, Any], **_: Any) -> None:
            client.bodies.append(response_dict["body"])

        client.meta.events.register("before-parse.s3", keep)
        yield client


def test_long_copies_and_completions_keep_the_connection_open(impatient: Any, bucket: str) -> None:
    target, parts = begin(impatient, bucket, [PART, b"end"])
    wrong = [{**parts[0], "ETag": '"' + "0" * 32 + '"'}, parts[1]]
    with pytest.raises(ClientError) as caught:
        complete(impatient, target, wrong)
    assert code_of(caught) == "InvalidPart"
    assert complete(impatient, target, parts)["ETag"].endswith('-2"')
    source = {"Bucket": bucket, "CopySource": f"{bucket}/big"}
    copied = impatient.copy_object(**source, Key="copy", ChecksumAlgorithm="SHA256")
    assert copied["CopyObjectResult"]["ChecksumSHA256"]
    assert b"?>\n  " in impatient.bodies[-1]
    again = {"Bucket": bucket, "Key": "again"}
    again["UploadId"] = impatient.create_multipart_upload(**again)["UploadId"]
    part = impatient.upload_part_copy(**again, PartNumber=1, CopySource=f"{bucket}/big")
    complete(impatient, again, [{"PartNumber": 1, "ETag": part["CopyPartResult"]["ETag"]}])
    for key in ("big", "copy", "again"):
        assert impatient.get_object(Bucket=bucket, Key=key)["Body"].read() == PART + b"end"
    with pytest.raises(ClientError) as caught:
        impatient.copy_object(Bucket=bucket, Key="x", CopySource=f"{bucket}/absent")
    assert code_of(caught) == "NoSuchKey"


def complete(s3: Any, target: dict[str, str], parts: list[dict[str, Any]]) -> Any:
    return s3.complete_multipart_upload(**target, MultipartUpload={"Parts": parts})


def test_parts_become_an_object(s3: Any, bucket: str, account: Account) -> None:
    target, parts = begin(s3, bucket, [PART, b"end"])
    assert [u["UploadId"] for u in s3.list_multipart_uploads(Bucket=bucket)["Uploads"]] == [
        target["UploadId"]
    ]
    listed = s3.list_parts(**target, MaxParts=1)
    assert ([p["PartNumber"] for p in listed["Parts"]], listed["IsTruncated"]) == ([1], True)
    etag = complete(s3, target, parts)["ETag"]
    md5s = b"".join(hashlib.md5(body).digest() for body in (PART, b"end"))
    assert etag == f'"{hashlib.md5(md5s).hexdigest()}-2"'
    assert complete(s3, target, parts)["ETag"] == etag  # again, as after a lost answer
    head = s3.head_object(Bucket=bucket, Key="big", IfMatch=etag)
    assert (head["ETag"], head["ContentLength"]) == (etag, len(PART) + 3)
    assert (head["ContentType"], head["Metadata"]) == ("text/x", {"a_b": "1"})
    assert s3.get_object(Bucket=bucket, Key="big", PartNumber=2)["Body"].read() == b"end"
    row = s3.list_objects_v2(Bucket=bucket)["Contents"][0]
    assert (row["ETag"], row["Size"]) == (etag, len(PART) + 3)
    assert account.call("GET", bucket, "big").body == PART + b"end"
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)
    s3.delete_object(Bucket=bucket, Key="big")
    with pytest.raises(ClientError, match="404"):
        s3.head_object(Bucket=bucket, Key="big")


def test_wrong_parts_make_no_object(s3: Any, bucket: str) -> None:
    target, parts = begin(s3, bucket, [b"small", b"end"])
    wrong = [{"PartNumber": 1, "ETag": '"00000000000000000000000000000000"'}]
    for listed, code in (
        (parts, "EntityTooSmall"),
        (wrong, "InvalidPart"),
        ([{**parts[0], "PartNumber": 7}], "InvalidPart"),
        (parts[::-1], "InvalidPartOrder"),
        ([parts[0], parts[0]], "InvalidPartOrder"),
    ):
        with pytest.raises(ClientError) as caught:
            complete(s3, target, listed)
        assert code_of(caught) == code
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
    complete(s3, target, parts[1:])  # one part may be small
    assert s3.get_object(Bucket=bucket, Key="big")["Body"].read() == b"end"
    with pytest.raises(ClientError) as caught:
        complete(s3, target, parts[:1])  # another object than the one it became
    assert code_of(caught) == "NoSuchUpload"


def test_an_aborted_upload_is_gone(s3: Any, bucket: str, account: Account) -> None:
    target, parts = begin(s3, bucket, [b"a", b"b"])
    s3.abort_multipart_upload(**target)
    assert account.call("GET", f"{bucket}+segments").body == b""
    calls: list[Callable[[], Any]] = [
        lambda: s3.upload_part(**target, PartNumber=1, Body=b"x"),
        lambda: complete(s3, target, parts),
        lambda: s3.list_parts(**target),
        lambda: s3.abort_multipart_upload(**target),
    ]
    for call in calls:
        with pytest.raises(ClientError) as caught:
            call()
        assert code_of(caught) == "NoSuchUpload"
    s3.delete_bucket(Bucket=bucket)


def test_parts_may_be_copies(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="source", Body=b"0123456789")
    target, _ = begin(s3, bucket, [])
    source = {"Bucket": bucket, "Key": "source"}
    copied = s3.upload_part_copy(
        **target, PartNumber=1, CopySource=source, CopySourceRange="bytes=2-4"
    )["CopyPartResult"]
    for wrong in ("bytes=2-", "bytes=4-2", "bytes=5-10", "2-4"):
        with pytest.raises(ClientError) as caught:
            s3.upload_part_copy(**target, PartNumber=1, CopySource=source, CopySourceRange=wrong)
        assert code_of(caught) == "InvalidArgument"
    complete(s3, target, [{"PartNumber": 1, "ETag": copied["ETag"]}])
    assert s3.get_object(Bucket=bucket, Key="big")["Body"].read() == b"234"


def test_versions(s3: Any, bucket: str, account: Account) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"0")
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)
    for status in ("Suspended", "Enabled"):
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})
        assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == status
    ids = [s3.put_object(Bucket=bucket, Key="k", Body=b"%d" % n)["VersionId"] for n in (1, 2, 3)]
    for number, version in enumerate(ids, 1):
        got = s3.get_object(Bucket=bucket, Key="k", VersionId=version)
        assert (got["Body"].read(), got["VersionId"]) == (b"%d" % number, version)
    marker = s3.delete_object(Bucket=bucket, Key="k")
    assert marker["DeleteMarker"] is True
    for arguments, code in (
        ({}, "NoSuchKey"),
        ({"VersionId": marker["VersionId"]}, "MethodNotAllowed"),
        ({"VersionId": "1.0"}, "NoSuchVersion"),
    ):
        with pytest.raises(ClientError) as caught:
            s3.get_object(Bucket=bucket, Key="k", **arguments)
        assert code_of(caught) == code
    pages = s3.get_paginator("list_object_versions").paginate(
        Bucket=bucket, PaginationConfig={"PageSize": 2}
    )
    found = [row["VersionId"] for page in pages for row in page.get("Versions", [])]
    assert found[:3] == ids[::-1]
    assert len(found) == 4  # and the one from before
    with pytest.raises(ClientError) as caught:
        s3.delete_bucket(Bucket=bucket)
    assert code_of(caught) == "BucketNotEmpty"
    # Each time the newest that is left becomes current; through Swift's API as well.
    s3.delete_object(Bucket=bucket, Key="k", VersionId=marker["VersionId"])
    assert account.call("GET", bucket, "k").body == b"3"
    s3.delete_object(Bucket=bucket, Key="k", VersionId=ids[2])
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"2"
    doomed = [{"Key": "k", "VersionId": version} for version in (*ids[:2], found[3])]
    assert len(s3.delete_objects(Bucket=bucket, Delete={"Objects": doomed})["Deleted"]) == 3
    s3.delete_bucket(Bucket=bucket)


def test_the_version_below_a_deleted_upload_is_current(s3: Any, bucket: str) -> None:
    state = {"Status": "Enabled"}
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=state)
    at = {"Bucket": bucket, "Key": "big"}
    first = s3.put_object(**at, Body=b"first")["VersionId"]
    uploads = [complete(s3, *begin(s3, bucket, [b"part"]))["VersionId"] for _ in range(2)]
    s3.delete_object(**at, VersionId=uploads[0])
    assert s3.head_object(**at)["VersionId"] == uploads[1]
    s3.delete_object(**at, VersionId=uploads[1])
    (row,) = s3.list_object_versions(Bucket=bucket)["Versions"]
    assert (row["VersionId"], row["IsLatest"]) == (first, True)
    assert s3.get_object(**at)["Body"].read() == b"first"


def test_the_parts_of_a_version_stay(s3: Any, bucket: str, account: Account) -> None:
    """Where versioning is suspended, only the null version is gone with a DELETE without an id."""

    def upload() -> Any:
        named, parts = begin(s3, bucket, [b"whole"])
        return complete(s3, named, parts)

    def versioning(status: str) -> None:
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})

    def stored() -> int:
        return len(account.call("GET", f"{bucket}+segments").body.split())

    at = {"Bucket": bucket, "Key": "big"}
    for condition in (False, True):
        versioning("Enabled")
        done = upload()
        versioning("Suspended")
        before = stored()
        s3.delete_object(**at, **({"IfMatch": done["ETag"]} if condition else {}))
        assert stored() == before
        version = {"VersionId": done["VersionId"]}
        assert s3.get_object(**at, **version)["Body"].read() == b"whole"
        done = upload()
        assert stored() == before + 1
        deleted = s3.delete_object(**at, **({"IfMatch": done["ETag"]} if condition else {}))
        assert (deleted["DeleteMarker"], deleted["VersionId"]) == (True, "null")
        (marker,) = s3.list_object_versions(Bucket=bucket)["DeleteMarkers"]
        assert (marker["VersionId"], marker["IsLatest"]) == ("null", True)


def test_a_link_to_a_large_object_is_deleted_alone(s3: Any, bucket: str, account: Account) -> None:
    complete(s3, *begin(s3, bucket, [b"one"]))
    link = {"X-Symlink-Target": f"{bucket}/big"}
    assert account.call("PUT", bucket, "link", headers=link).status == 201
    s3.delete_object(Bucket=bucket, Key="link")
    assert [row["Key"] for row in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["big"]
    assert s3.get_object(Bucket=bucket, Key="big")["Body"].read() == b"one"

"""Encryption by the server (SSE-S3) through S3, with the filter that encrypts, in a cluster."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from hashlib import md5
from typing import Any

import pytest
from botocore.exceptions import ClientError
from disk_search import content, on_disk
from other_proxy import OtherProxy
from running_cluster import RunningCluster
from s3_client import new_bucket, s3_client

PIPELINE = (
    "catch_errors gatekeeper healthcheck proxy-logging cache listing_formats s3api tempauth copy "
    "slo dlo versioned_writes symlink keymaster encryption proxy-logging proxy-server"
)
SECTIONS = {
    "filter:keymaster": {
        "use": "egg:martlet#keymaster",
        "encryption_root_secret": b64encode(bytes(range(32))).decode(),
    },
    "filter:encryption": {"use": "egg:martlet#encryption"},
    "filter:s3api": {"use": "egg:martlet#s3api", "allow_customer_keys_over_http": "yes"},
}
ASKED = {"ServerSideEncryption": "AES256"}


@pytest.fixture(scope="module")
def port(cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a proxy that encrypts, unlike the cluster's own."""
    with OtherProxy(cluster, tmp_path_factory.mktemp("sse"), PIPELINE, SECTIONS) as proxy:
        yield proxy.port


@pytest.fixture(scope="module")
def s3(port: int) -> Any:
    """A client of that proxy."""
    return s3_client(port)


@pytest.fixture
def bucket(s3: Any) -> str:
    """A new bucket."""
    return new_bucket(s3)


def read(s3: Any, **named: Any) -> bytes:
    """The body of an encrypted object, or of a part of it."""
    found = s3.get_object(**named)
    assert found["ServerSideEncryption"] == "AES256"
    return bytes(found["Body"].read())


@pytest.mark.parametrize("size", [1, 70_000, 3 << 20])
def test_objects(cluster: RunningCluster, s3: Any, bucket: str, size: int) -> None:
    body, word = content(size)
    named, etag = {"Bucket": bucket, "Key": "k"}, f'"{md5(body).hexdigest()}"'
    for asked in (ASKED, {}):  # all objects are encrypted
        put = s3.put_object(**named, Body=body, Metadata={"a": word.decode()}, **asked)
        assert (put["ETag"], put["ServerSideEncryption"]) == (etag, "AES256")
    assert read(s3, **named) == body
    assert read(s3, **named, Range=f"bytes={size // 3}-") == body[size // 3 :]
    head = s3.head_object(**named, IfMatch=etag, ChecksumMode="ENABLED")
    assert (head["ETag"], head["ServerSideEncryption"]) == (etag, "AES256")
    assert (head["ContentLength"], head["Metadata"]) == (size, {"a": word.decode()})
    assert head["ChecksumCRC32"] == put["ChecksumCRC32"]
    assert s3.list_objects_v2(Bucket=bucket)["Contents"][0]["ETag"] == etag
    with pytest.raises(ClientError, match="PreconditionFailed"):
        s3.put_object(**named, Body=b"", IfMatch='"' + "0" * 32 + '"')
    copied = s3.copy_object(Bucket=bucket, Key="copy", CopySource=f"{bucket}/k", **ASKED)
    assert copied["ServerSideEncryption"] == "AES256"
    assert copied["CopyObjectResult"]["ETag"] == etag
    assert read(s3, Bucket=bucket, Key="copy") == body
    assert on_disk(cluster, word) == []
    s3.put_object(**named, Body=body, StorageClass="STANDARD_IA")
    listed = {row["Key"]: row for row in s3.list_objects_v2(Bucket=bucket)["Contents"]}
    classes = {key: row["StorageClass"] for key, row in listed.items()}
    assert classes == {"copy": "STANDARD", "k": "STANDARD_IA"}
    assert {row["ETag"] for row in listed.values()} == {etag}


def test_no_checksum_tells_of_an_encrypted_body(port: int, bucket: str) -> None:
    """System metadata is not encrypted, so only what the client states is stored."""
    s3 = s3_client(port, request_checksum_calculation="when_required")
    named = {"Bucket": bucket, "Key": "k"}
    own = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": b"k" * 32}
    for key in ({}, own):
        s3.put_object(**named, Body=b"secret", **key)
        assert "ChecksumType" not in s3.head_object(**named, ChecksumMode="ENABLED", **key)
    upload = {**named, "UploadId": s3.create_multipart_upload(**named)["UploadId"]}
    etag = s3.upload_part(**upload, PartNumber=1, Body=b"secret")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    assert "ChecksumType" not in s3.complete_multipart_upload(**upload, MultipartUpload=parts)


def test_a_copy_that_is_encrypted_hides_the_checksum(
    cluster: RunningCluster, port: int, bucket: str
) -> None:
    plain, s3 = (
        s3_client(each, request_checksum_calculation="when_required")
        for each in (cluster.port, port)
    )
    source, there = {"CopySource": f"{bucket}/k"}, {"Bucket": bucket, "Key": "copy"}
    own = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": b"k" * 32}
    for algorithm, is_kept in (("", False), ("SHA256", True)):
        more = {"ChecksumAlgorithm": algorithm} if algorithm else {}
        plain.put_object(Bucket=bucket, Key="k", Body=b"secret", **more)
        for key in ({}, own):
            result = s3.copy_object(**there, **source, **key)["CopyObjectResult"]
            assert ("ChecksumSHA256" in result) == is_kept
            head = s3.head_object(**there, ChecksumMode="ENABLED", **key)
            assert ("ChecksumType" in head) == is_kept
        upload = {**there, "UploadId": s3.create_multipart_upload(**there)["UploadId"]}
        part = s3.upload_part_copy(**upload, **source, PartNumber=1)["CopyPartResult"]
        assert ("ChecksumSHA256" in part) == is_kept
        assert "ChecksumCRC64NVME" not in part


def test_multipart_uploads(cluster: RunningCluster, s3: Any, bucket: str) -> None:
    first, word = content((5 << 20) + 3)
    bodies = [first, content(100_000)[0]]
    named = {"Bucket": bucket, "Key": "k"}
    begun = s3.create_multipart_upload(**named, **ASKED, Metadata={"a": word.decode()})
    assert begun["ServerSideEncryption"] == "AES256"
    upload, parts = {**named, "UploadId": begun["UploadId"]}, []
    for number, body in enumerate(bodies, 1):
        part = s3.upload_part(**upload, PartNumber=number, Body=body)
        assert part["ServerSideEncryption"] == "AES256"
        assert part["ETag"] == f'"{md5(body).hexdigest()}"'
        parts.append({"PartNumber": number, "ETag": part["ETag"]})
    listed = s3.list_parts(**upload)["Parts"]
    assert [(p["ETag"], p["Size"]) for p in listed] == [
        (part["ETag"], len(body)) for part, body in zip(parts, bodies, strict=True)
    ]
    done = s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    joined = b"".join(md5(body).digest() for body in bodies)
    assert done["ETag"] == f'"{md5(joined).hexdigest()}-2"'
    assert done["ServerSideEncryption"] == "AES256"
    whole, edge = b"".join(bodies), len(first)
    assert read(s3, **named) == whole
    assert read(s3, **named, Range=f"bytes={edge - 9}-{edge + 8}") == whole[edge - 9 : edge + 9]
    assert read(s3, **named, PartNumber=2) == bodies[1]
    assert s3.head_object(**named)["ETag"] == done["ETag"]
    assert s3.list_objects_v2(Bucket=bucket)["Contents"][0]["ETag"] == done["ETag"]
    assert on_disk(cluster, word) == []


def test_versions_and_customer_keys(cluster: RunningCluster, s3: Any, bucket: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    named = {"Bucket": bucket, "Key": "k"}
    body, word = content(1000)
    ids = [s3.put_object(**named, Body=b, **ASKED)["VersionId"] for b in (body, b"second")]
    assert read(s3, **named, VersionId=ids[0]) == body
    etags = {v["VersionId"]: v["ETag"] for v in s3.list_object_versions(Bucket=bucket)["Versions"]}
    assert etags[ids[0]] == f'"{md5(body).hexdigest()}"'
    own = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": b"k" * 32}
    s3.put_object(**named, Body=body, **own)
    found = s3.get_object(**named, **own)
    assert (found["Body"].read(), found["SSECustomerAlgorithm"]) == (body, "AES256")
    assert "ServerSideEncryption" not in found
    assert on_disk(cluster, word) == []


def test_settings_of_buckets_and_plain_objects(
    cluster: RunningCluster, s3: Any, bucket: str
) -> None:
    rules = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}
    s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration=rules)
    found = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
    assert [rule["ApplyServerSideEncryptionByDefault"] for rule in found] == [
        {"SSEAlgorithm": "AES256"}
    ]
    named = {"Bucket": bucket, "Key": "k"}
    with pytest.raises(ClientError, match="NotImplemented"):
        s3.put_object(**named, Body=b"x", ServerSideEncryption="aws:kms")
    # Written through a proxy that does not encrypt.
    s3_client(cluster.port).put_object(**named, Body=b"plain")
    plain = s3.get_object(**named)
    assert (plain["Body"].read(), "ServerSideEncryption" in plain) == (b"plain", False)

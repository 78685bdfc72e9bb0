"""The S3 API through real processes, with boto3 and with requests that no client would send."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
from typing import Any

import pytest
from botocore.exceptions import ClientError
from running_cluster import RunningCluster
from s3_client import KEY, USER, ask, new_bucket, s3_client, send, sign
from swift_api import Account

from cluster.ports import HOST

_numbers = itertools.count(1)
MIB = 1 << 20
BOMB = b"""<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<Delete><Object><Key>&b;</Key></Object></Delete>"""


@pytest.fixture
def s3(cluster: RunningCluster) -> Any:
    """The client of test:tester."""
    return s3_client(cluster.port)


@pytest.fixture
def bucket(s3: Any) -> str:
    """A new bucket of that user."""
    name = f"bucket-{next(_numbers)}-{os.getpid()}"
    s3.create_bucket(Bucket=name)
    return name


def code_of(caught: pytest.ExceptionInfo[ClientError]) -> str:
    return str(caught.value.response["Error"]["Code"])


def keys_of(page: dict[str, Any]) -> list[str]:
    return [row["Key"] for row in page.get("Contents", [])]


def test_both_apis_serve_the_same_objects(s3: Any, bucket: str, account: Account) -> None:
    put = s3.put_object(
        Bucket=bucket,
        Key="a dir/b+ü",
        Body=b"from S3",
        ContentType="text/x",
        Metadata={"Color": "blue", "under_score": "1"},
    )
    assert put["ETag"] == f'"{hashlib.md5(b"from S3").hexdigest()}"'
    answer = account.call("GET", bucket, "a dir/b+ü")
    assert (answer.status, answer.body) == (200, b"from S3")
    assert answer.headers["content-type"] == "text/x"
    assert answer.headers["x-object-meta-color"] == "blue"
    headers = {"X-Object-Meta-Taste": "sour", "Content-Type": "text/y"}
    assert account.call("PUT", bucket, "swift", body=b"from Swift", headers=headers).status == 201
    got = s3.get_object(Bucket=bucket, Key="swift")
    assert (got["Body"].read(), got["ContentType"]) == (b"from Swift", "text/y")
    assert got["Metadata"] == {"taste": "sour"}
    assert s3.head_object(Bucket=bucket, Key="a dir/b+ü")["Metadata"] == {
        "color": "blue",
        "under_score": "1",
    }
    assert keys_of(s3.list_objects_v2(Bucket=bucket)) == ["a dir/b+ü", "swift"]
    assert bucket in [row["Name"] for row in s3.list_buckets()["Buckets"]]
    s3.delete_object(Bucket=bucket, Key="swift")
    assert account.call("GET", bucket, "swift").status == 404


def test_a_bucket_is_made_once_and_deleted_empty(s3: Any, bucket: str) -> None:
    with pytest.raises(ClientError) as caught:
        s3.create_bucket(Bucket=bucket)
    assert code_of(caught) == "BucketAlreadyOwnedByYou"
    s3.put_object(Bucket=bucket, Key="k", Body=b"")
    with pytest.raises(ClientError) as caught:
        s3.delete_bucket(Bucket=bucket)
    assert code_of(caught) == "BucketNotEmpty"
    s3.delete_object(Bucket=bucket, Key="k")
    s3.delete_object(Bucket=bucket, Key="k")  # there is none any more: no error
    assert s3.get_bucket_location(Bucket=bucket)["LocationConstraint"] is None
    s3.delete_bucket(Bucket=bucket)
    with pytest.raises(ClientError) as caught:
        s3.head_bucket(Bucket=bucket)
    assert code_of(caught) == "404"


@pytest.mark.parametrize(
    ("user", "key", "code"),
    [(USER, "wrong", "SignatureDoesNotMatch"), ("test:nobody", KEY, "InvalidAccessKeyId")],
)
def test_wrong_credentials(cluster: RunningCluster, user: str, key: str, code: str) -> None:
    for version in ("s3v4", "s3"):
        client = s3_client(cluster.port, user, key, signature_version=version)
        with pytest.raises(ClientError) as caught:
            client.list_buckets()
        assert code_of(caught) == code


def test_signatures_of_version_2(cluster: RunningCluster) -> None:
    s3 = s3_client(cluster.port, signature_version="s3")
    bucket = new_bucket(s3)
    s3.put_object(Bucket=bucket, Key="a b", Body=b"x")
    assert s3.get_object(Bucket=bucket, Key="a b")["Body"].read() == b"x"
    assert keys_of(s3.list_objects_v2(Bucket=bucket)) == ["a b"]
    s3.get_bucket_location(Bucket=bucket)
    s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "a b"}]})
    s3.delete_bucket(Bucket=bucket)


def test_buckets_are_those_of_the_account(cluster: RunningCluster, bucket: str) -> None:
    other = s3_client(cluster.port, "test2:tester2", "testing2")
    with pytest.raises(ClientError) as caught:
        other.list_objects_v2(Bucket=bucket)
    assert code_of(caught) == "NoSuchBucket"
    unprivileged = s3_client(cluster.port, "test:tester3", "testing3")
    with pytest.raises(ClientError) as caught:
        unprivileged.list_objects_v2(Bucket=bucket)
    assert code_of(caught) == "AccessDenied"


def test_a_body_that_is_not_the_signed_one_is_not_stored(
    cluster: RunningCluster, s3: Any, bucket: str
) -> None:
    for size in (5, 3 * MIB):
        url = f"http://{HOST}:{cluster.port}/{bucket}/k"
        headers = sign("PUT", url, {}, b"a" * size)
        answer = send(cluster.port, "PUT", url, headers, b"b" * size)
        assert (answer.status, answer.code) == (400, "XAmzContentSHA256Mismatch")
        headers = {"Content-MD5": "1B2M2Y8AsgTpgAmY7PhCfg=="}
        answer = ask(cluster.port, "PUT", f"/{bucket}/k", headers, b"b" * size)
        assert (answer.status, answer.code) == (400, "BadDigest")
        headers = {"x-amz-checksum-crc32": "AAAAAA=="}
        answer = ask(cluster.port, "PUT", f"/{bucket}/k", headers, b"b" * size)
        assert (answer.status, answer.code) == (400, "BadDigest")
        url = f"http://{HOST}:{cluster.port}/{bucket}/k"
        answer = send(cluster.port, "PUT", url, sign("PUT", url, {}, b"a"))
        assert (answer.status, answer.code) == (400, "XAmzContentSHA256Mismatch")
    assert keys_of(s3.list_objects_v2(Bucket=bucket)) == []


def test_checksums_are_kept(s3: Any, bucket: str) -> None:
    known = set(s3.meta.service_model.shape_for("ChecksumAlgorithm").enum)
    assert len(known) >= 10
    for name in known - {"MD5"}:  # boto3 does not make it
        at, member = {"Bucket": bucket, "Key": name}, f"Checksum{name}"
        put = s3.put_object(**at, Body=b"x" * 100_000, ChecksumAlgorithm=name)
        got = s3.get_object(**at, ChecksumMode="ENABLED")
        assert got[member] == put[member]
        assert len(got["Body"].read()) == 100_000  # boto3 compares the checksum


def test_a_trailing_checksum_is_kept(cluster: RunningCluster, s3: Any, bucket: str) -> None:
    data = b"123456789"
    body = b"9\r\n%s\r\n0\r\nx-amz-checksum-crc32:%%s\r\n\r\n" % data
    headers = {
        "x-amz-decoded-content-length": "9",
        "x-amz-trailer": "x-amz-checksum-crc32",
        "content-encoding": "aws-chunked,gzip",
    }
    url = f"http://{HOST}:{cluster.port}/{bucket}/k"
    for value, status in ((b"AAAAAA==", 400), (b"y/Q5Jg==", 200)):
        request = sign("PUT", url, headers, has_trailer=True)
        answer = send(cluster.port, "PUT", url, request, body % value)
        assert answer.status == status, answer
    got = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert got["Body"].read() == data
    assert (got["ChecksumCRC32"], got["ContentEncoding"]) == ("y/Q5Jg==", "gzip")


@pytest.mark.parametrize("version", ["s3v4", "s3"])
def test_presigned_urls(cluster: RunningCluster, bucket: str, version: str) -> None:
    client = s3_client(cluster.port, signature_version=version)
    target = {"Bucket": bucket, "Key": "ü k"}
    url = client.generate_presigned_url("put_object", target)
    assert send(cluster.port, "PUT", url, {}, b"signed").status == 200
    url = client.generate_presigned_url(
        "get_object", {**target, "ResponseContentType": "text/z"}, ExpiresIn=60
    )
    answer = send(cluster.port, "GET", url, {})
    assert (answer.status, answer.body) == (200, b"signed")
    assert answer.headers["content-type"] == "text/z"
    assert send(cluster.port, "DELETE", url, {}).code == "SignatureDoesNotMatch"
    assert send(cluster.port, "GET", f"{url}&versionId=1", {}).code == "SignatureDoesNotMatch"
    if version == "s3":  # of version 4, a URL that has expired is no request of any client
        url = client.generate_presigned_url("get_object", target, ExpiresIn=-10)
        assert send(cluster.port, "GET", url, {}).code == "AccessDenied"


def test_the_bucket_may_be_in_the_host(cluster: RunningCluster, s3: Any, bucket: str) -> None:
    url = f"http://{bucket}.localhost:{cluster.port}/k"
    assert send(cluster.port, "PUT", url, sign("PUT", url, {}, b"v"), b"v").status == 200
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"v"
    answer = send(cluster.port, "GET", url, {"Host": f"{bucket}.localhost:{cluster.port}"})
    assert (answer.status, answer.code) == (403, "AccessDenied")  # without a signature


def test_listings_in_pages(s3: Any, bucket: str) -> None:
    names = ["a", "b/1", "b/2", "c&<>", "d/1", "é/1"]
    for name in names:
        s3.put_object(Bucket=bucket, Key=name, Body=b"")
    assert keys_of(s3.list_objects(Bucket=bucket)) == names
    for operation in ("list_objects", "list_objects_v2"):
        pages = s3.get_paginator(operation).paginate(
            Bucket=bucket, Delimiter="/", PaginationConfig={"PageSize": 1}
        )
        found: list[str] = []
        for page in pages:
            found += keys_of(page)
            found += [prefix["Prefix"] for prefix in page.get("CommonPrefixes", [])]
        assert found == ["a", "b/", "c&<>", "d/", "é/"]
    page = s3.list_objects_v2(Bucket=bucket, StartAfter="b/1", Prefix="b/", MaxKeys=1)
    assert (keys_of(page), page["IsTruncated"], page["KeyCount"]) == (["b/2"], False, 1)
    assert s3.list_objects_v2(Bucket=bucket, MaxKeys=0)["IsTruncated"] is False


def test_ranges_and_conditions(s3: Any, bucket: str) -> None:
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"0123456789")["ETag"]
    got = s3.get_object(Bucket=bucket, Key="k", Range="bytes=2-4")
    assert (got["Body"].read(), got["ContentRange"]) == (b"234", "bytes 2-4/10")
    head = s3.head_object(Bucket=bucket, Key="k", Range="bytes=-3")
    assert (head["ContentLength"], head["ContentRange"]) == (3, "bytes 7-9/10")
    wrong = '"0123"'
    for arguments, code in (
        ({"Range": "bytes=10-"}, "InvalidRange"),
        ({"IfMatch": wrong}, "PreconditionFailed"),
        ({"IfNoneMatch": etag}, "304"),
        ({"PartNumber": 2}, "InvalidPartNumber"),
    ):
        with pytest.raises(ClientError) as caught:
            s3.get_object(Bucket=bucket, Key="k", **arguments)
        assert code_of(caught) == code
    assert s3.get_object(Bucket=bucket, Key="k", IfMatch=etag)["ETag"] == etag
    for arguments, code in (
        ({"IfNoneMatch": "*"}, "PreconditionFailed"),
        ({"IfMatch": wrong}, "PreconditionFailed"),
    ):
        with pytest.raises(ClientError) as caught:
            s3.put_object(Bucket=bucket, Key="k", Body=b"new", **arguments)
        assert code_of(caught) == code
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"0123456789"
    assert s3.put_object(Bucket=bucket, Key="new", Body=b"", IfNoneMatch="*")["ETag"]
    with pytest.raises(ClientError) as caught:
        s3.put_object(Bucket=bucket, Key="new", Body=b"", IfNoneMatch="*")
    assert code_of(caught) == "PreconditionFailed"


def test_copies(s3: Any, bucket: str) -> None:
    source = {"Bucket": bucket, "Key": "ü"}
    s3.put_object(**source, Body=b"data", ContentType="text/x", Metadata={"a": "1"})
    s3.copy_object(Bucket=bucket, Key="same", CopySource=source)
    got = s3.get_object(Bucket=bucket, Key="same")
    assert (got["Body"].read(), got["ContentType"], got["Metadata"]) == (
        b"data",
        "text/x",
        {"a": "1"},
    )
    replace = {"MetadataDirective": "REPLACE", "Metadata": {"b": "2"}, "ContentType": "text/y"}
    s3.copy_object(**source, CopySource=source, **replace)
    got = s3.head_object(**source)
    assert (got["ContentType"], got["Metadata"]) == ("text/y", {"b": "2"})
    for arguments, code in (
        ({"CopySource": source}, "InvalidRequest"),
        ({"CopySource": source, "CopySourceIfMatch": '"1"', **replace}, "PreconditionFailed"),
        ({"CopySource": f"{bucket}/absent"}, "NoSuchKey"),
        ({"CopySource": "no-such-bucket/k"}, "NoSuchBucket"),
    ):
        with pytest.raises(ClientError) as caught:
            s3.copy_object(**source, **arguments)
        assert code_of(caught) == code


def test_storage_classes_are_kept(account: Account, s3: Any, bucket: str) -> None:
    """All classes are stored alike. Those that need a restore before a read are refused."""
    at, rare = {"Bucket": bucket, "Key": "k"}, {"StorageClass": "STANDARD_IA"}

    def shown() -> Any:
        whole = {"get": s3.get_object(**at), "head": s3.head_object(**at)}
        attributes = s3.get_object_attributes(**at, ObjectAttributes=["StorageClass"])
        names = {answer.get("StorageClass") for answer in whole.values()}
        assert {attributes["StorageClass"]} == {name or "STANDARD" for name in names}
        (row,) = s3.list_objects_v2(Bucket=bucket)["Contents"]
        (version,) = s3.list_object_versions(Bucket=bucket)["Versions"]
        for listed in (row, version):
            assert listed["StorageClass"] == attributes["StorageClass"]
            assert listed["ETag"] == whole["head"]["ETag"]
        return names.pop()

    for body in (b"", b"x", b"x" * 200_000):
        s3.put_object(**at, Body=body, **rare)
        assert shown() == "STANDARD_IA"
    (row,) = json.loads(account.call("GET", bucket, format="json").body)
    assert (row["hash"], row["s3_class"]) == (hashlib.md5(body).hexdigest(), "STANDARD_IA")
    assert account.call("POST", bucket, "k", headers={"X-Object-Meta-A": "b"}).status == 202
    assert shown() == "STANDARD_IA"
    with pytest.raises(ClientError, match="InvalidRequest"):
        s3.copy_object(**at, CopySource=at)
    for _ in range(2):
        s3.copy_object(**at, CopySource=at, StorageClass="STANDARD")
        assert shown() is None
    s3.copy_object(**at, CopySource=at, WebsiteRedirectLocation="/x")
    s3.copy_object(**at, CopySource=at, StorageClass="REDUCED_REDUNDANCY")
    assert shown() == "REDUCED_REDUNDANCY"
    s3.copy_object(**at, CopySource=at, MetadataDirective="REPLACE", **rare)
    assert shown() == "STANDARD_IA"

    upload = at | {"UploadId": s3.create_multipart_upload(**at, **rare)["UploadId"]}
    part = s3.upload_part(**upload, PartNumber=1, Body=b"part")
    assert s3.list_parts(**upload)["StorageClass"] == "STANDARD_IA"
    s3.put_object(**at, Body=b"x", StorageClass="STANDARD")
    assert shown() is None
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    s3.complete_multipart_upload(**upload, MultipartUpload=parts)
    assert shown() == "STANDARD_IA"
    for name in ("DEEP_ARCHIVE", "standard_ia"):
        with pytest.raises(ClientError, match="InvalidStorageClass"):
            s3.put_object(**at, Body=b"x", StorageClass=name)


def test_the_removal_of_a_delete_marker_says_so(s3: Any, bucket: str) -> None:
    at = {"Bucket": bucket, "Key": "k"}
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    version = s3.put_object(**at, Body=b"x")["VersionId"]
    for _ in range(2):
        markers = [s3.delete_object(**at)["VersionId"] for _ in range(2)]
        removed = s3.delete_object(**at, VersionId=markers[0])
        assert (removed["DeleteMarker"], removed["VersionId"]) == (True, markers[0])
        named = {"Objects": [{"Key": "k", "VersionId": markers[1]}]}
        (removed,) = s3.delete_objects(Bucket=bucket, Delete=named)["Deleted"]
        assert (removed["DeleteMarker"], removed["DeleteMarkerVersionId"]) == (True, markers[1])
        assert s3.get_object(**at)["Body"].read() == b"x"
    assert "DeleteMarker" not in s3.delete_object(**at, VersionId=version)


def test_many_deletes_in_one_request(cluster: RunningCluster, s3: Any, bucket: str) -> None:
    for number in range(5):
        s3.put_object(Bucket=bucket, Key=f"k<{number}>", Body=b"")
    doomed = [{"Key": f"k<{number}>"} for number in range(4)]
    done = s3.delete_objects(Bucket=bucket, Delete={"Objects": [*doomed, {"Key": "absent"}]})
    assert [row["Key"] for row in done["Deleted"]] == [*(row["Key"] for row in doomed), "absent"]
    assert "Errors" not in done
    assert keys_of(s3.list_objects(Bucket=bucket)) == ["k<4>"]
    md5 = {"Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA=="}
    assert ask(cluster.port, "POST", f"/{bucket}?delete", md5, BOMB).code == "BadDigest"
    assert ask(cluster.port, "POST", f"/{bucket}?delete", {}, BOMB).code == "InvalidRequest"


def test_quotas_hold(s3: Any, bucket: str, account: Account) -> None:
    quota = {"X-Container-Meta-Quota-Bytes": "10"}
    assert account.call("POST", bucket, headers=quota).status == 204
    s3.put_object(Bucket=bucket, Key="k", Body=b"0123456789")
    with pytest.raises(ClientError) as caught:
        s3.put_object(Bucket=bucket, Key="l", Body=b"0")
    assert code_of(caught) == "EntityTooLarge"


def test_public_buckets(s3: Any, bucket: str, account: Account, cluster: RunningCluster) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"public")
    url = f"http://{HOST}:{cluster.port}{account.url(bucket, 'k')}"
    assert send(cluster.port, "GET", url, {}).status == 401
    s3.put_bucket_acl(Bucket=bucket, ACL="public-read")
    assert send(cluster.port, "GET", url, {}).body == b"public"
    grants = s3.get_bucket_acl(Bucket=bucket)["Grants"]
    assert [grant["Permission"] for grant in grants] == ["FULL_CONTROL", "READ"]
    s3.put_bucket_acl(Bucket=bucket, ACL="private")
    assert send(cluster.port, "GET", url, {}).status == 401


def test_what_is_missing_says_so(cluster: RunningCluster, bucket: str) -> None:
    for method, path in (
        ("PUT", f"/{bucket}?replication"),
        ("POST", f"/{bucket}/k?restore"),
        ("POST", f"/{bucket}/k?select&select-type=2"),
    ):
        answer = ask(cluster.port, method, path, {}, b"<x/>")
        assert (answer.status, answer.code) == (501, "NotImplemented"), path
    headers = {"x-amz-write-offset-bytes": "1"}
    answer = ask(cluster.port, "PUT", f"/{bucket}/k", headers, b"x")
    assert answer.code == "NotImplemented"


def test_what_cannot_be_set_is_absent(s3: Any, bucket: str) -> None:
    absent = {
        "get_bucket_cors": "NoSuchCORSConfiguration",
        "get_bucket_encryption": "ServerSideEncryptionConfigurationNotFoundError",
        "get_bucket_lifecycle_configuration": "NoSuchLifecycleConfiguration",
        "get_bucket_ownership_controls": "OwnershipControlsNotFoundError",
        "get_bucket_policy": "NoSuchBucketPolicy",
        "get_bucket_policy_status": "NoSuchBucketPolicy",
        "get_bucket_replication": "ReplicationConfigurationNotFoundError",
        "get_bucket_website": "NoSuchWebsiteConfiguration",
        "get_object_lock_configuration": "ObjectLockConfigurationNotFoundError",
        "get_public_access_block": "NoSuchPublicAccessBlockConfiguration",
    }
    for name, code in absent.items():
        for named, expected in ((bucket, code), ("no-such-bucket", "NoSuchBucket")):
            with pytest.raises(ClientError) as caught:
                getattr(s3, name)(Bucket=named)
            assert code_of(caught) == expected
    assert "LoggingEnabled" not in s3.get_bucket_logging(Bucket=bucket)
    assert "QueueConfigurations" not in s3.get_bucket_notification_configuration(Bucket=bucket)
    assert "Status" not in s3.get_bucket_accelerate_configuration(Bucket=bucket)
    payment = {"Bucket": bucket, "RequestPaymentConfiguration": {"Payer": "BucketOwner"}}
    s3.put_bucket_request_payment(**payment)
    assert s3.get_bucket_request_payment(Bucket=bucket)["Payer"] == "BucketOwner"
    payment["RequestPaymentConfiguration"] = {"Payer": "Requester"}
    with pytest.raises(ClientError) as caught:
        s3.put_bucket_request_payment(**payment)
    assert code_of(caught) == "NotImplemented"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/Not_A_Bucket", b"", 400, "InvalidBucketName"),
        ("GET", "/{bucket}/%FF", b"", 400, "InvalidURI"),
        ("GET", "/{bucket}/absent", b"", 404, "NoSuchKey"),
        ("GET", "/no-such-bucket/k", b"", 404, "NoSuchBucket"),
        ("PUT", "/no-such-bucket/k", b"x", 404, "NoSuchBucket"),
        ("PUT", "/{bucket}/" + "k" * 1025, b"x", 400, "KeyTooLongError"),
        ("GET", "/{bucket}?max-keys=x", b"", 400, "InvalidArgument"),
        ("GET", "/{bucket}?list-type=2&continuation-token=%21", b"", 400, "InvalidArgument"),
        ("GET", "/{bucket}?versions&version-id-marker=1", b"", 400, "InvalidArgument"),
        ("GET", "/{bucket}/k?versionId=x", b"", 400, "InvalidArgument"),
        ("PUT", "/{bucket}?versioning", BOMB, 400, "MalformedXML"),
        ("PUT", "/{bucket}?versioning", b"x" * 20000, 400, "MaxMessageLengthExceeded"),
        ("PUT", "/{bucket}?acl", b"<AccessControlPolicy/>", 400, "MalformedACLError"),
        ("PUT", "/{bucket}/k?uploadId=a%2Fb&partNumber=1", b"", 404, "NoSuchUpload"),
        ("PUT", "/{bucket}/k?uploadId=a&partNumber=0", b"", 400, "InvalidArgument"),
        ("POST", "/", b"", 405, "MethodNotAllowed"),
        ("PATCH", "/{bucket}", b"", 405, "MethodNotAllowed"),
    ],
)
def test_bad_requests(
    cluster: RunningCluster,
    bucket: str,
    method: str,
    path: str,
    body: bytes,
    status: int,
    code: str,
) -> None:
    answer = ask(cluster.port, method, path.format(bucket=bucket), {}, body)
    assert (answer.status, answer.code) == (status, code), answer
    assert answer.headers["content-type"] == "application/xml"
    assert answer.headers["x-amz-request-id"].encode() in answer.body
    if method == "GET":
        head = ask(cluster.port, "HEAD", path.format(bucket=bucket))
        assert head.body == b""


def test_a_file_of_many_parts_comes_back(s3: Any, bucket: str) -> None:
    data = os.urandom(MIB) * 17
    s3.upload_fileobj(io.BytesIO(data), bucket, "file")
    assert s3.head_object(Bucket=bucket, Key="file")["ETag"].endswith('-3"')
    received = io.BytesIO()
    s3.download_fileobj(bucket, "file", received)
    assert received.getvalue() == data

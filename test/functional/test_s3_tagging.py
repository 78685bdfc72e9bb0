"""Tags of objects and buckets by the S3 API, through real processes."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from running_cluster import RunningCluster
from s3_client import new_bucket, s3_client


@pytest.fixture
def s3(cluster: RunningCluster) -> Any:
    return s3_client(cluster.port)


@pytest.fixture
def bucket(s3: Any) -> str:
    return new_bucket(s3)


def refused(call: Any, **arguments: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    return str(caught.value.response["Error"]["Code"])


def tag_set(**tags: str) -> dict[str, Any]:
    return {"TagSet": [{"Key": key, "Value": value} for key, value in tags.items()]}


def tags_of(s3: Any, bucket: str, key: str, **version: str) -> dict[str, str]:
    found = s3.get_object_tagging(Bucket=bucket, Key=key, **version)["TagSet"]
    return {tag["Key"]: tag["Value"] for tag in found}


def test_tags_change_and_nothing_else_does(s3: Any, bucket: str) -> None:
    at = {"Bucket": bucket, "Key": "k"}
    kept = {"ContentType": "text/x", "CacheControl": "no-cache", "Metadata": {"a_b": "1"}}
    s3.put_object(**at, Body=b"x", Tagging="a=1&b=%C3%BC", **kept)
    before = s3.head_object(**at)
    assert tags_of(s3, bucket, "k") == {"a": "1", "b": "ü"}
    assert s3.get_object(**at)["TagCount"] == 2
    s3.put_object_tagging(**at, Tagging=tag_set(c="2"))
    assert tags_of(s3, bucket, "k") == {"c": "2"}
    after = s3.head_object(**at)
    for name in ("ETag", "ContentType", "CacheControl", "Metadata", "ContentLength"):
        assert after[name] == before[name]
    s3.delete_object_tagging(**at)
    assert tags_of(s3, bucket, "k") == {}
    assert "TagCount" not in s3.get_object(**at)
    assert refused(s3.put_object_tagging, Bucket=bucket, Key="no", Tagging=tag_set()) == "NoSuchKey"
    assert refused(s3.get_object_tagging, Bucket=bucket, Key="no") == "NoSuchKey"
    many = tag_set(**{f"k{number}": "" for number in range(11)})
    assert refused(s3.put_object_tagging, **at, Tagging=many) == "BadRequest"
    assert refused(s3.put_object, **at, Body=b"", Tagging="aws:x=1") == "InvalidTag"
    assert s3.get_object(**at)["Body"].read() == b"x"


def test_copies_take_tags_along(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="a", Body=b"x", Tagging="a=1")
    source = {"Bucket": bucket, "CopySource": f"{bucket}/a"}
    s3.copy_object(**source, Key="b")
    assert tags_of(s3, bucket, "b") == {"a": "1"}
    s3.copy_object(**source, Key="c", MetadataDirective="REPLACE")
    assert tags_of(s3, bucket, "c") == {"a": "1"}
    s3.copy_object(**source, Key="d", TaggingDirective="REPLACE", Tagging="b=2")
    assert tags_of(s3, bucket, "d") == {"b": "2"}
    s3.copy_object(**source, Key="e", TaggingDirective="REPLACE")
    assert tags_of(s3, bucket, "e") == {}


def test_uploads_and_versions(s3: Any, bucket: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    at = {"Bucket": bucket, "Key": "k"}
    upload = s3.create_multipart_upload(**at, Tagging="a=1")["UploadId"]
    part = s3.upload_part(**at, UploadId=upload, PartNumber=1, Body=b"x")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    first = s3.complete_multipart_upload(**at, UploadId=upload, MultipartUpload=parts)["VersionId"]
    assert tags_of(s3, bucket, "k") == {"a": "1"}
    answer = s3.put_object_tagging(**at, VersionId=first, Tagging=tag_set(b="2"))
    assert answer["VersionId"] == first
    second = s3.put_object(**at, Body=b"y")["VersionId"]
    assert tags_of(s3, bucket, "k", VersionId=first) == {"b": "2"}
    assert tags_of(s3, bucket, "k", VersionId=second) == {}
    assert s3.get_object(**at, VersionId=first)["Body"].read() == b"x"
    late = {"VersionId": first, "Tagging": tag_set(c="3")}
    assert refused(s3.put_object_tagging, **at, **late) == "NotImplemented"
    s3.delete_object(**at, VersionId=second)
    s3.put_object_tagging(**at, **late)  # it is current again
    assert tags_of(s3, bucket, "k") == {"c": "3"}


def test_buckets(s3: Any, bucket: str) -> None:
    assert refused(s3.get_bucket_tagging, Bucket=bucket) == "NoSuchTagSet"
    s3.put_bucket_tagging(Bucket=bucket, Tagging=tag_set(a="1", b="ü"))
    found = s3.get_bucket_tagging(Bucket=bucket)["TagSet"]
    assert found == tag_set(a="1", b="ü")["TagSet"]
    s3.delete_bucket_tagging(Bucket=bucket)
    assert refused(s3.get_bucket_tagging, Bucket=bucket) == "NoSuchTagSet"


def test_who_may_not_write_may_not_tag(cluster: RunningCluster, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Tagging="a=1")
    other = s3_client(cluster.port, "test:tester3", "testing3")
    arguments = {"Bucket": bucket, "Key": "k"}
    assert refused(other.get_object_tagging, **arguments) == "AccessDenied"
    assert refused(other.put_object_tagging, **arguments, Tagging=tag_set()) == "AccessDenied"
    assert refused(other.put_bucket_tagging, Bucket=bucket, Tagging=tag_set()) == "AccessDenied"
    assert tags_of(s3, bucket, "k") == {"a": "1"}

"""Lifecycle rules of S3 buckets through real processes, with a second in place of a day."""

from __future__ import annotations

import os
from typing import Any

import pytest
import requests
from botocore.exceptions import ClientError
from lifecycle_job import Job
from running_cluster import RunningCluster, await_true
from s3_client import s3_client
from swift_api import Account


def _rule(**action: Any) -> dict[str, Any]:
    return {"ID": "a rule", "Status": "Enabled", "Filter": {"Prefix": "old/"}, **action}


def _versions(s3: Any, bucket: str) -> list[tuple[str, bool]]:
    rows = _rows_of(s3, {"Bucket": bucket, "Key": ""})
    return [(row["VersionId"], row["IsLatest"]) for row in rows]


def test_rules_are_carried_out(cluster: RunningCluster, account: Account) -> None:
    s3, job = s3_client(cluster.port), Job(cluster)
    plain, versioned = (f"lifecycle-{kind}-{os.getpid()}" for kind in ("plain", "versioned"))
    for bucket in (plain, versioned):
        s3.create_bucket(Bucket=bucket)
    state = {"Status": "Enabled"}
    s3.put_bucket_versioning(Bucket=versioned, VersioningConfiguration=state)
    s3.put_object(Bucket=plain, Key="old/ü", Body=b"x")
    s3.put_object(Bucket=plain, Key="other", Body=b"x")
    upload = s3.create_multipart_upload(Bucket=plain, Key="old/upload")["UploadId"]
    named = {"Bucket": plain, "Key": "old/upload", "UploadId": upload}
    s3.upload_part(**named, PartNumber=1, Body=b"part")
    ids = [
        s3.put_object(Bucket=versioned, Key="old/k", Body=b"%d" % n)["VersionId"] for n in range(5)
    ]
    abort = {"DaysAfterInitiation": 1}
    rules = [_rule(Expiration={"Days": 1}, AbortIncompleteMultipartUpload=abort)]
    s3.put_bucket_lifecycle_configuration(Bucket=plain, LifecycleConfiguration={"Rules": rules})
    assert s3.get_bucket_lifecycle_configuration(Bucket=plain)["Rules"] == rules
    assert 'rule-id="a%20rule"' in s3.head_object(Bucket=plain, Key="old/ü")["Expiration"]
    noncurrent = {"NoncurrentDays": 1, "NewerNoncurrentVersions": 2}
    rules = [_rule(NoncurrentVersionExpiration=noncurrent)]
    s3.put_bucket_lifecycle_configuration(Bucket=versioned, LifecycleConfiguration={"Rules": rules})

    def keys() -> list[str]:
        return [row["Key"] for row in s3.list_objects_v2(Bucket=plain).get("Contents", [])]

    await_true(lambda: job.ran() and keys() == ["other"], "the expiry of an object")
    kept = [(ids[4], True), (ids[3], False), (ids[2], False)]
    await_true(lambda: job.ran() and _versions(s3, versioned) == kept, "that of old versions")
    segments = f"{plain}+segments"
    await_true(
        lambda: job.ran() and account.call("GET", segments).body == b"", "the end of the upload"
    )
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=plain)
    assert s3.get_object(Bucket=versioned, Key="old/k")["Body"].read() == b"4"
    for key in ("expired", "aborted", "parts"):
        assert job.done[key] == 1, job.done
    assert (job.done["removed"], job.done["refused"]) == (2, 0)
    s3.delete_bucket_lifecycle(Bucket=versioned)
    job.run()
    assert _versions(s3, versioned) == kept


def test_the_null_version_expires_as_others_do(cluster: RunningCluster) -> None:
    s3, job = s3_client(cluster.port), Job(cluster)
    bucket = f"lifecycle-null-{os.getpid()}"
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="old/k", Body=b"null")
    state = {"Status": "Enabled"}
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=state)
    ids = [s3.put_object(Bucket=bucket, Key="old/k", Body=b"x")["VersionId"] for _ in range(2)]
    assert _versions(s3, bucket) == [(ids[1], True), (ids[0], False), ("null", False)]
    noncurrent = {"NoncurrentDays": 1, "NewerNoncurrentVersions": 1}
    rules = {"Rules": [_rule(NoncurrentVersionExpiration=noncurrent)]}
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration=rules)
    kept = [(ids[1], True), (ids[0], False)]
    await_true(lambda: job.ran() and _versions(s3, bucket) == kept, "the end of the null version")
    with pytest.raises(ClientError, match="NoSuchKey"):
        s3.get_object(Bucket=bucket, Key="old/k", VersionId="null")

    # Once it is current again, it is none of the old ones.
    s3.delete_bucket_lifecycle(Bucket=bucket)
    at = {"Bucket": bucket, "Key": "old/null"}
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})
    s3.put_object(**at, Body=b"null")
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=state)
    s3.delete_object(**at, VersionId=s3.put_object(**at, Body=b"x")["VersionId"])
    (known,) = [row["VersionId"] for row in _rows_of(s3, at)]
    assert s3.head_object(**at)["VersionId"] == known
    rules = {"Rules": [_rule(NoncurrentVersionExpiration={"NoncurrentDays": 1})]}
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration=rules)
    await_true(
        lambda: job.ran() and (ids[0], False) not in _versions(s3, bucket), "that of the others"
    )
    assert s3.get_object(**at)["Body"].read() == b"null"
    assert [row["VersionId"] for row in _rows_of(s3, at)] == [known]


def _rows_of(s3: Any, at: dict[str, str]) -> list[dict[str, Any]]:
    page = s3.list_object_versions(Bucket=at["Bucket"], Prefix=at["Key"])
    return [*page.get("Versions", []), *page.get("DeleteMarkers", [])]


def test_each_write_tells_when_its_object_expires(cluster: RunningCluster) -> None:
    s3, bucket = s3_client(cluster.port), f"lifecycle-told-{os.getpid()}"
    s3.create_bucket(Bucket=bucket)
    condition = {"ObjectSizeGreaterThan": 3, "Tags": [{"Key": "a", "Value": "b"}]}
    rules: list[dict[str, Any]] = [
        {"ID": "long", "Status": "Enabled", "Filter": {"ObjectSizeGreaterThan": 3}},
        {"ID": "tag", "Status": "Enabled", "Filter": {"And": condition}},
    ]
    for rule, days in zip(rules, (9, 4), strict=True):
        rule["Expiration"] = {"Days": days}
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})

    def rule_of(answer: dict[str, Any]) -> str:
        return str(answer.get("Expiration", "")).partition("rule-id=")[2].strip('"')

    for body, tags, expected in (
        (b"123", "a=b", ""),
        (b"1234", "", "long"),
        (b"1234", "a=b", "tag"),
    ):
        key = {"Bucket": bucket, "Key": "k"}
        assert rule_of(s3.put_object(**key, Body=body, Tagging=tags)) == expected
        source = f"{bucket}/k"
        copy = {"Bucket": bucket, "Key": "copy"}
        assert rule_of(s3.copy_object(**copy, CopySource=source)) == expected
        other = "long" if len(body) > 3 else ""
        replaced = s3.copy_object(**copy, CopySource=source, TaggingDirective="REPLACE")
        assert rule_of(replaced) == other
        begun = s3.create_multipart_upload(**key, Tagging=tags)
        upload = {**key, "UploadId": begun["UploadId"]}
        etag = s3.upload_part(**upload, PartNumber=1, Body=body)["ETag"]
        parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
        for _ in range(2):  # also after a lost answer
            completed = s3.complete_multipart_upload(**upload, MultipartUpload=parts)
            assert rule_of(completed) == expected
        form = s3.generate_presigned_post(bucket, "form")
        posted = requests.post(
            form["url"], data=form["fields"], files={"file": ("a", body)}, timeout=60
        )
        assert rule_of({"Expiration": posted.headers.get("x-amz-expiration", "")}) == other

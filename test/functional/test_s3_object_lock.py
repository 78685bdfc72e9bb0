"""Object lock through real processes: with boto3, and attacked through Swift's API."""

from __future__ import annotations

import itertools
import os
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from running_cluster import RunningCluster, await_true
from s3_client import s3_client
from swift_api import Account

_numbers = itertools.count(1)


@pytest.fixture
def s3(cluster: RunningCluster) -> Any:
    """The client of test:tester."""
    return s3_client(cluster.port)


@pytest.fixture
def bucket(s3: Any) -> str:
    """A new bucket with object lock."""
    name = f"locked-{next(_numbers)}-{os.getpid()}"
    s3.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    return name


def refused(code: str, call: Any, **arguments: Any) -> str:
    """Make a call that must fail with this code; return the message."""
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    error = caught.value.response["Error"]
    assert error["Code"] == code, error
    return str(error["Message"])


def later(seconds: float) -> datetime:
    return datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=seconds)


def test_a_locked_version_survives_both_apis(s3: Any, bucket: str, account: Account) -> None:
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    suspended = {"Status": "Suspended"}
    refused(
        "InvalidBucketState",
        s3.put_bucket_versioning,
        Bucket=bucket,
        VersioningConfiguration=suspended,
    )
    headers = {"X-Versions-Enabled": "false", "X-Container-Sysmeta-Object-Lock": ""}
    assert account.call("POST", bucket, headers=headers).status == 409
    until = later(1000)
    put = s3.put_object(
        Bucket=bucket,
        Key="k",
        Body=b"kept",
        ObjectLockMode="COMPLIANCE",
        ObjectLockRetainUntilDate=until,
    )
    named = {"Bucket": bucket, "Key": "k", "VersionId": put["VersionId"]}
    newer = s3.put_object(Bucket=bucket, Key="k", Body=b"newer")["VersionId"]
    # Of a version that is not current, too.
    assert s3.get_object_retention(**named)["Retention"] == {
        "Mode": "COMPLIANCE",
        "RetainUntilDate": until,
    }
    message = refused("AccessDenied", s3.delete_object, **named)
    assert message == "Access Denied because object protected by object lock."
    refused("AccessDenied", s3.delete_object, **named, BypassGovernanceRetention=True)
    shorter = {"Mode": "COMPLIANCE", "RetainUntilDate": later(100)}
    refused(
        "AccessDenied",
        s3.put_object_retention,
        **named,
        Retention=shorter,
        BypassGovernanceRetention=True,
    )
    refused("NoSuchObjectLockConfiguration", s3.get_object_legal_hold, **named)

    version: dict[str, Any] = {"version-id": put["VersionId"]}
    bypass = {"X-Backend-Lock-Bypass": "true", "X-Backend-Lock-Hold": "off"}
    assert account.call("DELETE", bucket, "k", headers=bypass, **version).status == 403
    hold = {"X-Backend-Lock-Hold": "on"}
    assert account.call("POST", bucket, "k", headers=hold, **version).status == 400
    # Of the newer one. Not soon: a time that has passed at the server is refused.
    expiry = {"X-Delete-At": str(int(time.time()) + 900), "X-Object-Meta-A": "b"}
    assert account.call("POST", bucket, "k", headers=expiry).status == 202
    bulk: dict[str, Any] = {"bulk-delete": ""}
    doomed = f"{bucket}/k?version-id={put['VersionId']}".encode()
    listed = account.call("POST", body=doomed, **bulk)
    assert listed.status == 200
    assert account.call("DELETE", bucket).status == 409
    s3.delete_object(Bucket=bucket, Key="k", VersionId=newer)
    assert s3.get_object(**named)["Body"].read() == b"kept"
    head = s3.head_object(**named)
    assert (head["ObjectLockMode"], head["ObjectLockRetainUntilDate"]) == ("COMPLIANCE", until)
    versions = s3.list_object_versions(Bucket=bucket)["Versions"]
    assert [row["VersionId"] for row in versions] == [put["VersionId"]]


def test_governance_and_legal_hold(s3: Any, bucket: str) -> None:
    version = s3.put_object(Bucket=bucket, Key="k", Body=b"x")["VersionId"]
    named = {"Bucket": bucket, "Key": "k", "VersionId": version}
    refused("NoSuchObjectLockConfiguration", s3.get_object_retention, **named)
    s3.put_object_legal_hold(**named, LegalHold={"Status": "ON"})
    assert s3.get_object_legal_hold(**named)["LegalHold"] == {"Status": "ON"}
    s3.put_object_retention(
        **named, Retention={"Mode": "GOVERNANCE", "RetainUntilDate": later(1000)}
    )
    refused("AccessDenied", s3.delete_object, **named, BypassGovernanceRetention=True)
    s3.put_object_legal_hold(**named, LegalHold={"Status": "OFF"})
    refused("AccessDenied", s3.delete_object, **named)
    refused(
        "AccessDenied",
        s3.put_object_retention,
        **named,
        Retention={"Mode": "GOVERNANCE", "RetainUntilDate": later(500)},
    )
    objects = {"Objects": [{"Key": "k", "VersionId": version}]}
    errors = s3.delete_objects(Bucket=bucket, Delete=objects)["Errors"]
    assert [error["Code"] for error in errors] == ["AccessDenied"]
    done = s3.delete_objects(Bucket=bucket, Delete=objects, BypassGovernanceRetention=True)
    assert "Errors" not in done
    refused("NoSuchKey", s3.get_object, Bucket=bucket, Key="k")


def test_a_rule_of_the_bucket_and_parts(s3: Any, bucket: str, account: Account) -> None:
    rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}
    wanted = {"ObjectLockEnabled": "Enabled", "Rule": rule}
    s3.put_object_lock_configuration(Bucket=bucket, ObjectLockConfiguration=wanted)
    got = s3.get_object_lock_configuration(Bucket=bucket)["ObjectLockConfiguration"]
    assert got == wanted
    # The rule holds for writes through Swift's API.
    assert account.call("PUT", bucket, "swift", body=b"x").status == 201
    head = s3.head_object(Bucket=bucket, Key="swift")
    assert head["ObjectLockMode"] == "GOVERNANCE"
    upload = s3.create_multipart_upload(
        Bucket=bucket,
        Key="big",
        ObjectLockMode="COMPLIANCE",
        ObjectLockRetainUntilDate=later(500),
        ObjectLockLegalHoldStatus="ON",
    )
    named = {"Bucket": bucket, "Key": "big", "UploadId": upload["UploadId"]}
    part = s3.upload_part(**named, PartNumber=1, Body=b"p" * 100)
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    version = s3.complete_multipart_upload(**named, MultipartUpload=parts)["VersionId"]
    head = s3.head_object(Bucket=bucket, Key="big")
    assert (head["ObjectLockMode"], head["ObjectLockLegalHoldStatus"]) == ("COMPLIANCE", "ON")
    refused("AccessDenied", s3.delete_object, Bucket=bucket, Key="big", VersionId=version)
    name = f"big/{upload['UploadId']}/1"
    assert account.call("DELETE", f"{bucket}+segments", name).status == 403
    assert account.call("PUT", f"{bucket}+segments", name, body=b"bad").status == 403
    whole: dict[str, Any] = {"multipart-manifest": "delete", "version-id": version}
    account.call("DELETE", bucket, "big", **whole)
    hold = {"Status": "OFF"}
    s3.put_object_legal_hold(Bucket=bucket, Key="big", LegalHold=hold)
    assert account.call("DELETE", f"{bucket}+segments", name).status == 403
    assert s3.get_object(Bucket=bucket, Key="big")["Body"].read() == b"p" * 100


def test_a_lock_ends(s3: Any, bucket: str) -> None:
    named = {"Bucket": bucket, "Key": "k"}

    def is_held(seconds: float) -> bool:
        """Lock a new version; false if the lock ended before the server saw the deletion."""
        until = later(seconds)
        lock = {"ObjectLockMode": "COMPLIANCE", "ObjectLockRetainUntilDate": until}
        try:
            named["VersionId"] = s3.put_object(Bucket=bucket, Key="k", Body=b"x", **lock)[
                "VersionId"
            ]
            s3.delete_object(**named)
        except ClientError as error:
            if error.response["Error"]["Code"] == "AccessDenied":
                return True
        assert datetime.now(UTC) >= until, "a locked version is deleted"
        return False

    assert any(is_held(seconds) for seconds in (3, 10, 60))

    def is_deleted() -> bool:
        try:
            s3.delete_object(**named)
        except ClientError as error:
            return bool(error.response["Error"]["Code"] != "AccessDenied")
        return True

    await_true(is_deleted, "the lock has ended")
    refused("NoSuchVersion", s3.get_object, **named)

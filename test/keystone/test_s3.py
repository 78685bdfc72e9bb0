"""The S3 API with EC2 credentials of a real Keystone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from running_cluster import await_true
from s3_client import new_bucket, s3_client, send
from swift_api import Account

Open = Callable[..., Account]


def code_of(call: Callable[..., Any], **arguments: Any) -> str:
    """The code of the refusal, empty without one."""
    try:
        call(**arguments)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


@pytest.fixture(scope="module")
def open_s3(tenants: Any) -> Callable[..., Any]:
    """``open_s3(user, project, signature)``: a client of boto3 with a new access key."""

    def opened(user: str, project: str, version: str = "s3v4") -> Any:
        key, secret = tenants.keystone.ec2_credentials(user, project)
        return s3_client(tenants.port, key, secret, signature_version=version)

    return opened


@pytest.mark.parametrize("version", ["s3v4", "s3"])
def test_a_project_has_the_same_objects_in_both_apis(
    open_s3: Any, open_account: Open, version: str
) -> None:
    s3, account = open_s3("ann", "blue", version), open_account("ann", "blue")
    bucket = new_bucket(s3)
    for _ in range(3):  # the second time the secret is known
        s3.put_object(Bucket=bucket, Key="k", Body=b"from S3")
    assert account.call("GET", bucket, "k").body == b"from S3"
    assert bucket in [row["Name"] for row in s3.list_buckets()["Buckets"]]
    url = s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "k"})
    assert send(account.port, "GET", url, {}).body == b"from S3"


def test_roles_and_acls_hold(open_s3: Any, open_account: Open) -> None:
    s3 = open_s3("ann", "blue")
    bucket = new_bucket(s3)
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    auditor, member, stranger = (
        open_s3(*who) for who in (("rob", "blue"), ("mia", "blue"), ("eve", "red"))
    )
    named = {"Bucket": bucket, "Key": "k"}
    assert code_of(auditor.get_object, **named) == ""
    assert code_of(auditor.put_object, **named, Body=b"y") == "AccessDenied"
    assert code_of(member.get_object, **named) == "AccessDenied"
    assert code_of(stranger.get_object, **named) == "NoSuchBucket"  # its own project has none


def test_wrong_keys(open_s3: Any, tenants: Any) -> None:
    key, _ = tenants.keystone.ec2_credentials("ann", "blue")
    for version in ("s3v4", "s3"):
        wrong = s3_client(tenants.port, key, "another", signature_version=version)
        assert code_of(wrong.list_buckets) == "SignatureDoesNotMatch"
        unknown = s3_client(tenants.port, "0" * 32, "another", signature_version=version)
        assert code_of(unknown.list_buckets) == "InvalidAccessKeyId"


def test_a_key_that_was_revoked(tenants: Any) -> None:
    key, secret = tenants.keystone.ec2_credentials("ann", "blue")
    s3 = s3_client(tenants.port, key, secret)
    assert code_of(s3.list_buckets) == ""
    tenants.keystone.revoke_ec2_credentials("ann", key)
    await_true(lambda: code_of(s3.list_buckets) == "InvalidAccessKeyId", "the end of the key")

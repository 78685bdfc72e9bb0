"""Who may do what through S3: policies, for users of another account and for anybody."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError
from other_proxy import OtherProxy
from running_cluster import RunningCluster
from s3_client import s3_client
from swift_api import Account

from cluster.confs import PIPELINE
from cluster.ports import HOST

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def port(cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A proxy where buckets of other accounts are found."""
    options = {"use": "egg:martlet#s3api", "bucket_namespace": "cluster"}
    sections = {"filter:s3api": options}
    with OtherProxy(cluster, tmp_path_factory.mktemp("proxy"), PIPELINE, sections) as proxy:
        yield proxy.port


@pytest.fixture
def blue(port: int) -> Any:
    return s3_client(port)


@pytest.fixture
def red(port: int) -> Any:
    """A user of another account."""
    return s3_client(port, "test2:tester2", "testing2")


@pytest.fixture
def anonymous(port: int) -> Any:
    config = Config(
        signature_version=UNSIGNED, s3={"addressing_style": "path"}, retries={"max_attempts": 0}
    )
    url = f"http://{HOST}:{port}"
    return boto3.session.Session().client("s3", endpoint_url=url, config=config, region_name="x")


@pytest.fixture
def bucket(blue: Any) -> str:
    name = f"access-{next(_numbers)}-{os.getpid()}"
    blue.create_bucket(Bucket=name)
    blue.put_object(Bucket=name, Key="open/k", Body=b"open")
    blue.put_object(Bucket=name, Key="k", Body=b"closed")
    return name


def refused(call: Any, **arguments: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    return str(caught.value.response["Error"]["Code"])


def policy_of(bucket: str, *statements: dict[str, Any]) -> str:
    arn = f"arn:aws:s3:::{bucket}"
    named = [
        {"Effect": "Allow", "Principal": "*", **s, "Resource": arn + s.get("Resource", "/*")}
        for s in statements
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": named})


def test_a_policy_opens_a_part_of_a_bucket(
    blue: Any, red: Any, anonymous: Any, bucket: str, account: Account
) -> None:
    assert refused(blue.get_bucket_policy, Bucket=bucket) == "NoSuchBucketPolicy"
    text = policy_of(
        bucket,
        {"Action": "s3:GetObject", "Resource": "/open/*"},
        {"Action": "s3:PutObject", "Principal": {"AWS": "arn:aws:iam::AUTH_test2:user/tester2"}},
        {"Action": "s3:GetObject", "Effect": "Deny", "Resource": "/secret/*"},
    )
    blue.put_bucket_policy(Bucket=bucket, Policy=text)
    assert blue.get_bucket_policy(Bucket=bucket)["Policy"] == text
    assert blue.get_bucket_policy_status(Bucket=bucket)["PolicyStatus"]["IsPublic"] is True
    for client in (red, anonymous):
        assert client.get_object(Bucket=bucket, Key="open/k")["Body"].read() == b"open"
        assert refused(client.get_object, Bucket=bucket, Key="k") == "AccessDenied"
        assert refused(client.list_objects_v2, Bucket=bucket) == "AccessDenied"
    assert refused(anonymous.put_object, Bucket=bucket, Key="n", Body=b"x") == "AccessDenied"
    red.put_object(Bucket=bucket, Key="secret/k", Body=b"from red")
    assert refused(blue.get_object, Bucket=bucket, Key="secret/k") == "AccessDenied"
    assert account.call("GET", f"{bucket}/secret/k").status == 403
    assert account.call("GET", f"{bucket}/k").status == 200
    blue.delete_bucket_policy(Bucket=bucket)
    assert refused(anonymous.get_object, Bucket=bucket, Key="open/k") == "AccessDenied"
    assert blue.get_object(Bucket=bucket, Key="secret/k")["Body"].read() == b"from red"


def test_a_stranger_uploads_in_parts_copies_and_deletes(blue: Any, red: Any, bucket: str) -> None:
    actions = ["PutObject", "GetObject", "DeleteObject", "ListMultipartUploadParts"]
    stranger = {"AWS": "AUTH_test2"}
    text = policy_of(bucket, {"Action": [f"s3:{a}" for a in actions], "Principal": stranger})
    blue.put_bucket_policy(Bucket=bucket, Policy=text)
    assert blue.get_bucket_policy_status(Bucket=bucket)["PolicyStatus"]["IsPublic"] is False
    name = {"Bucket": bucket, "Key": "whole"}
    upload = {**name, "UploadId": red.create_multipart_upload(**name)["UploadId"]}
    part = red.upload_part(**upload, PartNumber=1, Body=b"part")
    assert len(red.list_parts(**upload)["Parts"]) == 1
    parts = [{"PartNumber": 1, "ETag": part["ETag"]}]
    red.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    assert red.get_object(**name)["Body"].read() == b"part"
    red.copy_object(Bucket=bucket, Key="copy", CopySource=f"{bucket}/whole")
    assert blue.get_object(Bucket=bucket, Key="copy")["Body"].read() == b"part"
    doomed = {"Objects": [{"Key": "whole"}, {"Key": "copy"}]}
    answer = red.delete_objects(Bucket=bucket, Delete=doomed)
    assert len(answer["Deleted"]) == 2
    assert refused(red.list_objects_v2, Bucket=bucket) == "AccessDenied"
    other = {**name, "Key": "open/k"}
    blue.put_bucket_policy(Bucket=bucket, Policy=policy_of(bucket, {
        "Action": "s3:*", "Principal": stranger, "Effect": "Deny"}))  # fmt: skip
    assert refused(red.get_object, **other) == "AccessDenied"
    assert blue.get_object(**other)["Body"].read() == b"open"


def test_acls_of_an_object_and_grants_of_a_bucket(
    blue: Any, red: Any, anonymous: Any, bucket: str
) -> None:
    name = {"Bucket": bucket, "Key": "k"}
    assert refused(anonymous.get_object, **name) == "AccessDenied"
    blue.put_object_acl(**name, ACL="public-read")
    assert anonymous.get_object(**name)["Body"].read() == b"closed"
    groups = [g["Grantee"].get("URI", "") for g in blue.get_object_acl(**name)["Grants"]]
    assert groups == ["", "http://acs.amazonaws.com/groups/global/AllUsers"]
    blue.put_object_tagging(**name, Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    assert anonymous.head_object(**name)["ContentLength"] == 6
    assert refused(anonymous.list_objects_v2, Bucket=bucket) == "AccessDenied"
    assert refused(anonymous.put_object, **name, Body=b"x") == "AccessDenied"
    blue.put_object(**name, Body=b"new", GrantRead="id=test2:tester2")
    assert red.get_object(**name)["Body"].read() == b"new"
    assert refused(anonymous.get_object, **name) == "AccessDenied"
    blue.put_bucket_acl(Bucket=bucket, GrantWrite="id=test2:tester2")
    red.put_object(Bucket=bucket, Key="from red", Body=b"x")
    assert refused(red.get_object, Bucket=bucket, Key="from red") == "AccessDenied"
    enforced = {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    controls = {"Bucket": bucket, "OwnershipControls": enforced}
    conflict = "InvalidBucketAclWithObjectOwnership"
    assert refused(blue.put_bucket_ownership_controls, **controls) == conflict
    blue.put_bucket_acl(Bucket=bucket, ACL="private")
    blue.put_bucket_ownership_controls(**controls)
    assert refused(red.get_object, **name) == "AccessDenied"


def test_bad_policies_are_refused(blue: Any, red: Any, bucket: str) -> None:
    for text in (
        "[]",
        policy_of(bucket, {"Action": "s3:Nothing"}),
        policy_of("x", {"Action": "*"}),
    ):
        assert refused(blue.put_bucket_policy, Bucket=bucket, Policy=text) == "MalformedPolicy"
    text = policy_of(bucket, {"Action": "s3:GetObject"})
    assert refused(red.put_bucket_policy, Bucket=bucket, Policy=text) == "AccessDenied"

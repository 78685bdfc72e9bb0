"""The S3 API with EC2 credentials of a real Keystone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import requests
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


def set_policy(s3: Any, bucket: str, **statement: Any) -> None:
    """Give the bucket a policy of one statement."""
    resource = [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]
    document = {"Version": "2012-10-17", "Statement": [{"Resource": resource, **statement}]}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(document))


def test_policies_name_projects_and_users(open_s3: Any, open_account: Open, tenants: Any) -> None:
    id_of = tenants.keystone.id_of
    s3 = open_s3("ann", "blue")
    bucket = new_bucket(s3)
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    account_of_red = f"AUTH_{id_of('project', 'red')}"
    mia = f"arn:aws:iam::AUTH_{id_of('project', 'blue')}:user/{id_of('user', 'mia')}"
    reads = {"Effect": "Allow", "Action": "s3:GetObject"}

    def statuses(method: str = "GET") -> dict[str, int]:
        people = {"eve": "red", "mia": "blue", "ann": "blue", "rob": "blue"}
        return {
            who: open_account(who, project, "blue").call(method, bucket, "k").status
            for who, project in people.items()
        }

    before = {"eve": 403, "mia": 403, "ann": 200, "rob": 200}
    assert statuses() == before
    set_policy(s3, bucket, **reads, Principal={"AWS": account_of_red})
    assert statuses() == {**before, "eve": 200}
    set_policy(s3, bucket, **reads, Principal={"AWS": mia})
    assert statuses() == {**before, "mia": 200}
    named = {"Bucket": bucket, "Key": "k"}
    member, auditor = open_s3("mia", "blue"), open_s3("rob", "blue")
    assert code_of(member.get_object, **named) == ""
    assert code_of(member.put_object, **named, Body=b"y") == "AccessDenied"
    condition = {"StringEquals": {"aws:username": "rob"}}
    set_policy(s3, bucket, Effect="Deny", Action="s3:GetObject", Principal="*", Condition=condition)
    assert statuses() == {**before, "rob": 403}
    assert code_of(auditor.get_object, **named) == "AccessDenied"
    # The owner cannot be locked out, and the others cannot manage the policy.
    set_policy(s3, bucket, Effect="Deny", Action="s3:*", Principal="*")
    assert code_of(s3.get_object, **named) == "AccessDenied"
    assert code_of(auditor.delete_bucket_policy, Bucket=bucket) == "AccessDenied"
    s3.delete_bucket_policy(Bucket=bucket)
    assert statuses() == before


@pytest.mark.parametrize(("version", "field"), [("s3v4", "x-amz-signature"), ("s3", "signature")])
def test_forms(open_s3: Any, open_account: Open, version: str, field: str) -> None:
    bucket = new_bucket(open_s3("ann", "blue"))
    s3 = open_s3("ann", "blue", version)  # no proxy knows this key when the form comes
    form = s3.generate_presigned_post(bucket, "up/${filename}")

    def post(fields: dict[str, str]) -> requests.Response:
        files = {"file": ("a.txt", b"from a form")}
        return requests.post(form["url"], data=fields, files=files, timeout=60)

    posted = post(form["fields"])
    assert posted.status_code == 204, posted.text
    body = open_account("ann", "blue").call("GET", bucket, "up/a.txt").body
    assert body == b"from a form"
    refused = post({**form["fields"], field: "0" * 64})
    assert (refused.status_code, "SignatureDoesNotMatch" in refused.text) == (403, True)
    for who in ("rob", "mia"):  # they may not write
        own = open_s3(who, "blue", version)
        assert code_of(own.put_object, Bucket=bucket, Key="k", Body=b"") == "AccessDenied"
        form = own.generate_presigned_post(bucket, "k")
        refused = post(form["fields"])
        assert (refused.status_code, "AccessDenied" in refused.text) == (403, True)
    assert [row["Key"] for row in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["up/a.txt"]

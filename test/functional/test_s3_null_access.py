"""Policies and ACLs about the null version of a key, when versions lie above it."""

from __future__ import annotations

import itertools
import json
import os
from typing import Any

import pytest
from null_versions import NULL, body, listed, put, versioning
from running_cluster import RunningCluster
from s3_client import s3_client

_numbers = itertools.count(1)
ACTIONS = ["s3:GetObject", "s3:GetObjectVersion", "s3:DeleteObjectVersion"]


@pytest.fixture
def s3(cluster: RunningCluster) -> Any:
    """The client of the owner."""
    return s3_client(cluster.port)


@pytest.fixture
def member(cluster: RunningCluster) -> Any:
    """A client who has no rights by itself."""
    return s3_client(cluster.port, "test:tester3", "testing3")


@pytest.fixture
def at(s3: Any) -> dict[str, str]:
    """A key of a new bucket without versioning."""
    at = {"Bucket": f"null-access-{next(_numbers)}-{os.getpid()}", "Key": "k"}
    s3.create_bucket(Bucket=at["Bucket"])
    return at


def set_policy(s3: Any, at: dict[str, str], effect: str, condition: dict[str, str]) -> None:
    """Allow all of `ACTIONS` under a condition, or all but what meets it."""
    common = {"Principal": "*", "Action": ACTIONS, "Resource": f"arn:aws:s3:::{at['Bucket']}/*"}
    statements: list[dict[str, Any]] = [
        {**common, "Effect": effect, "Condition": {"StringEquals": condition}}
    ]
    if effect == "Deny":
        statements.append({**common, "Effect": "Allow"})
    policy = {"Version": "2012-10-17", "Statement": statements}
    s3.put_bucket_policy(Bucket=at["Bucket"], Policy=json.dumps(policy))


def remove(s3: Any, at: dict[str, str], *, many: bool) -> str:
    """Delete the null version; the code of the refusal, empty without one."""
    if many:
        doomed = {"Objects": [{"Key": at["Key"], **NULL}]}
        errors = s3.delete_objects(Bucket=at["Bucket"], Delete=doomed).get("Errors", [])
        return str(errors[0]["Code"]) if errors else ""
    try:
        s3.delete_object(**at, **NULL)
    except s3.exceptions.ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(
    ("effect", "wanted"), [("Deny", "null"), ("Deny", "other"), ("Allow", "null")]
)
def test_a_policy_about_the_id_null(
    s3: Any, member: Any, at: dict[str, str], effect: str, wanted: str, many: bool
) -> None:
    """The id is the one that the client names."""
    put(s3, at, b"first")
    versioning(s3, at, "Enabled")
    second = put(s3, at, b"second")
    set_policy(s3, at, effect, {"s3:VersionId": wanted})
    is_allowed = (effect, wanted) != ("Deny", "null")
    assert body(member, at, **NULL) == (b"first" if is_allowed else b"AccessDenied")
    assert remove(member, at, many=many) == ("" if is_allowed else "AccessDenied")
    null = [] if is_allowed else [("Versions", "null", False)]
    assert listed(s3, at) == [("Versions", second, True), *null]


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("effect", ["Deny", "Allow"])
@pytest.mark.parametrize("has_tag", [False, True])
def test_a_policy_about_its_tags(
    s3: Any, member: Any, at: dict[str, str], effect: str, has_tag: bool, many: bool
) -> None:
    s3.put_object(**at, Body=b"first", Tagging=f"a={int(has_tag)}")
    versioning(s3, at, "Enabled")
    second = s3.put_object(**at, Body=b"second", Tagging=f"a={int(not has_tag)}")["VersionId"]
    set_policy(s3, at, effect, {"s3:ExistingObjectTag/a": "1"})
    is_allowed = has_tag == (effect == "Allow")
    assert body(member, at, **NULL) == (b"first" if is_allowed else b"AccessDenied")
    assert remove(member, at, many=many) == ("" if is_allowed else "AccessDenied")
    null = [] if is_allowed else [("Versions", "null", False)]
    assert listed(s3, at) == [("Versions", second, True), *null]


@pytest.mark.parametrize("acl", ["public-read", "private"])
def test_its_acl(s3: Any, member: Any, at: dict[str, str], acl: str) -> None:
    """It lends the null version, and that of the version above does not."""
    s3.put_object(**at, Body=b"first", ACL=acl)
    versioning(s3, at, "Enabled")
    other = "private" if acl == "public-read" else "public-read"
    s3.put_object(**at, Body=b"second", ACL=other)
    is_lent = acl == "public-read"
    assert body(member, at, **NULL) == (b"first" if is_lent else b"AccessDenied")
    assert body(member, at) == (b"AccessDenied" if is_lent else b"second")

"""DELETE where versioning is suspended: a delete marker with the id null, with boto3."""

from __future__ import annotations

import itertools
import os
from typing import Any

import pytest
from botocore.exceptions import ClientError
from null_versions import NULL, body, listed, versioning
from running_cluster import RunningCluster
from s3_client import s3_client
from swift_api import Account

_numbers = itertools.count(1)


@pytest.fixture
def s3(cluster: RunningCluster) -> Any:
    """The client of test:tester."""
    return s3_client(cluster.port)


@pytest.fixture
def at(s3: Any) -> dict[str, str]:
    """A key of a new bucket."""
    name = f"null-markers-{next(_numbers)}-{os.getpid()}"
    s3.create_bucket(Bucket=name)
    return {"Bucket": name, "Key": "k"}


def refusal(call: Any, **arguments: Any) -> tuple[int, str | None, str | None]:
    """The status of a refused read, and its headers about the delete marker."""
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    answer = caught.value.response["ResponseMetadata"]
    headers = answer["HTTPHeaders"]
    told = headers.get("x-amz-delete-marker"), headers.get("x-amz-version-id")
    return answer["HTTPStatusCode"], *told


def test_a_null_marker_hides_the_versions(s3: Any, at: dict[str, str]) -> None:
    versioning(s3, at, "Enabled")
    first = s3.put_object(**at, Body=b"first")["VersionId"]
    versioning(s3, at, "Suspended")
    s3.put_object(**at, Body=b"null")
    for _ in range(2):  # the second one replaces the marker of the first
        deleted = s3.delete_object(**at)
        assert (deleted["DeleteMarker"], deleted["VersionId"]) == (True, "null")
        assert listed(s3, at) == [
            ("DeleteMarkers", "null", True),
            ("Versions", first, False),
        ]
    for read in (s3.get_object, s3.head_object):
        assert refusal(read, **at) == (404, "true", "null")
        assert refusal(read, **at, **NULL) == (405, "true", "null")
    assert "Contents" not in s3.list_objects_v2(Bucket=at["Bucket"])
    assert body(s3, at, VersionId=first) == b"first"
    with pytest.raises(ClientError, match="BucketNotEmpty"):
        s3.delete_bucket(Bucket=at["Bucket"])

    removed = s3.delete_object(**at, **NULL)
    assert (removed["DeleteMarker"], removed["VersionId"]) == (True, "null")
    assert listed(s3, at) == [("Versions", first, True)]
    assert body(s3, at) == b"first"


@pytest.mark.parametrize("exists", [True, False])
def test_a_null_marker_is_alone(s3: Any, at: dict[str, str], exists: bool) -> None:
    versioning(s3, at, "Suspended")
    if exists:
        s3.put_object(**at, Body=b"null")
    deleted = s3.delete_object(**at)
    assert (deleted["DeleteMarker"], deleted["VersionId"]) == (True, "null")
    assert listed(s3, at) == [("DeleteMarkers", "null", True)]
    assert refusal(s3.get_object, **at) == (404, "true", "null")
    assert s3.delete_object(**at, **NULL)["DeleteMarker"] is True
    assert listed(s3, at) == []
    assert refusal(s3.get_object, **at) == (404, None, None)
    assert "DeleteMarker" not in s3.delete_object(**at, **NULL)
    s3.delete_bucket(Bucket=at["Bucket"])


def test_a_write_replaces_a_null_marker(s3: Any, at: dict[str, str]) -> None:
    versioning(s3, at, "Suspended")
    s3.delete_object(**at)
    s3.put_object(**at, Body=b"null")
    assert listed(s3, at) == [("Versions", "null", True)]
    assert body(s3, at) == body(s3, at, **NULL) == b"null"
    s3.delete_object(**at, **NULL)
    assert listed(s3, at) == []


def test_a_null_marker_stays_when_versioning_is_enabled_again(s3: Any, at: dict[str, str]) -> None:
    versioning(s3, at, "Suspended")
    s3.put_object(**at, Body=b"null")
    s3.delete_object(**at)
    versioning(s3, at, "Enabled")
    assert listed(s3, at) == [("DeleteMarkers", "null", True)]
    second = s3.put_object(**at, Body=b"second")["VersionId"]
    (_, old, is_latest), version = listed(s3, at)
    assert (is_latest, version) == (False, ("Versions", second, True))
    for read in (s3.get_object, s3.head_object):
        assert refusal(read, **at, VersionId=old) == (405, "true", old)

    s3.delete_object(**at, VersionId=second)
    assert listed(s3, at) == [("DeleteMarkers", "null", True)]
    assert refusal(s3.get_object, **at)[0] == 404
    third = s3.put_object(**at, Body=b"third")["VersionId"]
    removed = s3.delete_object(**at, VersionId=old)
    assert (removed["DeleteMarker"], removed["VersionId"]) == (True, old)
    assert listed(s3, at) == [("Versions", third, True)]
    assert body(s3, at) == b"third"


def test_a_null_marker_that_is_not_the_latest_is_replaced(s3: Any, at: dict[str, str]) -> None:
    versioning(s3, at, "Suspended")
    s3.delete_object(**at)
    versioning(s3, at, "Enabled")
    version = s3.put_object(**at, Body=b"version")["VersionId"]
    versioning(s3, at, "Suspended")
    s3.put_object(**at, Body=b"null")
    assert listed(s3, at) == [("Versions", "null", True), ("Versions", version, False)]


def test_many_keys_get_null_markers(s3: Any, at: dict[str, str]) -> None:
    versioning(s3, at, "Suspended")
    bucket, keys = at["Bucket"], ["k1", "k2"]
    s3.put_object(Bucket=bucket, Key="k1", Body=b"null")
    named = {"Objects": [{"Key": key} for key in keys]}
    rows = s3.delete_objects(Bucket=bucket, Delete=named)["Deleted"]
    assert [(r["Key"], r["DeleteMarker"], r["DeleteMarkerVersionId"]) for r in rows] == [
        (key, True, "null") for key in keys
    ]
    assert listed(s3, at) == [("DeleteMarkers", "null", True)] * 2
    named = {"Objects": [{"Key": key, **NULL} for key in keys]}
    rows = s3.delete_objects(Bucket=bucket, Delete=named)["Deleted"]
    assert [row["DeleteMarkerVersionId"] for row in rows] == ["null"] * 2
    assert listed(s3, at) == []


def test_deletes_of_swifts_api_leave_no_marker(
    s3: Any, at: dict[str, str], account: Account
) -> None:
    bucket = at["Bucket"]
    versioning(s3, at, "Enabled")
    version = s3.put_object(**at, Body=b"version")["VersionId"]
    versioning(s3, at, "Suspended")
    assert account.call("DELETE", bucket, "k").status == 204
    assert listed(s3, at) == [("Versions", version, False)]
    assert refusal(s3.get_object, **at) == (404, None, None)
    s3.delete_object(**at)
    rows = listed(s3, at)
    assert rows == [("DeleteMarkers", "null", True), ("Versions", version, False)]
    got = account.call("GET", bucket, "k")
    assert (got.status, got.headers.get("x-object-version-id")) == (404, "null")
    assert account.call("DELETE", bucket, "k").status == 404
    assert listed(s3, at) == [("Versions", version, False)]


def test_without_versioning_nothing_is_left(s3: Any, at: dict[str, str]) -> None:
    s3.put_object(**at, Body=b"x")
    assert "DeleteMarker" not in s3.delete_object(**at)
    assert listed(s3, at) == []
    assert refusal(s3.get_object, **at) == (404, None, None)

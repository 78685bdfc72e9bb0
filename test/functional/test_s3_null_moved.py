"""The null version in the S3 API after a move: replicas may differ in its offset."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from null_versions import NULL, body, listed, put, versioning
from running_cluster import RunningCluster
from s3_client import s3_client
from two_policies import GOLD, two_policies, write_misplaced

from martlet.words.timestamp import Timestamp


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with two_policies(tmp_path_factory.mktemp("policies")) as running:
        yield running


def moved_null(
    split: RunningCluster, bucket: str, *, versions: bool = True, with_offset: int = 3, **lock: Any
) -> tuple[Any, dict[str, str]]:
    """A bucket with a moved null version, and a newer version over it.

    :param with_offset: replicas that have the offset; the others have a smaller one.
    """
    s3 = s3_client(split.port)
    at = {"Bucket": f"{bucket}-{os.getpid()}", "Key": "k"}
    s3.create_bucket(Bucket=at["Bucket"], **lock)
    names = "AUTH_test", at["Bucket"], "k"
    now = Timestamp.now()
    write_misplaced(split, "PUT", names, GOLD, now, b"null")
    later = Timestamp.from_ticks(now.ticks, 2)
    write_misplaced(split, "PUT", names, GOLD, later, b"null", replicas=with_offset)
    if versions:
        versioning(s3, at, "Enabled")
        put(s3, at, b"newer")
    return s3, at


@pytest.mark.parametrize("with_offset", [1, 2, 3])
def test_its_removal_answers_null(split: RunningCluster, with_offset: int) -> None:
    s3, at = moved_null(split, f"one{with_offset}", with_offset=with_offset)
    assert ("Versions", "null", False) in listed(s3, at)
    assert body(s3, at, **NULL) == b"null"
    assert s3.head_object(**at, **NULL)["VersionId"] == "null"
    answer = s3.delete_object(**at, **NULL)
    assert body(s3, at, **NULL).startswith(b"NoSuch")
    assert answer["VersionId"] == "null"


@pytest.mark.parametrize("with_offset", [1, 2, 3])
def test_it_is_removed_in_a_list(split: RunningCluster, with_offset: int) -> None:
    s3, at = moved_null(split, f"bulk{with_offset}", with_offset=with_offset)
    answer = s3.delete_objects(
        Bucket=at["Bucket"], Delete={"Objects": [{"Key": "k", "VersionId": "null"}]}
    )
    assert body(s3, at, **NULL).startswith(b"NoSuch")
    assert [row["VersionId"] for row in answer["Deleted"]] == ["null"]
    assert not [row for row in listed(s3, at) if row[1] == "null"]


@pytest.mark.parametrize("with_offset", [1, 2, 3])
def test_it_may_be_copied(split: RunningCluster, with_offset: int) -> None:
    s3, at = moved_null(split, f"copy{with_offset}", with_offset=with_offset)
    done = s3.copy_object(**at, CopySource={**at, "VersionId": "null"})
    assert body(s3, at) == b"null"
    assert done["CopySourceVersionId"] == "null"


@pytest.mark.parametrize("with_offset", [1, 2, 3])
def test_it_may_be_locked(split: RunningCluster, with_offset: int) -> None:
    lock = {"ObjectLockEnabledForBucket": True}
    s3, at = moved_null(split, f"lock{with_offset}", with_offset=with_offset, **lock)
    s3.put_object_legal_hold(**at, **NULL, LegalHold={"Status": "ON"})
    with pytest.raises(ClientError):
        s3.delete_object(**at, **NULL)
    assert body(s3, at, **NULL) == b"null"
    s3.put_object_legal_hold(**at, **NULL, LegalHold={"Status": "OFF"})
    assert s3.get_object_legal_hold(**at, **NULL)["LegalHold"]["Status"] == "OFF"
    s3.delete_object(**at, **NULL)
    assert not [row for row in listed(s3, at) if row[1] == "null"]
    assert body(s3, at, **NULL).startswith(b"NoSuch")


@pytest.mark.parametrize("with_offset", [1, 2, 3])
def test_it_is_removed_in_a_list_with_another_version(
    split: RunningCluster, with_offset: int
) -> None:
    s3, at = moved_null(split, f"both{with_offset}", with_offset=with_offset)
    older, newest = put(s3, at, b"older"), put(s3, at, b"newest")
    objects = [{"Key": "k", "VersionId": version} for version in ("null", older)]
    answer = s3.delete_objects(Bucket=at["Bucket"], Delete={"Objects": objects})
    assert {row["VersionId"] for row in answer.get("Deleted", ())} == {"null", older}
    assert body(s3, at, **NULL).startswith(b"NoSuch")
    left = [version for _, version, _ in listed(s3, at)]
    assert "null" not in left
    assert newest in left

"""Two versions of one multipart upload share its parts, which go with the last of them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from lifecycle_job import Job
from multipart_parts import await_later_parts, await_parts, parts_in, prompt_s3, put, upload
from running_cluster import RunningCluster, await_true
from shared_parts import Repeater, read, repeater, versions_of
from swift_api import Account

_numbers = itertools.count(1)
Remove = Callable[[Any, str, str], None]


@pytest.fixture(scope="module")
def s3(cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with prompt_s3(cluster, tmp_path_factory.mktemp("proxy")) as client:
        yield client


@pytest.fixture(scope="module")
def again(cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repeater]:
    with repeater(cluster, tmp_path_factory.mktemp("repeater")) as found:
        yield found


def set_versioning(s3: Any, bucket: str, status: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})


@pytest.fixture
def bucket(s3: Any) -> str:
    name = f"two-versions-{next(_numbers)}-{os.getpid()}"
    s3.create_bucket(Bucket=name)
    set_versioning(s3, name, "Enabled")
    return name


def delete_version(s3: Any, bucket: str, version: str) -> None:
    s3.delete_object(Bucket=bucket, Key="k", VersionId=version)


def delete_among_many(s3: Any, bucket: str, version: str) -> None:
    doomed = {"Objects": [{"Key": "k", "VersionId": version}, {"Key": "none"}]}
    assert "Errors" not in s3.delete_objects(Bucket=bucket, Delete=doomed)


def delete_on_condition(s3: Any, bucket: str, version: str) -> None:
    named = {"Bucket": bucket, "Key": "k", "VersionId": version}
    s3.delete_object(**named, IfMatch=s3.head_object(**named)["ETag"])


@pytest.mark.parametrize("first", ["newest", "oldest"])
@pytest.mark.parametrize("remove", [delete_version, delete_among_many, delete_on_condition])
def test_the_parts_stay_while_a_version_has_them(
    cluster: RunningCluster,
    s3: Any,
    account: Account,
    again: Repeater,
    bucket: str,
    remove: Remove,
    first: str,
) -> None:
    used = upload(s3, bucket)
    again.repeat(bucket, used)
    put(s3, bucket)
    above, *versions = versions_of(s3, bucket)
    assert len(versions) == 2
    if first == "oldest":
        versions.reverse()
    remove(s3, bucket, versions[0])
    await_later_parts(cluster, s3, account, bucket)
    assert versions_of(s3, bucket) == [above, versions[1]]
    assert read(s3, bucket, versions[1]) == b"onetwo"
    remove(s3, bucket, versions[1])
    await_parts(cluster, account, bucket, [])


def test_versions_of_other_uploads_keep_no_parts(
    cluster: RunningCluster, s3: Any, account: Account, again: Repeater, bucket: str
) -> None:
    """There are old versions of each kind, and a delete marker above them."""
    one = upload(s3, bucket)
    again.repeat(bucket, one)
    put(s3, bucket)
    other = upload(s3, bucket)
    s3.delete_object(Bucket=bucket, Key="k")
    newest, _, *shared = versions_of(s3, bucket)
    delete_version(s3, bucket, shared[0])
    await_later_parts(cluster, s3, account, bucket)
    assert read(s3, bucket, shared[1]) == b"onetwo"
    delete_version(s3, bucket, shared[1])
    await_parts(cluster, account, bucket, [f"k/{other}/1", f"k/{other}/2"])
    assert read(s3, bucket, newest) == b"onetwo"


@pytest.mark.parametrize("first", ["null", "other"])
@pytest.mark.parametrize("is_old", [True, False])
def test_the_null_version_shares_parts_too(
    cluster: RunningCluster,
    s3: Any,
    account: Account,
    again: Repeater,
    bucket: str,
    first: str,
    is_old: bool,
) -> None:
    """It is current where versioning is suspended, or it has become an old version."""
    used = upload(s3, bucket)
    set_versioning(s3, bucket, "Suspended")
    again.repeat(bucket, used)
    if is_old:
        set_versioning(s3, bucket, "Enabled")
        put(s3, bucket)
    other = next(v for v in reversed(versions_of(s3, bucket)) if v != "null")
    order = ["null", other] if first == "null" else [other, "null"]
    delete_version(s3, bucket, order[0])
    await_later_parts(cluster, s3, account, bucket)
    assert read(s3, bucket, order[1]) == b"onetwo"
    delete_version(s3, bucket, order[1])
    await_parts(cluster, account, bucket, [])


def delete_null(s3: Any, bucket: str) -> None:
    s3.delete_object(Bucket=bucket, Key="k")


@pytest.mark.parametrize("replace", [put, delete_null])
def test_a_version_keeps_the_parts_of_a_null_version_that_is_replaced(
    cluster: RunningCluster,
    s3: Any,
    account: Account,
    again: Repeater,
    bucket: str,
    replace: Callable[[Any, str], None],
) -> None:
    used = upload(s3, bucket)
    set_versioning(s3, bucket, "Suspended")
    again.repeat(bucket, used)
    (version,) = (v for v in versions_of(s3, bucket) if v != "null")
    replace(s3, bucket)
    await_later_parts(cluster, s3, account, bucket)
    assert read(s3, bucket, version) == b"onetwo"
    delete_version(s3, bucket, version)
    await_parts(cluster, account, bucket, [])


def test_lifecycle_leaves_the_parts_to_the_last_version(
    cluster: RunningCluster, s3: Any, account: Account, again: Repeater, bucket: str
) -> None:
    used = upload(s3, bucket)
    again.repeat(bucket, used)
    put(s3, bucket)
    newest, kept, gone = versions_of(s3, bucket)
    job = Job(cluster)

    def rule(**more: int) -> None:
        noncurrent = {"NoncurrentDays": 1, **more}
        one = {"ID": "a rule", "Status": "Enabled", "Filter": {"Prefix": ""}}
        rules = {"Rules": [{**one, "NoncurrentVersionExpiration": noncurrent}]}
        s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration=rules)

    rule(NewerNoncurrentVersions=1)
    await_true(
        lambda: job.ran() and gone not in versions_of(s3, bucket), "the end of the oldest version"
    )
    for _ in range(3):  # the job waits before it deletes parts
        job.run()
    await_later_parts(cluster, s3, account, bucket)
    assert read(s3, bucket, kept) == b"onetwo"
    rule()
    await_true(
        lambda: job.ran() and parts_in(account, bucket) == [], "the end of the parts of the last"
    )
    assert versions_of(s3, bucket) == [newest]


def test_parts_with_a_lock_stay_too(
    cluster: RunningCluster, s3: Any, account: Account, again: Repeater
) -> None:
    """They are deleted at once, as the expirer bypasses no lock."""
    name = f"shared-locked-{os.getpid()}"
    s3.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}
    configuration = {"ObjectLockEnabled": "Enabled", "Rule": rule}
    s3.put_object_lock_configuration(Bucket=name, ObjectLockConfiguration=configuration)
    used = upload(s3, name)
    again.repeat(name, used)
    bypassed = {"Bucket": name, "Key": "k", "BypassGovernanceRetention": True}
    newest, oldest = versions_of(s3, name)
    s3.delete_object(**bypassed, VersionId=oldest)
    await_later_parts(cluster, s3, account, name)
    assert read(s3, name, newest) == b"onetwo"
    s3.delete_object(**bypassed, VersionId=newest)
    assert parts_in(account, name) == []


class Completion:
    """An upload of two parts, and requests to complete it."""

    def __init__(self, s3: Any, bucket: str) -> None:
        self.s3 = s3
        self.target = {"Bucket": bucket, "Key": "k"}
        self.target["UploadId"] = s3.create_multipart_upload(**self.target)["UploadId"]
        self.parts = []
        for number, body in ((1, b"one"), (2, b"two")):
            etag = s3.upload_part(**self.target, PartNumber=number, Body=body)["ETag"]
            self.parts.append({"PartNumber": number, "ETag": etag})

    def send(self) -> tuple[str, str]:
        """Complete it; return the ETag and the id of the version."""
        done = self.s3.complete_multipart_upload(
            **self.target, MultipartUpload={"Parts": self.parts}
        )
        return done["ETag"], done["VersionId"]

    def reopen(self, account: Account) -> None:
        """The upload is open again, as after a proxy that stopped before the end."""
        name = f"k/{self.target['UploadId']}"
        container = f"{self.target['Bucket']}+segments"
        assert account.call("PUT", container, name, body=b"").status == 201


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("is_old", [False, True])
def test_a_repeated_completion_names_the_version_that_is_there(
    s3: Any, account: Account, bucket: str, is_old: bool, is_open: bool
) -> None:
    completion = Completion(s3, bucket)
    first = completion.send()
    if is_old:
        put(s3, bucket)
    if is_open:
        completion.reopen(account)
    assert completion.send() == first
    assert len(versions_of(s3, bucket)) == 1 + is_old
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)
    assert read(s3, bucket, first[1]) == b"onetwo"


def test_a_completion_after_the_version_was_removed(s3: Any, bucket: str) -> None:
    completion = Completion(s3, bucket)
    delete_version(s3, bucket, completion.send()[1])
    with pytest.raises(s3.exceptions.ClientError, match="NoSuchUpload"):
        completion.send()


def test_an_abort_keeps_the_parts_of_a_version(s3: Any, account: Account, bucket: str) -> None:
    """The upload is open although it was completed."""
    completion = Completion(s3, bucket)
    _, version = completion.send()
    put(s3, bucket)
    completion.reopen(account)
    with pytest.raises(s3.exceptions.ClientError, match="NoSuchUpload"):
        s3.abort_multipart_upload(**completion.target)
    assert read(s3, bucket, version) == b"onetwo"
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_completions_at_once_lose_nothing(
    cluster: RunningCluster, s3: Any, account: Account, bucket: str
) -> None:
    completion = Completion(s3, bucket)
    with ThreadPoolExecutor(6) as pool:
        told = {end.result()[1] for end in [pool.submit(completion.send) for _ in range(6)]}
    versions = versions_of(s3, bucket)
    assert told <= set(versions)
    while versions:
        assert [read(s3, bucket, version) for version in versions] == [b"onetwo"] * len(versions)
        delete_version(s3, bucket, versions.pop(len(versions) // 2))
        await_later_parts(cluster, s3, account, f"{bucket}-{len(versions)}")
    await_parts(cluster, account, bucket, [])

"""Parts of multipart uploads that are of no use any more: the expirer deletes them."""

from __future__ import annotations

import io
import itertools
import json
import os
import tarfile
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from multipart_parts import (
    SECTION,
    await_later_parts,
    await_parts,
    parts_in,
    prompt_s3,
    put,
    upload,
)
from other_proxy import OtherProxy
from running_cluster import RunningCluster
from s3_client import s3_client
from swift_api import Account

from cluster.confs import PIPELINE

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def s3(cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with prompt_s3(cluster, tmp_path_factory.mktemp("proxy")) as client:
        yield client


@pytest.fixture
def bucket(s3: Any) -> str:
    name = f"replaced-{next(_numbers)}-{os.getpid()}"
    s3.create_bucket(Bucket=name)
    return name


def set_location(s3: Any, account: Account, bucket: str, header: str) -> None:
    """Have old objects kept in another container."""
    assert account.call("PUT", f"{bucket}-old").status == 201
    port = urlsplit(s3.meta.endpoint_url).port
    assert port is not None
    by_this_proxy = Account.with_token(port, account.token, account.path)
    posted = by_this_proxy.call("POST", bucket, headers={header: f"{bucket}-old"})
    assert posted.status == 204
    by_this_proxy.close()


def put_copy(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="source", Body=b"new")
    s3.copy_object(Bucket=bucket, Key="k", CopySource=f"{bucket}/source")


def copy_itself(s3: Any, bucket: str) -> None:
    copied = {"MetadataDirective": "REPLACE", "Metadata": {"a": "b"}}
    s3.copy_object(Bucket=bucket, Key="k", CopySource=f"{bucket}/k", **copied)


def put_form(s3: Any, bucket: str) -> None:
    form = s3.generate_presigned_post(bucket, "k")
    sent = requests.post(form["url"], data=form["fields"], files={"file": b"new"}, timeout=60)
    assert sent.status_code == 204, sent.text


def extract(s3: Any, bucket: str) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        member = tarfile.TarInfo("k")
        member.size = 3
        tar.addfile(member, io.BytesIO(b"new"))

    def ask(params: dict[str, Any], **_: Any) -> None:
        params["headers"]["X-Amz-Meta-Snowball-Auto-Extract"] = "true"

    event = "before-call.s3.PutObject"
    s3.meta.events.register(event, ask)
    try:
        s3.put_object(Bucket=bucket, Key="a.tar", Body=archive.getvalue())
    finally:
        s3.meta.events.unregister(event, ask)


def put_on_condition(s3: Any, bucket: str) -> None:
    etag = s3.head_object(Bucket=bucket, Key="k")["ETag"]
    s3.put_object(Bucket=bucket, Key="k", Body=b"new", IfMatch=etag)


def put_streamed(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=os.urandom(200_000), ChecksumAlgorithm="SHA256")


@pytest.mark.parametrize(
    "replace", [put, put_copy, copy_itself, put_form, extract, put_on_condition, put_streamed]
)
def test_the_parts_of_a_replaced_upload_are_deleted(
    cluster: RunningCluster, s3: Any, account: Account, bucket: str, replace: Any
) -> None:
    upload(s3, bucket)
    kept = upload(s3, bucket, "other")
    replace(s3, bucket)
    await_parts(cluster, account, bucket, [f"other/{kept}/1", f"other/{kept}/2"])
    read = s3.get_object(Bucket=bucket, Key="k")["Body"].read()
    if replace is copy_itself:
        assert read == b"onetwo"
    elif replace is not put_streamed:
        assert read == b"new"
    assert s3.get_object(Bucket=bucket, Key="other")["Body"].read() == b"onetwo"


def test_an_upload_replaces_another(
    cluster: RunningCluster, s3: Any, account: Account, bucket: str
) -> None:
    key = "ö/ä b%20/1"
    upload(s3, bucket, key)
    second = upload(s3, bucket, key, b"1", b"2", b"3")
    await_parts(cluster, account, bucket, [f"{key}/{second}/{n}" for n in (1, 2, 3)])
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"123"


def test_versions_keep_their_parts(
    cluster: RunningCluster, s3: Any, account: Account, bucket: str
) -> None:
    """But the null version that suspended versioning replaces is no version any more."""
    used = [upload(s3, bucket)]
    for status in ("Enabled", "Suspended"):
        state = {"Status": status}
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=state)
        used.append(upload(s3, bucket))
        put(s3, bucket)
    parts = sorted(f"k/{one}/{number}" for one in used[:2] for number in (1, 2))
    await_parts(cluster, account, bucket, parts)
    bodies = [
        s3.get_object(Bucket=bucket, Key="k", VersionId=row["VersionId"])["Body"].read()
        for row in s3.list_object_versions(Bucket=bucket, Prefix="k")["Versions"]
    ]
    assert bodies == [b"new", b"new", b"onetwo", b"onetwo"]


@pytest.mark.parametrize("replace", [put_copy, put_form, put_on_condition, put_streamed])
def test_the_parts_of_a_replaced_null_version_are_deleted(
    cluster: RunningCluster, s3: Any, account: Account, bucket: str, replace: Any
) -> None:
    """Another upload of the same key keeps its parts, as a version below or above."""
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    below = upload(s3, bucket)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})
    upload(s3, bucket)
    replace(s3, bucket)
    await_parts(cluster, account, bucket, [f"k/{below}/1", f"k/{below}/2"])
    upload(s3, bucket)
    above = upload(s3, bucket)
    left = [f"k/{one}/{number}" for one in sorted((below, above)) for number in (1, 2)]
    await_parts(cluster, account, bucket, left)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"onetwo"


@pytest.mark.parametrize("header", ["X-Versions-Location", "X-History-Location"])
def test_old_manifests_of_another_container_keep_their_parts(
    cluster: RunningCluster, s3: Any, account: Account, bucket: str, header: str
) -> None:
    """Swift's older versioning keeps the manifest that is replaced."""
    set_location(s3, account, bucket, header)
    used = upload(s3, bucket)
    put(s3, bucket)
    await_later_parts(cluster, s3, account, bucket)
    assert parts_in(account, bucket) == [f"k/{used}/1", f"k/{used}/2"]
    (old,) = account.call("GET", f"{bucket}-old").lines
    assert account.call("GET", f"{bucket}-old", old).body == b"onetwo"


def test_a_delete_keeps_the_parts_of_an_object_that_is_archived(
    cluster: RunningCluster, s3: Any, account: Account, bucket: str
) -> None:
    set_location(s3, account, bucket, "X-History-Location")
    used = upload(s3, bucket)
    s3.delete_object(Bucket=bucket, Key="k")
    await_later_parts(cluster, s3, account, bucket)
    assert parts_in(account, bucket) == [f"k/{used}/1", f"k/{used}/2"]
    bodies = [
        account.call("GET", f"{bucket}-old", old).body
        for old in account.call("GET", f"{bucket}-old").lines
    ]
    assert b"onetwo" in bodies


def test_what_is_read_meanwhile_stays_for_a_time(
    cluster: RunningCluster, account: Account, bucket: str, s3: Any, tmp_path: Path
) -> None:
    section = {**SECTION, "replaced_parts_delay": "600"}
    with OtherProxy(cluster, tmp_path, PIPELINE, {"filter:s3api": section}, workers=1) as proxy:
        client = s3_client(proxy.port)
        used = upload(client, bucket)
        put(client, bucket)
    await_later_parts(cluster, s3, account, bucket)
    assert parts_in(account, bucket) == [f"k/{used}/1", f"k/{used}/2"]


def test_swifts_api_keeps_segments(
    cluster: RunningCluster, s3: Any, account: Account, bucket: str
) -> None:
    """A write through Swift's API deletes none, and neither do writes over its own objects."""
    used = upload(s3, bucket)
    assert account.call("PUT", bucket, "k", body=b"new").status == 201
    await_later_parts(cluster, s3, account, bucket)
    assert parts_in(account, bucket) == [f"k/{used}/1", f"k/{used}/2"]


def delete(s3: Any, bucket: str) -> None:
    s3.delete_object(Bucket=bucket, Key="k")


def delete_among_many(s3: Any, bucket: str) -> None:
    doomed = {"Objects": [{"Key": "k"}, {"Key": "none"}]}
    assert len(s3.delete_objects(Bucket=bucket, Delete=doomed)["Deleted"]) == 2


def delete_on_condition(s3: Any, bucket: str) -> None:
    etag = s3.head_object(Bucket=bucket, Key="k")["ETag"]
    s3.delete_object(Bucket=bucket, Key="k", IfMatch=etag)


@pytest.mark.parametrize("remove", [delete, delete_among_many, delete_on_condition])
def test_the_parts_of_a_deleted_upload_are_deleted_later(
    cluster: RunningCluster, s3: Any, account: Account, bucket: str, remove: Any
) -> None:
    used, kept = upload(s3, bucket), upload(s3, bucket, "other")
    remove(s3, bucket)
    with pytest.raises(s3.exceptions.ClientError, match="404"):
        s3.head_object(Bucket=bucket, Key="k")
    parts = {f"k/{used}/1", f"k/{used}/2"}
    assert parts <= set(parts_in(account, bucket))
    await_parts(cluster, account, bucket, [f"other/{kept}/1", f"other/{kept}/2"])
    assert s3.get_object(Bucket=bucket, Key="other")["Body"].read() == b"onetwo"


def test_a_refused_delete_keeps_the_parts(
    cluster: RunningCluster, s3: Any, account: Account, bucket: str
) -> None:
    used = upload(s3, bucket)
    with pytest.raises(s3.exceptions.ClientError, match="PreconditionFailed"):
        s3.delete_object(Bucket=bucket, Key="k", IfMatch='"another"')
    await_later_parts(cluster, s3, account, bucket)
    assert parts_in(account, bucket) == [f"k/{used}/1", f"k/{used}/2"]
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"onetwo"


def test_a_delete_of_swifts_object_deletes_its_segments_at_once(
    s3: Any, account: Account, bucket: str
) -> None:
    segments = f"{bucket}-segments"
    assert account.call("PUT", segments).status == 201
    assert account.call("PUT", segments, "one", body=b"one").status == 201
    manifest = json.dumps([{"path": f"/{segments}/one"}]).encode()
    query = {"multipart-manifest": "put"}
    assert account.send("PUT", account.url(bucket, "k", **query), body=manifest).status == 201
    s3.delete_object(Bucket=bucket, Key="k")
    assert account.call("GET", segments).lines == []
    assert account.call("HEAD", bucket, "k").status == 404


def test_the_parts_of_a_deleted_version_are_deleted(
    cluster: RunningCluster, s3: Any, account: Account, bucket: str
) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    used = [upload(s3, bucket) for _ in range(3)]
    newest, middle, oldest = (
        row["VersionId"] for row in s3.list_object_versions(Bucket=bucket)["Versions"]
    )
    s3.delete_object(Bucket=bucket, Key="k")  # adds a delete marker
    s3.delete_object(Bucket=bucket, Key="k", VersionId=middle)
    left = [f"k/{one}/{number}" for one in sorted((used[0], used[2])) for number in (1, 2)]
    await_parts(cluster, account, bucket, left)
    for version in (newest, oldest):
        read = s3.get_object(Bucket=bucket, Key="k", VersionId=version)
        assert read["Body"].read() == b"onetwo"
    assert len(s3.list_object_versions(Bucket=bucket)["Versions"]) == 2


def test_the_parts_of_a_deleted_null_version_are_deleted(
    cluster: RunningCluster, s3: Any, account: Account, bucket: str
) -> None:
    """With its id, or without where versioning is suspended."""
    upload(s3, bucket)
    for status in ("Enabled", "Suspended"):
        state = {"Status": status}
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=state)
        if status == "Enabled":
            put(s3, bucket)
            s3.delete_object(Bucket=bucket, Key="k", VersionId="null")
        else:
            upload(s3, bucket)
            s3.delete_object(Bucket=bucket, Key="k")
        assert len(parts_in(account, bucket)) == 2
        await_parts(cluster, account, bucket, [])


def complete(s3: Any, bucket: str, numbers: list[int], listed: list[int]) -> str:
    """Upload parts and complete the upload with some of them; return its id."""
    target = {"Bucket": bucket, "Key": "k"}
    target["UploadId"] = s3.create_multipart_upload(**target)["UploadId"]
    parts = {
        number: s3.upload_part(**target, PartNumber=number, Body=f"{number};".encode())["ETag"]
        for number in numbers
    }
    chosen = [{"PartNumber": number, "ETag": parts[number]} for number in listed]
    s3.complete_multipart_upload(**target, MultipartUpload={"Parts": chosen})
    return target["UploadId"]


def test_parts_that_a_completion_does_not_list_are_deleted(
    cluster: RunningCluster, s3: Any, account: Account, bucket: str
) -> None:
    used = complete(s3, bucket, [1, 2, 3, 10, 11], [2, 10])
    await_parts(cluster, account, bucket, [f"k/{used}/10", f"k/{used}/2"])
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"2;10;"


def test_parts_that_an_encrypted_completion_does_not_list_are_deleted(
    cluster: RunningCluster, account: Account, bucket: str, tmp_path: Path
) -> None:
    """The expirer cannot read the manifest."""
    pipeline = PIPELINE.replace(" proxy-server", " keymaster encryption proxy-server")
    secret = b64encode(bytes(range(32))).decode()
    sections = {
        "filter:s3api": SECTION,
        "filter:keymaster": {"use": "egg:martlet#keymaster", "encryption_root_secret": secret},
        "filter:encryption": {"use": "egg:martlet#encryption"},
    }
    with OtherProxy(cluster, tmp_path, pipeline, sections, workers=1) as proxy:
        client = s3_client(proxy.port)
        used = complete(client, bucket, [1, 2, 3, 10, 11], [2, 3, 10])
        await_parts(cluster, account, bucket, [f"k/{used}/{number}" for number in (10, 2, 3)])
        assert client.get_object(Bucket=bucket, Key="k")["Body"].read() == b"2;3;10;"


def test_many_parts_go_with_an_abort_and_with_the_bucket(
    s3: Any, account: Account, bucket: str
) -> None:
    for key in ("aborted", "left"):
        target = {"Bucket": bucket, "Key": key}
        target["UploadId"] = s3.create_multipart_upload(**target)["UploadId"]
        for number in range(1, 41):
            s3.upload_part(**target, PartNumber=number, Body=b"x")
        if key == "aborted":
            s3.abort_multipart_upload(**target)
            assert parts_in(account, bucket) == []
    assert len(parts_in(account, bucket)) == 41
    s3.delete_bucket(Bucket=bucket)
    assert account.call("HEAD", f"{bucket}+segments").status == 404

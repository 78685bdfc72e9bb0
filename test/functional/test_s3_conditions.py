"""Conditions of S3 writes and deletes, also of many clients at once."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from other_proxy import OtherProxy
from running_cluster import RunningCluster
from s3_client import USER, new_bucket, outcomes_of, s3_client

from cluster.confs import PIPELINE
from martlet.conf.options import read_ini


@pytest.fixture(scope="module")
def patient(
    four_nodes: RunningCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OtherProxy]:
    """A proxy of the four nodes that waits for late replicas: the next request may read there."""
    app = dict(read_ini(four_nodes.home / "etc" / "proxy-server.conf")["app:proxy-server"])
    sections = {"app:proxy-server": {**app, "post_quorum_timeout": "5"}}
    directory = tmp_path_factory.mktemp("patient")
    with OtherProxy(four_nodes, directory, PIPELINE, sections, workers=2) as proxy:
        yield proxy


@pytest.fixture(params=["cluster", "patient"], ids=["one-node", "four-nodes"])
def s3(request: pytest.FixtureRequest) -> Any:
    """A client of test:tester on one server, and on four."""
    return s3_client(request.getfixturevalue(request.param).port, USER)


@pytest.fixture
def bucket(s3: Any) -> str:
    return new_bucket(s3)


def refused(call: Callable[..., Any], **arguments: Any) -> str:
    """The code of the refusal."""
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    return str(caught.value.response["Error"]["Code"])


@pytest.mark.parametrize("size", [0, 10, 300_000], ids=["empty", "small", "large"])
def test_writes(s3: Any, bucket: str, size: int) -> None:
    at = {"Bucket": bucket, "Key": "k"}
    body = b"x" * size
    assert refused(s3.put_object, **at, Body=body, IfMatch='"none"') == "NoSuchKey"
    first = s3.put_object(**at, Body=body, IfNoneMatch="*")["ETag"]
    assert refused(s3.put_object, **at, Body=b"2", IfNoneMatch="*") == "PreconditionFailed"
    assert refused(s3.put_object, **at, Body=b"2", IfNoneMatch=first) == "PreconditionFailed"
    assert refused(s3.put_object, **at, Body=b"2", IfMatch='"other"') == "PreconditionFailed"
    second = s3.put_object(**at, Body=b"2" + body, IfMatch=first)["ETag"]
    assert refused(s3.put_object, **at, Body=b"3", IfMatch=first) == "PreconditionFailed"
    s3.put_object(**at, Body=b"3" + body, IfNoneMatch=first)
    assert refused(s3.delete_object, **at, IfMatch=second) == "PreconditionFailed"
    assert s3.get_object(**at)["Body"].read() == b"3" + body
    s3.delete_object(**at, IfMatch="*")
    assert refused(s3.delete_object, **at, IfMatch=second) == "NoSuchKey"


def test_copies(s3: Any, bucket: str) -> None:
    etag = s3.put_object(Bucket=bucket, Key="a", Body=b"a")["ETag"]
    copy = {"Bucket": bucket, "Key": "b", "CopySource": f"{bucket}/a"}
    assert refused(s3.copy_object, **copy, IfMatch=etag) == "NoSuchKey"
    s3.copy_object(**copy, IfNoneMatch="*")
    assert refused(s3.copy_object, **copy, IfNoneMatch="*") == "PreconditionFailed"
    s3.copy_object(**copy, IfMatch=etag)


def upload_parts(s3: Any, at: dict[str, str], body: bytes) -> dict[str, Any]:
    """An upload of one part; the arguments that complete it."""
    upload = s3.create_multipart_upload(**at)["UploadId"]
    part = s3.upload_part(**at, UploadId=upload, PartNumber=1, Body=body)
    listed = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    return {**at, "UploadId": upload, "MultipartUpload": listed}


def test_reads_of_a_copy(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    named = {"Bucket": bucket, "Key": "copy"}
    copied = s3.copy_object(**named, CopySource={"Bucket": bucket, "Key": "k"})
    etag = copied["CopyObjectResult"]["ETag"]
    assert s3.get_object(**named, IfMatch=etag)["Body"].read() == b"x"
    assert refused(s3.get_object, **named, IfNoneMatch=etag) == "304"
    assert refused(s3.get_object, **named, IfMatch='"other"') == "PreconditionFailed"


def test_completions(s3: Any, bucket: str) -> None:
    at = {"Bucket": bucket, "Key": "k"}
    first, second, third = (upload_parts(s3, at, body) for body in (b"1", b"2", b"3"))
    complete = s3.complete_multipart_upload
    etag = complete(**first, IfNoneMatch="*")["ETag"]
    assert refused(complete, **second, IfNoneMatch="*") == "PreconditionFailed"
    assert refused(complete, **second, IfMatch='"other"') == "PreconditionFailed"
    complete(**second, IfMatch=etag)
    assert refused(complete, **third, IfMatch=etag) == "PreconditionFailed"
    assert s3.get_object(**at)["Body"].read() == b"2"
    s3.delete_object(**at, IfMatch=s3.head_object(**at)["ETag"])
    assert refused(s3.head_object, **at) == "404"


def test_multi_delete(s3: Any, bucket: str) -> None:
    etags = {key: s3.put_object(Bucket=bucket, Key=key, Body=key)["ETag"] for key in "abc"}
    doomed = [
        {"Key": "a", "ETag": etags["a"]},
        {"Key": "b", "ETag": etags["a"]},
        {"Key": "c"},
        {"Key": "d", "ETag": etags["a"]},
    ]
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": doomed})
    assert sorted(row["Key"] for row in answer["Deleted"]) == ["a", "c"]
    errors = {row["Key"]: row["Code"] for row in answer["Errors"]}
    assert errors == {"b": "PreconditionFailed", "d": "NoSuchKey"}


def test_versions(s3: Any, bucket: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    at = {"Bucket": bucket, "Key": "k"}
    first = s3.put_object(**at, Body=b"1", IfNoneMatch="*")
    second = s3.put_object(**at, Body=b"2", IfMatch=first["ETag"])
    assert refused(s3.put_object, **at, Body=b"3", IfMatch=first["ETag"]) == "PreconditionFailed"
    assert refused(s3.delete_object, **at, IfMatch=first["ETag"]) == "PreconditionFailed"
    marker = s3.delete_object(**at, IfMatch=second["ETag"])
    assert marker["DeleteMarker"]
    s3.put_object(**at, Body=b"4", IfNoneMatch="*")
    assert len(s3.list_object_versions(Bucket=bucket)["Versions"]) == 3


@pytest.mark.parametrize("size", [10, 300_000], ids=["small", "large"])
def test_of_writes_at_once_one_is_done(s3: Any, bucket: str, size: int) -> None:
    """Six clients change the object that they have seen, again and again."""
    at = {"Bucket": bucket, "Key": "k"}
    condition = {"IfNoneMatch": "*"}
    for number in range(5):
        bodies = [b"%d %d" % (number, client) * size for client in range(6)]
        said = outcomes_of(
            [functools.partial(s3.put_object, **at, Body=body, **condition) for body in bodies]
        )
        assert said.count("done") == 1, said
        assert set(said) <= {"done", "PreconditionFailed", "ConditionalRequestConflict"}
        winner = bodies[said.index("done")]
        condition = {"IfMatch": f'"{hashlib.md5(winner).hexdigest()}"'}


def test_of_deletes_at_once_one_is_done(s3: Any, bucket: str) -> None:
    at = {"Bucket": bucket, "Key": "k"}
    for _ in range(3):
        etag = s3.put_object(**at, Body=b"x")["ETag"]
        said = outcomes_of([functools.partial(s3.delete_object, **at, IfMatch=etag)] * 6)
        assert said.count("done") == 1, said

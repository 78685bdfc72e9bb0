"""Unused parts of multipart uploads: a DELETE beside a completion, and servers that hang."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from expirer_pass import expire
from multipart_parts import await_later_parts, prompt_s3
from running_cluster import RunningCluster, await_true, descendants
from s3_client import s3_client
from swift_api import Account

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def s3(cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with prompt_s3(cluster, tmp_path_factory.mktemp("proxy")) as client:
        yield client


@pytest.fixture
def bucket(s3: Any) -> str:
    name = f"attacked-{next(_numbers)}-{os.getpid()}"
    s3.create_bucket(Bucket=name)
    return name


@contextmanager
def stopped(cluster: RunningCluster, service: str) -> Iterator[None]:
    """The service does not answer within ``with``."""
    pid = cluster.pid_of(service)
    pids = [pid, *descendants(pid)]
    try:
        for one in pids:
            os.kill(one, signal.SIGSTOP)
        yield
    finally:
        for one in pids:
            os.kill(one, signal.SIGCONT)


def begin(
    s3: Any, bucket: str, numbers: list[int], key: str = "k"
) -> tuple[dict[str, str], dict[int, str]]:
    """Begin an upload; its target and the ETags of its parts."""
    target = {"Bucket": bucket, "Key": key}
    target["UploadId"] = s3.create_multipart_upload(**target)["UploadId"]
    etags = {
        n: s3.upload_part(**target, PartNumber=n, Body=f"{n};".encode())["ETag"] for n in numbers
    }
    return target, etags


def finish(s3: Any, target: dict[str, str], etags: dict[int, str], listed: list[int]) -> None:
    parts = [{"PartNumber": n, "ETag": etags[n]} for n in listed]
    s3.complete_multipart_upload(**target, MultipartUpload={"Parts": parts})


def restore_begun(account: Account, bucket: str, target: dict[str, str]) -> None:
    """The upload is still open, as after a proxy that stopped before it removed that object."""
    name = f"{target['Key']}/{target['UploadId']}"
    assert account.call("PUT", f"{bucket}+segments", name, body=b"").status == 201


def test_an_open_upload_keeps_its_parts(
    cluster: RunningCluster, s3: Any, account: Account, bucket: str
) -> None:
    """An interrupted completion leaves the upload open: it is listed, and takes parts."""
    target, etags = begin(s3, bucket, [1, 2])
    finish(s3, target, etags, [1])
    restore_begun(account, bucket, target)
    await_later_parts(cluster, s3, account, bucket)
    assert [part["PartNumber"] for part in s3.list_parts(**target)["Parts"]] == [1, 2]
    finish(s3, target, etags, [1, 2])
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"1;2;"


def test_a_delete_before_the_upload_is_closed_deletes_the_parts(
    cluster: RunningCluster, s3: Any, account: Account, bucket: str
) -> None:
    """A DELETE between the manifest and the end of a completion, which then ends."""
    target, etags = begin(s3, bucket, [1, 2])
    finish(s3, target, etags, [1, 2])
    restore_begun(account, bucket, target)
    s3.delete_object(Bucket=bucket, Key="k")
    assert account.call("DELETE", f"{bucket}+segments", f"k/{target['UploadId']}").status == 204
    await_later_parts(cluster, s3, account, bucket)
    assert account.call("GET", f"{bucket}+segments").lines == []


def test_a_delete_during_the_end_of_a_completion_deletes_the_parts(
    cluster: RunningCluster, s3: Any, account: Account, bucket: str
) -> None:
    """The object can be seen before its completion is answered, and is deleted then."""
    for _ in range(12):
        target, etags = begin(s3, bucket, [1, 2])
        with ThreadPoolExecutor(1) as pool:
            end = pool.submit(finish, s3, target, etags, [1, 2])
            while True:
                try:
                    s3.head_object(Bucket=bucket, Key="k")
                    break
                except s3.exceptions.ClientError:
                    continue
            s3.delete_object(Bucket=bucket, Key="k")
            end.result()
    await_later_parts(cluster, s3, account, bucket)
    assert account.call("GET", f"{bucket}+segments").lines == []


def test_two_deletes_at_once_succeed(
    cluster: RunningCluster, s3: Any, account: Account, bucket: str
) -> None:
    for _ in range(12):
        target, etags = begin(s3, bucket, [1, 2])
        finish(s3, target, etags, [1, 2])
        with ThreadPoolExecutor(4) as pool:
            ends = [pool.submit(s3.delete_object, Bucket=bucket, Key="k") for _ in range(4)]
        assert [end.result()["ResponseMetadata"]["HTTPStatusCode"] for end in ends] == [204] * 4
    await_later_parts(cluster, s3, account, bucket)
    assert account.call("GET", f"{bucket}+segments").lines == []


def test_the_parts_go_although_no_container_server_answers_the_delete(
    new_cluster: Callable[..., RunningCluster], tmp_path: Path
) -> None:
    own = new_cluster().start().await_writes()
    with (
        prompt_s3(own, tmp_path, read_timeout=120) as s3,
        closing(Account(own.port)) as account,
    ):
        s3.create_bucket(Bucket="bucket")
        target, etags = begin(s3, "bucket", [1, 2])
        finish(s3, target, etags, [1, 2])
        with stopped(own, "container-server"):
            s3.delete_object(Bucket="bucket", Key="k")

        def is_empty() -> bool:
            expire(own)
            return account.call("GET", "bucket+segments").lines == []

        await_true(is_empty, "no parts")


def test_a_delete_of_many_uploads_does_not_wait_for_each(four_nodes: RunningCluster) -> None:
    """Two of the four container servers do not answer."""
    s3 = s3_client(four_nodes.port, read_timeout=60)
    name = f"many-{os.getpid()}"
    s3.create_bucket(Bucket=name)
    for number in range(40):
        target, etags = begin(s3, name, [1], f"k{number}")
        finish(s3, target, etags, [1])
    doomed = {"Objects": [{"Key": f"k{number}"} for number in range(40)]}
    first, second = "container-server-node1", "container-server-node2"
    with stopped(four_nodes, first), stopped(four_nodes, second):
        assert len(s3.delete_objects(Bucket=name, Delete=doomed)["Deleted"]) == 40

"""Completions of one upload at the same moment make one version, at whatever proxy."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cluster_databases import listed_versions, ring_of
from frozen import frozen
from multipart_parts import SECTION, prompt_s3, put
from other_proxy import OtherProxy
from running_cluster import RunningCluster, descendants
from s3_client import outcomes_of, s3_client
from shared_parts import read, versions_of

from cluster.confs import PIPELINE

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def proxies(
    cluster: RunningCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Any, Any]]:
    """Clients of two proxies that take small parts."""
    directory = tmp_path_factory.mktemp("proxies")
    with prompt_s3(cluster, directory) as first, prompt_s3(cluster, directory) as second:
        yield first, second


def new_bucket(s3: Any, status: str = "Enabled") -> str:
    name = f"one-version-{next(_numbers)}-{os.getpid()}"
    s3.create_bucket(Bucket=name)
    if status:
        s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": status})
    return name


def begin(s3: Any, bucket: str, key: str = "k") -> dict[str, Any]:
    """An upload of two parts; the arguments that complete it."""
    target = {"Bucket": bucket, "Key": key}
    target["UploadId"] = s3.create_multipart_upload(**target)["UploadId"]
    parts = []
    for number, body in ((1, b"one"), (2, b"two")):
        etag = s3.upload_part(**target, PartNumber=number, Body=body)["ETag"]
        parts.append({"PartNumber": number, "ETag": etag})
    return {**target, "MultipartUpload": {"Parts": parts}}


def at_once(proxies: tuple[Any, Any], **arguments: Any) -> set[str]:
    """Three completions at each proxy; the ids of the versions in the answers."""
    calls: list[Callable[..., Any]] = [s3.complete_multipart_upload for s3 in proxies * 3]
    with ThreadPoolExecutor(len(calls)) as pool:
        ends = [pool.submit(call, **arguments) for call in calls]
        return {end.result()["VersionId"] for end in ends}


def check_completions_at_once(proxies: tuple[Any, Any], bucket: str) -> None:
    """Complete eight uploads; each has one version, which all answers name."""
    s3 = proxies[0]
    for number in range(8):
        key = f"k{number}"
        told = at_once(proxies, **begin(s3, bucket, key))
        assert told == set(versions_of(s3, bucket, key))
        assert len(told) == 1
        assert read(s3, bucket, told.pop(), key) == b"onetwo"


def test_completions_at_once_make_one_version(proxies: tuple[Any, Any]) -> None:
    s3 = proxies[0]
    bucket = new_bucket(s3)
    check_completions_at_once(proxies, bucket)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_completions_at_once_above_another_version(proxies: tuple[Any, Any]) -> None:
    """Also above a delete marker."""
    s3 = proxies[0]
    bucket = new_bucket(s3)
    put(s3, bucket)
    for number in range(1, 7):
        told = at_once(proxies, **begin(s3, bucket))
        assert len(told) == 1
        assert len(versions_of(s3, bucket)) == number + 1
        if number % 2:
            s3.delete_object(Bucket=bucket, Key="k")


def test_completions_at_once_with_a_condition(proxies: tuple[Any, Any]) -> None:
    s3 = proxies[0]
    bucket = new_bucket(s3)
    for number in range(4):
        key = f"k{number}"
        told = at_once(proxies, **begin(s3, bucket, key), IfNoneMatch="*")
        assert told == set(versions_of(s3, bucket, key))
        assert len(told) == 1


@pytest.mark.parametrize("mode", ["GOVERNANCE", "COMPLIANCE"])
def test_completions_at_once_that_lock_the_parts(proxies: tuple[Any, Any], mode: str) -> None:
    """Each has a time of its own until which it locks the parts."""
    s3 = proxies[0]
    bucket = f"one-version-{next(_numbers)}-{os.getpid()}"
    s3.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    rule = {"DefaultRetention": {"Mode": mode, "Days": 1}}
    wanted = {"ObjectLockEnabled": "Enabled", "Rule": rule}
    s3.put_object_lock_configuration(Bucket=bucket, ObjectLockConfiguration=wanted)
    check_completions_at_once(proxies, bucket)


def test_other_writes_of_the_key_refuse_no_completion(proxies: tuple[Any, Any]) -> None:
    s3 = proxies[0]
    bucket = new_bucket(s3)
    told: list[tuple[str, str]] = []

    def complete(client: Any, one: dict[str, Any]) -> None:
        done = client.complete_multipart_upload(**one)
        told.append((one["UploadId"], done["VersionId"]))

    calls: list[Callable[[], Any]] = []
    for _ in range(4):
        one = begin(s3, bucket)
        calls += [partial(complete, client, one) for client in proxies]
        calls += [partial(put, client, bucket) for client in proxies]
    assert set(outcomes_of(calls)) == {"done"}
    assert len({upload for upload, _ in told}) == 4
    for _, version in told:
        assert read(s3, bucket, version) == b"onetwo"


@pytest.mark.parametrize("status", ["", "Suspended"])
def test_a_repeated_completion_after_another_write(proxies: tuple[Any, Any], status: str) -> None:
    """The upload is over, and what was written later stays."""
    s3 = proxies[0]
    bucket = new_bucket(s3, status)
    completion = begin(s3, bucket)
    s3.complete_multipart_upload(**completion)
    put(s3, bucket)
    assert outcomes_of([lambda: s3.complete_multipart_upload(**completion)]) == ["NoSuchUpload"]
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"new"


def test_a_version_that_a_replica_refused_is_in_all_listings(
    four_nodes: RunningCluster, tmp_path: Path
) -> None:
    """It has missed the current version, so the condition does not hold there."""
    with prompt_s3(four_nodes, tmp_path) as s3:
        bucket = new_bucket(s3)
        completion = begin(s3, bucket)
        _, primaries = ring_of(four_nodes, "object").get_nodes("AUTH_test", bucket, "k")
        port = primaries[2]["port"]
        node = next(n for n in range(1, 5) if four_nodes.storage_port("object", n) == port)
        server = four_nodes.pid_of(f"object-server-node{node}")
        with frozen(server, *descendants(server)):
            put(s3_client(four_nodes.port), bucket)  # the other proxy does not know that it hangs
        version = s3.complete_multipart_upload(**completion)["VersionId"]
    for rows in listed_versions(four_nodes, "AUTH_test", bucket):
        assert version in rows


def test_completions_while_a_server_does_not_answer(
    four_nodes: RunningCluster, tmp_path: Path
) -> None:
    """It may have the first replica, without which there is no condition."""
    sections = {"filter:s3api": SECTION}
    with OtherProxy(four_nodes, tmp_path, PIPELINE, sections, workers=1) as proxy:
        s3 = s3_client(proxy.port, read_timeout=120)
        bucket = new_bucket(s3)
        completions = [begin(s3, bucket, f"k{number}") for number in range(6)]
        server = four_nodes.pid_of("object-server-node1")
        with frozen(server, *descendants(server)):
            calls = [partial(s3.complete_multipart_upload, **one) for one in completions]
            assert outcomes_of(calls) == ["done"] * 6
        for one in completions:
            (version,) = versions_of(s3, bucket, one["Key"])
            assert read(s3, bucket, version, one["Key"]) == b"onetwo"

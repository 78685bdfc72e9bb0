"""Completions that are sent again while one replica alone has the object."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cluster_databases import ring_of
from null_versions import missed_by, versioning
from object_replicas import replicate_objects
from other_proxy import OtherProxy
from running_cluster import RunningCluster
from s3_client import outcomes_of, s3_client
from shared_parts import read, versions_of
from storage_connection import StorageConnection
from swift_api import Account

from cluster.confs import PIPELINE
from cluster.ports import HOST
from martlet.words.names import quote_path
from martlet.words.timestamp import Timestamp

_NO_HANDOFFS = {
    "use": "egg:martlet#proxy",
    "account_autocreate": "true",
    "request_node_count": "3",
}
_numbers = itertools.count(1)


class Completion:
    """An upload of one part, and requests to complete it."""

    def __init__(self, cluster: RunningCluster, status: str = "Enabled", key: str = "k") -> None:
        self.cluster = cluster
        self.s3 = s3_client(cluster.port, read_timeout=120)
        self.bucket = f"made-by-few-{next(_numbers)}-{os.getpid()}"
        self.at = {"Bucket": self.bucket, "Key": key}
        self.s3.create_bucket(Bucket=self.bucket)
        if status:
            versioning(self.s3, self.at, status)
        self.target = {
            **self.at,
            "UploadId": self.s3.create_multipart_upload(**self.at)["UploadId"],
        }
        part = self.s3.upload_part(**self.target, PartNumber=1, Body=b"one")
        self.parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}

    def send(self) -> str:
        """Complete it; return the id of the version, "" without one."""
        done = self.s3.complete_multipart_upload(**self.target, MultipartUpload=self.parts)
        return str(done.get("VersionId", ""))

    def refusals(self) -> list[str]:
        return outcomes_of([self.send])

    def close(self) -> None:
        """The upload is over, as after another request that has completed it."""
        self._mark("DELETE", 204)

    def reopen(self) -> None:
        """The upload is open again, as after a proxy that stopped before the end."""
        self._mark("PUT", 201)

    def _mark(self, method: str, status: int) -> None:
        with closing(Account(self.cluster.port)) as account:
            name = f"{self.at['Key']}/{self.target['UploadId']}"
            assert account.call(method, f"{self.bucket}+segments", name, body=b"").status == status

    def made(self) -> list[str]:
        """The id of the version of the upload on each replica, "" for none."""
        named = self._heads(f"made-of:{self.target['UploadId']}")
        return [found or "" if status == 200 else "" for status, found in named]

    def statuses(self, version: str) -> list[int]:
        """The answers of the replicas for a version."""
        return [status for status, _ in self._heads(Timestamp(version).internal)]

    def _heads(self, version: str) -> list[tuple[int, str | None]]:
        partition, nodes = ring_of(self.cluster, "object").get_nodes(
            "AUTH_test", self.bucket, self.at["Key"]
        )
        found = []
        for node in nodes:
            connection = StorageConnection(self.cluster.home, HOST, node["port"])
            path = quote_path(f"/AUTH_test/{self.bucket}/{self.at['Key']}")
            headers = {"X-Backend-Version-Id": version}
            connection.request("HEAD", f"/{node['device']}/{partition}{path}", headers=headers)
            answer = connection.getresponse()
            found.append((answer.status, answer.headers["X-Backend-Version-Id"]))
            connection.close()
        return found


@pytest.fixture(scope="module")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """Each node has each object; no jobs repair them."""
    home = tmp_path_factory.mktemp("three-nodes")
    cluster = RunningCluster(home, "--nodes", "3", "--no-background").start().await_writes()
    yield cluster
    cluster.stop()


def missed_by_two(cluster: RunningCluster, write: Callable[[], Any]) -> None:
    """Write while two object servers are stopped; they never get the write."""
    missed_by(cluster, 2, lambda: missed_by(cluster, 3, write, is_known=True))


@pytest.fixture
def of_one(three_nodes: RunningCluster, tmp_path: Path) -> Completion:
    """A completion that one replica alone has taken, and that was refused."""
    completion = Completion(three_nodes)
    own, told = completion.s3, []
    with OtherProxy(three_nodes, tmp_path, PIPELINE, {"app:proxy-server": _NO_HANDOFFS}) as proxy:
        completion.s3 = s3_client(proxy.port, read_timeout=120)
        missed_by_two(three_nodes, lambda: told.extend(completion.refusals()))
    completion.s3 = own
    assert told == ["ServiceUnavailable"]
    assert sorted(completion.made())[:2] == ["", ""]
    assert max(completion.made())
    return completion


def test_a_version_that_one_replica_has_is_written_again(of_one: Completion) -> None:
    (version,) = filter(None, of_one.made())
    assert of_one.send() == version
    assert of_one.statuses(version) == [200] * 3
    assert versions_of(of_one.s3, of_one.bucket) == [version]
    assert read(of_one.s3, of_one.bucket, version) == b"one"
    assert of_one.send() == version


def test_a_version_that_cannot_be_written_again_is_acknowledged_later(
    three_nodes: RunningCluster, of_one: Completion
) -> None:
    """Another request has closed the upload. Replicators bring the version to the others."""
    (version,) = filter(None, of_one.made())
    of_one.close()
    assert of_one.refusals() == ["ServiceUnavailable"]
    assert of_one.statuses(version).count(200) == 1
    replicate_objects(three_nodes)
    assert of_one.send() == version
    assert of_one.statuses(version) == [200] * 3
    assert read(of_one.s3, of_one.bucket, version) == b"one"


def test_a_version_that_was_removed_stays_away(three_nodes: RunningCluster) -> None:
    """A replica has missed the removal: for some names the first, for others a later one."""
    made = [Completion(three_nodes) for _ in range(6)]
    versions = {one: one.send() for one in made}

    def remove_all() -> None:
        for one, version in versions.items():
            one.s3.delete_object(**one.at, VersionId=version)

    missed_by(three_nodes, 2, remove_all)
    opened = made[::2]
    for one in opened:
        one.reopen()
    for one, version in versions.items():
        assert sorted(one.statuses(version)) == [200, 404, 404]
        assert one.refusals() == ["ServiceUnavailable"]
        assert sorted(one.statuses(version)) == [200, 404, 404]
    for _ in range(2):
        replicate_objects(three_nodes)
    for one, version in versions.items():
        assert one.statuses(version) == [404] * 3
        if one in opened:
            assert one.send() != version
        else:
            assert one.refusals() == ["NoSuchUpload"]
        assert one.statuses(version) == [404] * 3
        assert version not in versions_of(one.s3, one.bucket)


@pytest.mark.parametrize("status", ["", "Suspended"])
def test_an_object_that_was_overwritten_is_not_acknowledged(
    three_nodes: RunningCluster, status: str
) -> None:
    """A replica has missed the overwrite."""
    completion = Completion(three_nodes, status)
    completion.send()
    missed_by(three_nodes, 1, lambda: completion.s3.put_object(**completion.at, Body=b"new"))
    assert completion.refusals() == ["ServiceUnavailable"]
    for _ in range(2):
        replicate_objects(three_nodes)
    assert completion.refusals() == ["NoSuchUpload"]
    assert completion.s3.get_object(**completion.at)["Body"].read() == b"new"

"""``martlet object-info`` on files that the object server wrote."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest
import xattr  # type: ignore[import-untyped]
from running_cluster import RunningCluster, await_true
from swift_api import Account

LARGE = os.urandom(2 << 20)


def info(cluster: RunningCluster, *arguments: object) -> Any:
    done = cluster.command("object-info", "--json", *map(str, arguments))
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def found(cluster: RunningCluster, pattern: str) -> list[Path]:
    return sorted((cluster.home / "devices").rglob(pattern))


def sizes(cluster: RunningCluster) -> dict[Path, int]:
    """Return the size of each segment; one may be removed meanwhile."""
    known = {}
    for path in found(cluster, "*.bundle"):
        with suppress(FileNotFoundError):
            known[path] = path.stat().st_size
    return known


def test_a_large_object_after_a_post(
    cluster: RunningCluster, account: Account, container: str
) -> None:
    before = set(found(cluster, "large/*.data"))
    headers = {"X-Object-Meta-Color": "blue", "Content-Type": "image/png"}
    assert account.call("PUT", container, "large", body=LARGE, headers=headers).status == 201
    assert (
        account.call("POST", container, "large", headers={"X-Object-Meta-Color": "red"}).status
        == 202
    )

    def new_files() -> set[Path]:
        return set(found(cluster, "large/*.data")) - before

    await_true(lambda: len(new_files()) == 3, "three replicas")
    for path in new_files():
        try:
            xattr.getxattr(str(path), "user.martlet.metadata")
        except OSError as error:
            pytest.skip(f"the file system keeps no user attributes: {error}")
        report = info(cluster, "-d", cluster.home / "etc", path)
        assert report["path"].endswith(f"/{container}/large")
        assert report["content_type"] == "image/png"
        assert report["user_metadata"] == {"X-Object-Meta-Color": "red"}
        digest = md5(LARGE, usedforsecurity=False).hexdigest()
        assert report["etag"] == f"{digest} (valid)"
        assert report["content_length"] == f"{len(LARGE)} (valid)"
        assert str(report["partition"]) == path.parent.parent.name
        device = path.relative_to(cluster.home / "devices").parts[0]
        assert any(node.endswith(f" {device}") for node in report["nodes"])


def test_a_small_object(cluster: RunningCluster, account: Account, container: str) -> None:
    before = sizes(cluster)
    assert account.call("PUT", container, "small", body=b"hello").status == 201

    def written() -> list[Path]:
        return [path for path, size in sizes(cluster).items() if size > before.get(path, 0)]

    await_true(lambda: len(written()) >= 3, "three replicas")
    name, reports = "", []
    for path in written():
        for line in info(cluster, path):
            if line.get("name", "").endswith(f"/{container}/small"):
                name = line["name"]
                reports.append(info(cluster, "--name", name, path))
    assert len(reports) == 3
    for report in reports:
        assert report["etag"] == md5(b"hello", usedforsecurity=False).hexdigest()
        assert report["data"] == "valid"

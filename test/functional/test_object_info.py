"""``martlet object-info`` on files that the object server wrote."""

from __future__ import annotations

import json
import os
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest
import xattr  # type: ignore[import-untyped]
from running_cluster import RunningCluster
from swift_api import Account

LARGE = os.urandom(2 << 20)


def info(cluster: RunningCluster, *arguments: object) -> Any:
    done = cluster.command("object-info", "--json", *map(str, arguments))
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def found(cluster: RunningCluster, pattern: str) -> list[Path]:
    return sorted((cluster.home / "devices").rglob(pattern))


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
    files = set(found(cluster, "large/*.data")) - before
    assert len(files) == 3  # replicas
    for path in files:
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
    before = {path: path.stat().st_size for path in found(cluster, "*.bundle")}
    assert account.call("PUT", container, "small", body=b"hello").status == 201
    written = [
        path for path in found(cluster, "*.bundle") if path.stat().st_size > before.get(path, 0)
    ]
    name, reports = "", []
    for path in written:
        for line in info(cluster, path):
            if line.get("name", "").endswith(f"/{container}/small"):
                name = line["name"]
                reports.append(info(cluster, "--name", name, path))
    assert len(reports) == 3
    for report in reports:
        assert report["etag"] == md5(b"hello", usedforsecurity=False).hexdigest()
        assert report["data"] == "valid"

"""python-swiftclient uploads, lists, downloads and deletes a real tree, byte for byte.

The tree is Go's own source: a part of it, or the whole (~10,000 files) when MARTLET_TEST_FULL_TREE
is set, as `make functional-full` does.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from running_cluster import RunningCluster, await_true
from swift_api import Account
from swift_client import swift
from uploader import listing
from usage import usage_of_replicas

PARTS = ("net", "crypto") if not os.environ.get("MARTLET_TEST_FULL_TREE") else ("",)


def go_source() -> Path:
    output = subprocess.run(
        ["go", "env", "GOROOT"], check=True, capture_output=True, text=True
    ).stdout
    return Path(output.strip()) / "src"


def files_below(root: Path, parts: tuple[str, ...]) -> dict[str, Path]:
    """Return every regular file, by its path from ``root``."""
    return {
        str(path.relative_to(root)): path
        for part in parts
        for path in (root / part).rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def test_a_tree_goes_in_and_out_unchanged(cluster: RunningCluster, tmp_path: Path) -> None:
    source = go_source()
    files = files_below(source, PARTS)
    assert len(files) > 1000
    container = "tree"
    swift(cluster, source, "upload", container, *(part or "." for part in PARTS))
    account = Account(cluster.port)
    owner = account.path.rpartition("/")[2]

    def all_replicas_list_all() -> bool:
        found = set(usage_of_replicas(cluster.home, owner, container))
        return len(found) == 1 and found.pop()[0] >= len(files)

    await_true(all_replicas_list_all, "whole listings")

    listed = swift(cluster, tmp_path, "list", container).splitlines()
    # The client also uploads a marker for each directory that is empty.
    assert set(files) <= set(listed)
    assert listed == sorted(listed, key=str.encode)

    assert listing(account, container) == listed
    usage = len(listed), sum(path.stat().st_size for path in files.values())
    assert set(usage_of_replicas(cluster.home, owner, container)) == {usage}

    swift(cluster, tmp_path, "download", container)
    got = files_below(tmp_path, ("",))
    assert set(got) == set(files)
    changed = [name for name in files if got[name].read_bytes() != files[name].read_bytes()]
    assert changed == []

    swift(cluster, tmp_path, "delete", container)
    await_true(lambda: account.call("HEAD", container).status == 404, "no container")
    await_true(lambda: container not in account.call("GET").lines, "the account's listing")

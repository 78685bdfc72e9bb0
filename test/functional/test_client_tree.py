"""python-swiftclient uploads, lists, downloads and deletes a real tree, byte for byte.

The tree is Go's own source: a part of it, or the whole (~10,000 files) when MARTLET_TEST_FULL_TREE
is set, as `make functional-full` does.
"""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path

from running_cluster import RunningCluster
from swift_api import Account
from uploader import listing

SWIFT = str(Path(sysconfig.get_path("scripts")) / "swift")
PARTS = ("net", "crypto") if not os.environ.get("MARTLET_TEST_FULL_TREE") else ("",)


def go_source() -> Path:
    output = subprocess.run(
        ["go", "env", "GOROOT"], check=True, capture_output=True, text=True
    ).stdout
    return Path(output.strip()) / "src"


def files_below(root: Path, parts: tuple[str, ...]) -> dict[str, Path]:
    """Every regular file, by its path from ``root``."""
    return {
        str(path.relative_to(root)): path
        for part in parts
        for path in (root / part).rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def swift(cluster: RunningCluster, cwd: Path, *arguments: str) -> str:
    login = ["-A", f"{cluster.url}/auth/v1.0", "-U", "test:tester", "-K", "testing"]
    done = subprocess.run(
        [SWIFT, *login, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr == ""
    return done.stdout


def test_a_tree_goes_in_and_out_unchanged(cluster: RunningCluster, tmp_path: Path) -> None:
    source = go_source()
    files = files_below(source, PARTS)
    assert len(files) > 1000
    container = "tree"
    swift(cluster, source, "upload", container, *(part or "." for part in PARTS))

    listed = swift(cluster, tmp_path, "list", container).splitlines()
    # The client also uploads a marker for each directory that is empty.
    assert set(files) <= set(listed)
    assert listed == sorted(listed, key=str.encode)

    account = Account(cluster.port)
    assert listing(account, container) == listed
    stat = account.call("HEAD", container).headers
    assert int(stat["x-container-object-count"]) == len(listed)
    assert int(stat["x-container-bytes-used"]) == sum(p.stat().st_size for p in files.values())

    swift(cluster, tmp_path, "download", container)
    got = files_below(tmp_path, ("",))
    assert set(got) == set(files)
    changed = [name for name in files if got[name].read_bytes() != files[name].read_bytes()]
    assert changed == []

    swift(cluster, tmp_path, "delete", container)
    assert account.call("HEAD", container).status == 404
    assert container not in account.call("GET").lines

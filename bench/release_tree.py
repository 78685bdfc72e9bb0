# SPDX-License-Identifier: Apache-2.0
"""Source trees of former releases, built once under ``build/releases`` and kept there."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Stands for the release before this one until there is a tag: the last commit before object lock.
RELEASE_BEFORE = "5288686c0811444c41460ad2f0356c5294394851"
_BUILT = ".release-built"
_VERSION = re.compile(r"(?m)^version = (\S+)$")


def release_before(repository: Path = ROOT) -> str:
    """The commit of the last tag before the present one, or ``RELEASE_BEFORE``."""
    command = ["git", "describe", "--tags", "--abbrev=0", "HEAD~1"]
    found = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    return found.stdout.strip() if found.returncode == 0 else RELEASE_BEFORE


def release_tree(name: str, repository: Path = ROOT) -> Path:
    """The tree of a directory, in which `make build` was run, or of a commit, which is built here.

    The version of the built release ends with its commit, so that servers can be told apart. A
    crash leaves a tree without its last file. The next call makes it anew.

    :raises SystemExit: there is no such directory and no such commit.
    """
    if Path(name).is_dir():
        return Path(name).absolute()
    commit = _commit(name, repository)
    tree = repository / "build" / "releases" / commit[:12]
    tree.parent.mkdir(parents=True, exist_ok=True)
    with tree.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (tree / _BUILT).exists():
            shutil.rmtree(tree, ignore_errors=True)
            _unpack(commit, tree, repository)
            _build(tree)
            (tree / _BUILT).touch()
    return tree


def version_of(tree: Path) -> str:
    """The version of the release in a tree."""
    found = _VERSION.search((tree / "setup.cfg").read_text())
    assert found is not None, tree
    return found[1]


def _commit(name: str, repository: Path) -> str:
    command = ["git", "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"]
    found = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    if found.returncode != 0:
        raise SystemExit(f"{name} is neither a directory nor a commit of {repository}")
    return found.stdout.strip()


def _unpack(commit: str, tree: Path, repository: Path) -> None:
    archive = ["git", "archive", "--format=tar", commit]
    tree.mkdir()
    with subprocess.Popen(archive, cwd=repository, stdout=subprocess.PIPE) as git:
        subprocess.run(["tar", "-x"], cwd=tree, stdin=git.stdout, check=True)
    if git.returncode != 0:
        raise SystemExit(f"git archive {commit} failed")
    setup = tree / "setup.cfg"
    setup.write_text(_VERSION.sub(rf"version = \1+{commit[:12]}", setup.read_text(), count=1))


def _build(tree: Path) -> None:
    """Run its own `make build`, without what a make around this process has set."""
    outer = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MARTLET_OBJECT_SERVER")
    environment = {name: value for name, value in os.environ.items() if name not in outer}
    subprocess.run(["make", "build"], cwd=tree, env=environment, check=True)

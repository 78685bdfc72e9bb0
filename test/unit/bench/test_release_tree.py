# SPDX-License-Identifier: Apache-2.0
"""Trees of former releases: which commit is the release before, and how a tree is built."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from release_tree import RELEASE_BEFORE, release_before, release_tree, version_of

_MAKEFILE = "build:\n\techo built >> builds; test -z '$(MAKELEVEL:0=)'\n"
_AUTHOR = {
    f"GIT_{role}_{what}": "t@example.org"
    for role in ("AUTHOR", "COMMITTER")
    for what in ("NAME", "EMAIL")
}


def git(repository: Path, *arguments: str) -> str:
    command = ["git", "-c", "init.defaultBranch=main", *arguments]
    environment = {**os.environ, **_AUTHOR}
    run = subprocess.run(
        command, cwd=repository, env=environment, check=True, capture_output=True, text=True
    )
    return run.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits; ``make build`` notes that it ran."""
    git(tmp_path, "init", "-q")
    (tmp_path / "Makefile").write_text(_MAKEFILE)
    for number in (1, 2):
        (tmp_path / "setup.cfg").write_text(f"[metadata]\nversion = 0.{number}\n")
        git(tmp_path, "add", "Makefile", "setup.cfg")
        git(tmp_path, "commit", "-q", "-m", str(number))
    return tmp_path


def test_the_release_before(repository: Path) -> None:
    assert release_before(repository) == RELEASE_BEFORE
    git(repository, "tag", "v0.1", "HEAD~1")
    assert release_before(repository) == "v0.1"
    git(repository, "tag", "v0.2")
    assert release_before(repository) == "v0.1"  # v0.2 is this one


def test_a_commit_is_built_once(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAKELEVEL", "1")
    monkeypatch.setenv("MAKEFLAGS", "n")  # would build nothing
    commit = git(repository, "rev-parse", "HEAD~1")
    tree = release_tree("HEAD~1", repository)
    assert version_of(tree) == f"0.1+{commit[:12]}"
    assert release_tree(commit, repository) == tree
    assert (tree / "builds").read_text() == "built\n"


def test_a_tree_whose_build_was_cut_off_is_built_anew(repository: Path) -> None:
    tree = release_tree("HEAD", repository)
    (tree / ".release-built").unlink()
    (tree / "builds").write_text("half ")
    release_tree("HEAD", repository)
    assert (tree / "builds").read_text() == "built\n"


def test_a_directory_is_taken_as_it_is(repository: Path) -> None:
    assert release_tree(str(repository), repository) == repository
    assert not (repository / "build").exists()


def test_what_is_neither_a_directory_nor_a_commit(repository: Path) -> None:
    with pytest.raises(SystemExit, match="no-such is neither a directory nor a commit"):
        release_tree("no-such", repository)

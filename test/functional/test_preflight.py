"""A missing requirement of the machine is reported in one sentence before the build."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from source_tree import ROOT

TOOLS = ("git", "gcc", "go", "sed", "sh")


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A directory for PATH with all required tools and no others."""
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None
        script(tmp_path / tool, f'exec {found} "$@"')
    # `python3` may be a script that needs more tools.
    script(tmp_path / "python3", f'exec {sys.base_prefix}/bin/python3 "$@"')
    return tmp_path


def script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def preflight(tools: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(ROOT / ".ci" / "preflight"), "python3"],
        env={"PATH": str(tools), "HOME": str(tools)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def refusal(tools: Path) -> str:
    done = preflight(tools)
    assert done.returncode == 1
    assert done.stderr.startswith("martlet: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_a_machine_with_everything_passes_in_silence(tools: Path) -> None:
    done = preflight(tools)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("tool", ["git", "gcc", "go", "python3"])
def test_a_missing_tool_is_named(tools: Path, tool: str) -> None:
    (tools / tool).unlink()
    assert f"{tool} is missing: install" in refusal(tools)


@pytest.mark.parametrize("version", ["go1.9", "go1.23.4"])
def test_an_old_go_is_named(tools: Path, version: str) -> None:
    script(tools / "go", f"echo {version}")
    assert f"{version} is too old: Go 1.24 or newer is needed" in refusal(tools)


def test_an_old_python_is_named(tools: Path) -> None:
    script(tools / "python3", "exit 1")
    assert "python3 is too old: Python 3.11 or newer is needed" in refusal(tools)


def test_a_python_without_venv_is_named(tools: Path) -> None:
    script(tools / "python3", 'case "$2" in *ensurepip*) exit 1;; esac')
    assert "cannot make environments: install its venv module" in refusal(tools)

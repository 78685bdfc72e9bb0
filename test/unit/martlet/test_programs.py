"""The programs are found where they may lie; what is missing is named."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from martlet.service.programs import (
    OBJECT_SERVER,
    OBJECT_SERVER_VARIABLE,
    ProgramMissing,
    find_object_server,
    find_program,
)


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment and a PATH in which nothing is installed."""
    monkeypatch.delenv(OBJECT_SERVER_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "tree" / ".venv"))


def test_the_named_object_server_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "path" / OBJECT_SERVER)
    named = program(tmp_path / "named")
    monkeypatch.setenv(OBJECT_SERVER_VARIABLE, str(named))
    assert find_object_server() == str(named)


@pytest.mark.parametrize("place", ["tree/.venv/bin", "tree/build/bin", "path"])
def test_the_object_server_is_found_in(tmp_path: Path, place: str) -> None:
    found = program(tmp_path / place / OBJECT_SERVER)
    assert find_object_server() == str(found)


def test_a_missing_object_server_is_one_sentence() -> None:
    with pytest.raises(ProgramMissing, match="martlet-object-server is not found: build it with"):
        find_object_server()


def test_a_named_object_server_must_be_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OBJECT_SERVER_VARIABLE, str(tmp_path))
    with pytest.raises(ProgramMissing, match="is not a program"):
        find_object_server()


def test_a_script_is_found_by_its_path_or_named_when_missing(tmp_path: Path) -> None:
    found = program(tmp_path / "path" / "martlet-some-script")
    assert find_program("martlet-some-script") == str(found)
    assert find_program(str(found)) == str(found)
    with pytest.raises(ProgramMissing, match="martlet-other-script is not installed in"):
        find_program("martlet-other-script")

# SPDX-License-Identifier: Apache-2.0
"""What the comparison sends, how peers are built, and its command line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from compare.__main__ import main
from compare.apis import SwiftAccess, Target
from compare.build import PROGRAMS, GoProgram, NotBuilt, build, built, reason_in
from compare.workload import BYTES_MAX, OPERATIONS, Options, passes

TARGET = Target("swift", 1, SwiftAccess("t"), "/v1/a")
PROGRAM = GoProgram("example.org/module/cmd/tool", "v1.2.3")


def options(*operations: str, objects: int = 100) -> Options:
    return Options(objects, 4, 1, operations)


def test_every_object_is_written_read_and_deleted_once() -> None:
    steps = passes(TARGET, 4096, options("PUT", "GET", "DELETE"), 0)
    targets = {method: [step.target for step in steps[method]] for method in steps}
    assert len(set(targets["PUT"])) == 100
    assert sorted(targets["GET"]) == sorted(targets["DELETE"]) == targets["PUT"]
    assert targets["GET"] != targets["PUT"]


def test_the_mixed_load_meets_no_deleted_object() -> None:
    steps = passes(TARGET, 4096, options(*OPERATIONS), 0)
    mixed = steps["mixed"]
    counts = {
        method: sum(step.method == method for step in mixed) for method in steps | {"HEAD": 0}
    }
    assert (counts["GET"], counts["HEAD"], counts["PUT"], counts["DELETE"]) == (45, 30, 15, 10)
    gone = {step.target for step in mixed if step.method == "DELETE"}
    assert not gone & {step.target for step in mixed if step.method != "DELETE"}
    written = {step.target for step in [*steps["PUT"], *mixed] if step.method == "PUT"}
    assert {step.target for step in steps["DELETE"]} == written - gone


@pytest.mark.parametrize(
    ("size", "count"), [(1, 1000), (1 << 20, BYTES_MAX >> 20), (1 << 30, 2), (8 << 30, 2)]
)
def test_large_objects_are_few(size: int, count: int) -> None:
    assert options(objects=1000).count(size) == count
    steps = passes(TARGET, size, options(*OPERATIONS, objects=1000), 0)
    assert len(steps["PUT"]) == len(steps["mixed"]) == count


def go(directory: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program `go` that runs a script."""
    program = directory / "go"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")


def test_a_peer_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    go(tmp_path, 'echo "$@ $GOFLAGS $GOTOOLCHAIN" > $GOBIN/tool', monkeypatch)
    monkeypatch.setenv("GOTOOLCHAIN", "local")
    path = build(PROGRAM, cache)
    assert path == built(PROGRAM, cache) == cache / "tool-v1.2.3"
    wanted = "example.org/module/cmd/tool@v1.2.3 -p=1 -buildvcs=false local\n"
    assert path.read_text().endswith(wanted)
    go(tmp_path, "exit 1", monkeypatch)
    assert build(PROGRAM, cache) == path
    assert [entry.name for entry in cache.iterdir()] == ["tool-v1.2.3"]


def test_a_peer_that_cannot_be_built_has_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(tmp_path, "echo go: downloading x; echo tool needs go 1.99 >&2; exit 1", monkeypatch)
    with pytest.raises(NotBuilt, match=r"^tool needs go 1.99$"):
        build(PROGRAM, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_failure_without_words_has_a_reason_too() -> None:
    assert reason_in("go: downloading x\n\n") == "go install failed without a message"


@pytest.mark.parametrize(
    "words",
    [
        ["--peers", "garage"],
        ["--sizes", "4T"],
        ["--sizes", "0K"],
        ["--rounds", "-1"],
        ["--operations", "POST"],
        ["--binary", "minio"],
        ["--binary", "swift=/bin/true"],
        ["--versions", "ten"],
    ],
)
def test_nonsense_is_refused_before_anything_starts(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["bench-compare", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "bench-compare: error: argument --" in capsys.readouterr().err


def test_versions_are_pinned() -> None:
    assert all(program.version.startswith("v") for program in PROGRAMS.values())

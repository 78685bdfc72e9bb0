# SPDX-License-Identifier: Apache-2.0
"""The peers that are Go programs: built once from the Go module proxy, in pinned versions."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

_REASON_CHARACTERS_MAX = 300


@dataclass(frozen=True)
class GoProgram:
    """A program of a Go module."""

    package: str
    version: str

    @property
    def name(self) -> str:
        """The file that ``go install`` makes."""
        return self.package.rpartition("/")[2]


#: The versions of all Go peers. OpenStack Swift's is in constraints.txt.
PROGRAMS = {
    "minio": GoProgram("github.com/minio/minio", "v0.0.0-20260212201848-7aac2a2c5b7c"),
    "seaweedfs": GoProgram(
        "github.com/seaweedfs/seaweedfs/weed", "v0.0.0-20261109003541-7506e5f91cd6"
    ),
    "versitygw": GoProgram("github.com/versity/versitygw/cmd/versitygw", "v1.8.0"),
}


class NotBuilt(Exception):
    """A peer cannot be built here; the text is the reason."""


def default_cache() -> Path:
    """The directory of the programs that were built."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "martlet-compare"


def built(program: GoProgram, cache: Path) -> Path:
    """The path that a program has in the cache, whether it is there or not."""
    return cache / f"{program.name}-{program.version}"


def build(program: GoProgram, cache: Path) -> Path:
    """Build a program, unless the cache has it; with low priority and one compiler at a time.

    :raises NotBuilt: the Go module proxy or the compiler refuses.
    """
    path = built(program, cache)
    if path.exists():
        return path
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="building-", dir=cache) as directory:
        command = ["nice", "-n", "15", "go", "install", "-trimpath", "-ldflags", "-s -w"]
        environment = {
            **os.environ,
            "GOBIN": directory,
            "GOFLAGS": "-p=1 -buildvcs=false",
            "GOTOOLCHAIN": os.environ.get("GOTOOLCHAIN", "local"),
        }
        try:
            done = subprocess.run(
                [*command, f"{program.package}@{program.version}"],
                cwd=directory,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
            )
        except OSError as error:
            raise NotBuilt(str(error)) from error
        if done.returncode:
            raise NotBuilt(reason_in(done.stdout))
        shutil.move(Path(directory) / program.name, path)
    return path


def reason_in(output: str) -> str:
    """The reason in the output of a failed ``go install``: what is not a download."""
    lines = [line.strip() for line in output.splitlines()]
    told = [line for line in lines if line and not line.startswith("go: downloading ")]
    return " ".join(told)[:_REASON_CHARACTERS_MAX] or "go install failed without a message"

"""A disk below a real server that simulates failures: bad places, and calls that hang."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from frozen import frozen
from running_cluster import RunningCluster, await_true

from cluster.ports import HOST

MODULE = Path(__file__).resolve().parents[2] / "object-server"
STOP_SECONDS_MAX = 30
#: The failing device among the four of a cluster.
DEVICE = "d1"


def build_ill_disk(directory: Path) -> Path:
    """Compile the program; the test that needs it is skipped where it cannot run."""
    if not can_mount():
        pytest.skip("an ill disk needs root, /dev/fuse and Go")
    return build_program(directory)


def can_mount() -> bool:
    """Whether this user can mount an ill disk on this machine."""
    return os.geteuid() == 0 and Path("/dev/fuse").exists() and shutil.which("go") is not None


def build_program(directory: Path) -> Path:
    """Compile the program of the disk into a directory."""
    program = directory / "illdisk"
    command = ["go", "build", "-o", str(program), "./proof/illdisk"]
    subprocess.run(command, cwd=MODULE, check=True)
    return program


class IllDisk:
    """A directory that is a separate disk until the block ends."""

    def __init__(self, program: Path, backing: Path, mount_point: Path) -> None:
        """Create it; files of ``mount_point`` are in ``backing``, where a test can damage them."""
        self.backing = backing
        self._command = [str(program), str(backing), str(mount_point)]
        backing.mkdir(parents=True)
        mount_point.mkdir(parents=True)

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._line() == "ready"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS_MAX)
        finally:
            self._process.kill()

    def hang(self) -> None:
        """Make all calls hang."""
        self._say("hang")

    def hold_reads(self, suffix: str) -> None:
        """Make reads of files hang whose path has the suffix."""
        self._say(f"hold {suffix}")

    def held_reads(self) -> int:
        """Return how many of these reads hang now."""
        return int(self._ask("held"))

    def fill(self) -> None:
        """Make calls that need space fail."""
        self._say("full")

    def heal(self) -> None:
        """Let calls return again, make all places readable and free the space."""
        self._say("heal")

    def spoil(self, suffix: str, offset: int, length: int) -> None:
        """Make reads of these bytes fail in files whose path has the suffix."""
        self._say(f"bad {suffix} {offset} {length}")

    def _say(self, command: str) -> None:
        assert self._ask(command) == "ok"

    def _ask(self, command: str) -> str:
        assert self._process.stdin
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._line()

    def _line(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline().strip()


def hang_at_start(cluster: RunningCluster, disk: IllDisk, kind: str) -> None:
    """Kill the server of a kind; the disk hangs before the next one starts.

    A thread that waits for the disk outlives its process and keeps its port. So the disk must not
    hang before the killed process has ended; the supervisor is stopped meanwhile.
    """
    assert cluster.process is not None
    with frozen(cluster.process.pid):
        os.kill(cluster.pid_of(f"{kind}-server"), signal.SIGKILL)
        port = cluster.storage_port(kind)
        await_true(lambda: not is_listening(port), f"no more {kind} server on port {port}")
        disk.hang()


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0

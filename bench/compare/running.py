# SPDX-License-Identifier: Apache-2.0
"""A peer that runs: its processes, and how it is reached."""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from load import HOST
from processes import process_tree, tree_cpu_ms

from compare.apis import Target

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0


class NotStarted(Exception):
    """A peer does not run; the text is the reason."""


@dataclass(frozen=True)
class Running:
    """A running peer. ``pids``: the processes that were started, without their descendants."""

    pids: Sequence[int]
    targets: Mapping[str, Target]

    def cpu_ms(self) -> float:
        """The CPU time of all processes since they began."""
        return sum(tree_cpu_ms(pid) for pid in self.pids)

    def memory_mib(self) -> float:
        """The memory of all processes; a page that several share counts once in total."""
        members = {member for pid in self.pids for member in process_tree(pid)}
        return sum(_memory_mib(member) for member in members)


def _memory_mib(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0  # it has ended
    match = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return int(match.group(1)) / 1024 if match else 0.0


@contextmanager
def ended(processes: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    """End the processes after the block; kill those that do not end."""
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def await_listening(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Wait until something listens on the port.

    :raises NotStarted: the process has ended, or it takes too long.
    """
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        with socket.socket() as client:
            if client.connect_ex((HOST, port)) == 0:
                return
        if process.poll() is not None or time.monotonic() > deadline:
            said = log.read_text(errors="replace")[-500:]
            raise NotStarted(f"nothing listens on its port: {said}")
        time.sleep(0.05)

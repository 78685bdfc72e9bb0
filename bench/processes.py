# SPDX-License-Identifier: Apache-2.0
"""The resources used by the processes of a cluster: CPU time, memory, flushes, inodes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
FLUSH_CALLS = "fsync,fdatasync,syncfs,sync_file_range,msync"
# A call that another thread interrupts has a second line: "<... fsync resumed>".
_FLUSH = re.compile(rf"\b(?:{FLUSH_CALLS.replace(',', '|')})\(|\bopenat\(.*\bO_D?SYNC\b")
_ATTACH_SECONDS_MAX = 10.0


@dataclass(frozen=True)
class Usage:
    """The use of one service with all its workers: CPU since its start, present memory."""

    cpu_ms: float
    resident_mib: float


def services(home: Path) -> dict[str, int]:
    """The process id of every service of a running cluster, and of its supervisor, by name."""
    pids = {path.stem: int(path.read_text()) for path in sorted((home / "run").glob("*.pid"))}
    pids["supervisor"] = int((home / "run" / "supervisor.lock").read_text())
    return pids


def usage(home: Path) -> dict[str, Usage]:
    """The use of each service with its workers; the supervisor without the services."""
    found = {}
    for name, pid in services(home).items():
        members = [pid] if name == "supervisor" else process_tree(pid)
        found[name] = Usage(
            cpu_ms=sum(cpu_ms(member, is_parent=name != "supervisor") for member in members),
            resident_mib=sum(_resident_mib(member) for member in members),
        )
    return found


def process_tree(pid: int) -> list[int]:
    """A process and all its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(member for child in children for member in process_tree(int(child)))]


def cpu_ms(pid: int, is_parent: bool) -> float:
    """The user and system time of a process, with ``is_parent`` also of its reaped children."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    own, ended = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
    return (own + (ended if is_parent else 0)) * 1000 / TICKS_PER_SECOND


def tree_cpu_ms(pid: int) -> float:
    """The user and system time of a process and of all its descendants."""
    return sum(cpu_ms(member, is_parent=True) for member in process_tree(pid))


def _resident_mib(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    match = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    return int(match.group(1)) / 1024 if match else 0.0


def count_inodes(devices: Path) -> int:
    """The number of files and directories below the devices, each inode once."""
    return len({entry.lstat().st_ino for entry in devices.rglob("*")})


class FlushCount:
    """A count of flushes with strace, for each service, between ``start`` and ``stop``."""

    def __init__(self, pids: Mapping[str, int], scratch: Path) -> None:
        """``pids``: the process of each service, by name; its workers are found."""
        self._pids = pids
        self._scratch = scratch
        self._traces: dict[str, subprocess.Popen[bytes]] = {}
        self._process_counts: dict[str, int] = {}

    @staticmethod
    def is_possible() -> bool:
        """Whether strace is installed."""
        return shutil.which("strace") is not None

    def start(self) -> None:
        """Attach to every process.

        :raises RuntimeError: strace is not allowed to.
        """
        for name, pid in self._pids.items():
            tree = process_tree(pid)
            self._process_counts[name] = len(tree)
            members = [option for member in tree for option in ("-p", str(member))]
            command = ["strace", "-f", "-o", str(self._scratch / f"{name}.flushes")]
            with (self._scratch / f"{name}.strace").open("wb") as messages:
                self._traces[name] = subprocess.Popen(
                    [*command, "-e", f"trace={FLUSH_CALLS},openat", *members], stderr=messages
                )
        deadline = time.monotonic() + _ATTACH_SECONDS_MAX
        for name, trace in self._traces.items():
            messages_path = self._scratch / f"{name}.strace"
            wanted = self._process_counts[name]
            while messages_path.read_bytes().count(b" attached") < wanted:
                if trace.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"strace: {messages_path.read_text(errors='replace')}")
                time.sleep(0.02)

    def stop(self) -> dict[str, int]:
        """Detach; return the flushes of each service."""
        counts = {}
        for name, trace in self._traces.items():
            trace.send_signal(signal.SIGINT)
            trace.wait(30)
            with (self._scratch / f"{name}.flushes").open(errors="replace") as lines:
                counts[name] = count_flushes(lines)
        return counts


def count_flushes(lines: Iterable[str]) -> int:
    """Count the flushes in strace's lines; a file opened with O_SYNC or O_DSYNC counts as one."""
    return sum(_FLUSH.search(line) is not None for line in lines)

# SPDX-License-Identifier: Apache-2.0
"""Facts of the machine, and of the other programs that used it meanwhile."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from processes import TICKS_PER_SECOND

_ROOT = Path(__file__).resolve().parents[2]
#: Fields of /proc/stat in which a processor works: user, nice, system, irq, softirq.
_WORKING = (0, 1, 2, 5, 6)


class Meter:
    """The use of the processors since its creation: by the peers, by the client, by others."""

    def __init__(self, peers_cpu_ms: Callable[[], float]) -> None:
        self._peers_cpu_ms = peers_cpu_ms
        self._load = os.getloadavg()
        self._begin = time.monotonic()
        self._before = self._read()

    def _read(self) -> tuple[float, float, float]:
        times = os.times()
        client = (times.user + times.system + times.children_user + times.children_system) * 1000
        busy = busy_ticks(Path("/proc/stat").read_text()) * 1000 / TICKS_PER_SECOND
        return busy, self._peers_cpu_ms(), client

    def facts(self) -> dict[str, Any]:
        """The load before, and the shares of all processors in percent since then."""
        busy, peers, client = (
            after - before for after, before in zip(self._read(), self._before, strict=True)
        )
        all_ms = (time.monotonic() - self._begin) * 1000 * (os.cpu_count() or 1)
        return {
            "load_before": " ".join(f"{value:.1f}" for value in self._load),
            "client_percent": 100 * client / all_ms,
            "others_percent": max(0.0, 100 * (busy - peers - client) / all_ms),
        }


def busy_ticks(stat: str) -> int:
    """The ticks in which the processors worked, in the text of /proc/stat."""
    fields = stat.splitlines()[0].split()[1:]
    return sum(int(fields[index]) for index in _WORKING)


def machine_facts(directory: Path) -> dict[str, Any]:
    """The facts that do not change while the benchmark runs."""
    return {
        "at": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "commit": _output("git", "-C", str(_ROOT), "describe", "--always", "--dirty"),
        "processors": len(os.sched_getaffinity(0)),
        "python": f"{platform.python_version()} of {sys.base_prefix}",
        "kernel": platform.release(),
        "file_system": _output("stat", "-f", "-c", "%T", str(directory)),
    }


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"

# SPDX-License-Identifier: Apache-2.0
"""Processes that stand still for a while, with open connections."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from running_cluster import await_true


@contextmanager
def frozen(*pids: int) -> Iterator[None]:
    """Stop the processes within the block."""
    try:
        freeze(*pids)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def freeze(*pids: int) -> None:
    """Stop the processes, and wait until all their threads stand still.

    kill() returns before. On a busy machine a thread may still answer for tens of milliseconds.
    """
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    await_true(lambda: all(_states(pid) == {"T"} for pid in pids), f"{pids} to stand still")


def _states(pid: int) -> set[str]:
    """The states of the threads; proc(5). The name before them may contain anything."""
    states = set()
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):  # a thread may end after it was listed
            states.add(stat.read_text().rpartition(") ")[2][0])
    return states

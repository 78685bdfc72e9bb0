# SPDX-License-Identifier: Apache-2.0
"""The lock of a supervisor: an flock held as long as any of its processes runs.

Every process below the supervisor inherits the locked file. If the supervisor is killed, the kernel
kills the others a moment later. The lock is free only when the last of them has ended.
"""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path

from martlet.service.child_process import is_alive

#: Longest wait for the processes of a killed supervisor to end, seconds.
LEFTOVER_SECONDS = 10.0
_POLL_SECONDS = 0.02


class LockHeld(Exception):
    """Another supervisor, or a process that it left, has the lock."""

    def __init__(self, holder: int | None) -> None:
        super().__init__(f"the lock is held by process {holder}")
        self.holder = holder


@dataclass(frozen=True)
class ProcessLock:
    """The held lock; every process below the supervisor inherits ``descriptor``."""

    descriptor: int

    @classmethod
    def acquire(cls, path: Path) -> ProcessLock:
        """Take the lock and write this process's id into it.

        :raises LockHeld: another supervisor runs.
        :raises OSError: the file cannot be written.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            deadline = time.monotonic() + LEFTOVER_SECONDS
            while not _try_lock(descriptor):
                holder = _read_pid(descriptor)
                if (holder is not None and is_alive(holder)) or time.monotonic() > deadline:
                    raise LockHeld(holder)
                time.sleep(_POLL_SECONDS)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor)


def lock_holder(path: Path) -> int | None:
    """The process id of the supervisor that has the lock; None if no supervisor runs."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if _try_lock(descriptor):
            return None
        pid = _read_pid(descriptor)
        return pid if pid is not None and is_alive(pid) else None
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_pid(descriptor: int) -> int | None:
    try:
        return int(os.pread(descriptor, 32, 0))
    except ValueError:
        return None

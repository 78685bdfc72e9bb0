# SPDX-License-Identifier: Apache-2.0
"""The lock of a home directory: an flock held as long as any process of the cluster runs.

Every process of the cluster inherits the locked file. If the supervisor is killed, the kernel kills
the others a moment later. The lock is free only when the last of them has ended, and with it the
ports and devices are free.
"""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path

from cluster.errors import ClusterError

LOCK_NAME = "supervisor.lock"
#: Longest wait for the processes of a killed supervisor to end, seconds.
_LEFTOVER_SECONDS = 10.0
_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class HomeLock:
    """The held lock; every process of the cluster inherits ``descriptor``."""

    descriptor: int

    @classmethod
    def acquire(cls, run: Path) -> HomeLock:
        """Take the lock and write this process's id into it.

        :raises ClusterError: a cluster is running there, or the file cannot be written.
        """
        path = run / LOCK_NAME
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ClusterError(f"cannot write {path}: {error.strerror}") from None
        deadline = time.monotonic() + _LEFTOVER_SECONDS
        while not _try_lock(descriptor):
            holder = _read_pid(descriptor)
            if (holder is not None and is_alive(holder)) or time.monotonic() > deadline:
                os.close(descriptor)
                who = f" (process {holder})" if holder else ""
                raise ClusterError(f"a cluster already runs in {run.parent}{who}")
            time.sleep(_POLL_SECONDS)
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            os.close(descriptor)
            raise ClusterError(f"cannot write {path}: {error.strerror}") from None
        return cls(descriptor)


def running_supervisor(run: Path) -> int | None:
    """The process id of the supervisor of a home; None if no cluster is running there."""
    try:
        descriptor = os.open(run / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if _try_lock(descriptor):
            return None
        pid = _read_pid(descriptor)
        return pid if pid is not None and is_alive(pid) else None
    finally:
        os.close(descriptor)


def is_alive(pid: int) -> bool:
    """Whether the process exists and has not ended; a zombie has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


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

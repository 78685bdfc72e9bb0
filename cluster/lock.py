# SPDX-License-Identifier: Apache-2.0
"""The lock of a home directory: one cluster at a time.

It is free only when the last process of the cluster has ended, and with it the ports and devices
are free.
"""

from __future__ import annotations

from pathlib import Path

from cluster.errors import ClusterError
from martlet.service.process_lock import LockHeld, ProcessLock, lock_holder

LOCK_NAME = "supervisor.lock"


def lock_home(run: Path) -> ProcessLock:
    """Take the lock of the home whose directory ``run`` is.

    :raises ClusterError: a cluster is running there, or the file cannot be written.
    """
    path = run / LOCK_NAME
    try:
        return ProcessLock.acquire(path)
    except LockHeld as held:
        who = f" (process {held.holder})" if held.holder else ""
        raise ClusterError(f"a cluster already runs in {run.parent}{who}") from None
    except OSError as error:
        raise ClusterError(f"cannot write {path}: {error.strerror}") from None


def running_supervisor(run: Path) -> int | None:
    """The process id of the supervisor of a home; None if no cluster is running there."""
    return lock_holder(run / LOCK_NAME)

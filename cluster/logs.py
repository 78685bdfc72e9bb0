# SPDX-License-Identifier: Apache-2.0
"""The logs of services that run under a supervisor: bounded, though each holds its file open.

A service writes to the standard error that it was started with, and cannot open it anew. So a log
that is large is copied and emptied in place; the services append, and go on at its start.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import BinaryIO

#: A log is put aside when it is larger, bytes.
LOG_BYTES_MAX = 32 << 20
#: Older logs that are kept of each service: ``.1`` is the newest.
OLDER_LOGS = 2
#: How often the logs are looked at, seconds.
LOOK_SECONDS = 10.0


def open_log(path: Path) -> BinaryIO:
    """A log to append to, for its owner to read.

    :raises OSError: it cannot be written.
    """
    return open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")


def bound_log(path: Path) -> None:
    """Put a large log aside. What a service writes between the last look and the emptying is lost.

    A crash in the midst leaves the log as it was, and a part of it twice.

    :raises OSError: there is no room for the copy; the log is as it was.
    """
    if not path.exists() or path.stat().st_size <= LOG_BYTES_MAX:
        return
    for number in range(OLDER_LOGS, 1, -1):
        newer = _older(path, number - 1)
        if newer.exists():
            newer.rename(_older(path, number))
    copy = _older(path, 1)
    try:
        with path.open("rb") as log, open_log(copy) as kept:
            shutil.copyfileobj(log, kept, 1 << 20)  # to its end, however it grows
            kept.flush()
            shutil.copyfileobj(log, kept)
            kept.flush()  # or a full disk would take the log and the copy
            os.truncate(path, 0)
    except OSError:
        copy.unlink(missing_ok=True)
        raise


def _older(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")

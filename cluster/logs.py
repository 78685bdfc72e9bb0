# SPDX-License-Identifier: Apache-2.0
"""The logs of the services of a supervisor, limited in size while the services have them open.

A service writes to the standard error that it was started with, and cannot reopen it. So a large
log is copied and truncated in place. The services append, so they continue at its start.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import BinaryIO

#: A larger log is rotated, bytes.
LOG_BYTES_MAX = 32 << 20
#: Rotated logs kept for each service: ``.1`` is the newest.
OLDER_LOGS = 2
#: Pause between two checks of the logs, seconds.
LOOK_SECONDS = 10.0


def open_log(path: Path) -> BinaryIO:
    """Open a log for appending; only its owner can read it.

    :raises OSError: it cannot be written.
    """
    return open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")


def bound_log(path: Path) -> None:
    """Rotate a large log; lines written between the last read and the truncation are lost.

    A crash in between leaves the log unchanged, and a part of it twice.

    :raises OSError: there is no space for the copy; the log is unchanged.
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
            shutil.copyfileobj(log, kept, 1 << 20)  # to its end, although it grows
            kept.flush()
            shutil.copyfileobj(log, kept)
            kept.flush()  # otherwise a full disk would lose the log and the copy
            os.truncate(path, 0)
    except OSError:
        copy.unlink(missing_ok=True)
        raise


def _older(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")

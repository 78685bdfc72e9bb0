# SPDX-License-Identifier: Apache-2.0
"""The fingerprint of a database: whether it has changed is seen without opening it."""

from __future__ import annotations

import os

#: A file that changed less than this ago may change again without another time, seconds.
SETTLED_SECONDS = 1.0


def fingerprint(path: str, now: float) -> int | None:
    """A number that differs after each change of a database; None if it changed just now.

    :param now: seconds since the epoch.
    :raises FileNotFoundError: there is no such database.
    """
    found = os.stat(path)
    facts = [found.st_ino, found.st_size, found.st_mtime_ns]
    newest = found.st_mtime
    try:
        log = os.stat(f"{path}-wal")
    except FileNotFoundError:
        pass
    else:
        if log.st_size:  # every reader makes an empty one
            facts += [log.st_size, log.st_mtime_ns]
            newest = max(newest, log.st_mtime)
    return hash(tuple(facts)) if now - newest > SETTLED_SECONDS else None

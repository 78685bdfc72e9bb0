"""The errors that the servers of a cluster logged, for the report of a failed test."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

#: How much of the end of each log is read, bytes.
TAIL_BYTES = 64 * 1024
# In Python's lines and in Go's.
_LEVELS = (" WARNING ", " ERROR ", " CRITICAL ", " level=WARN ", " level=ERROR ")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)")


def errors_since(home: Path, began: float, count: int = 15) -> list[str]:
    """The last ``count`` warnings and errors of each log below ``home``, with the log's name.

    :param began: older lines are left out; seconds since the epoch.
    """
    found = []
    for log in sorted((home / "logs").glob("*.log")):
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
        errors = [line for line in lines if any(level in line for level in _LEVELS)]
        found += [f"{log.stem}: {line}" for line in errors[-count:] if _is_since(line, began)]
    return found


def _is_since(line: str, began: float) -> bool:
    moment = _TIME.search(line)
    # Lines have milliseconds.
    return moment is not None and datetime.fromisoformat(moment[0]).timestamp() > began - 0.001

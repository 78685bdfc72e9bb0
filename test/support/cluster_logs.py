"""The errors that the servers of a cluster logged, for the report of a failed test."""

from __future__ import annotations

from pathlib import Path

#: How much of the end of each log is read, bytes.
TAIL_BYTES = 64 * 1024
# In Python's lines and in Go's.
_LEVELS = (" WARNING ", " ERROR ", " CRITICAL ", " level=WARN ", " level=ERROR ")


def last_errors(home: Path, count: int = 15) -> list[str]:
    """The last ``count`` warnings and errors of each log below ``home``, with the log's name."""
    found = []
    for log in sorted((home / "logs").glob("*.log")):
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
        errors = [line for line in lines if any(level in line for level in _LEVELS)]
        found += [f"{log.stem}: {line}" for line in errors[-count:]]
    return found

"""Logging: one event a line, ``key=value`` after the message, to standard error."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from functools import lru_cache
from typing import TextIO

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class LineFormatter(logging.Formatter):
    """One line an event: ISO time, level, logger, message; a traceback is folded into it."""

    def format(self, record: logging.LogRecord) -> str:
        second, fraction = divmod(record.created, 1)
        moment = f"{_iso_second(int(second))}.{int(fraction * 1000):03d}Z"
        line = f"{moment} {record.levelname} {record.name}[{record.process}] "
        line += record.getMessage()
        if record.exc_info:
            line += " traceback=" + repr(self.formatException(record.exc_info))
        return line.replace("\n", "\\n").replace("\r", "\\r")


class _Output(logging.StreamHandler[TextIO]):
    """Writes lines without a lock: a green thread does not give way within one, and native threads
    do not log.
    """

    def handle(self, record: logging.LogRecord) -> bool:
        """Write a line; a failure to do so is nobody else's."""
        try:
            self.stream.write(f"{self.format(record)}\n")
            self.stream.flush()
        except Exception:
            self.handleError(record)
        return True


@lru_cache(16)
def _iso_second(seconds: int) -> str:
    """Many lines are of the same second."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[: len("2026-01-01T00:00:00")]


def setup_logging(level: str) -> None:
    """Send all loggers to standard error from ``level`` on.

    :raises ValueError: unknown level.
    """
    if level.upper() not in LEVELS:
        raise ValueError(f"log_level must be one of {', '.join(LEVELS)}, not {level!r}")
    # No line shows these. Under eventlet each record would look through all green threads.
    logging.logThreads = logging.logMultiprocessing = False
    logging._srcfile = None  # nor where in the code it comes from
    handler = _Output(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(level.upper())


def get_logger(name: str) -> logging.Logger:
    """The logger of that name."""
    return logging.getLogger(name)


def fields(**values: object) -> str:
    """``key=value`` pairs, quoted where a value holds spaces or quotes."""
    parts = []
    for key, value in values.items():
        text = str(value)
        parts.append(
            f"{key}={text!r}" if not text or " " in text or "'" in text else f"{key}={text}"
        )
    return " ".join(parts)

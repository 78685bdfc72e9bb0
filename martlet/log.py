# SPDX-License-Identifier: Apache-2.0
"""Logging to standard error: one line for each event, ``key=value`` after the message."""

from __future__ import annotations

import logging
import os
import sys
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import TextIO

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class LineFormatter(logging.Formatter):
    """One line for each event: ISO time, level, logger, message; a traceback is folded into it."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if record.exc_info:
            text += " traceback=" + repr(self.formatException(record.exc_info))
        return _line(record.created, record.levelname, record.name, record.process, text)


def _line(created: float, level: str, name: str, process: int | None, text: str) -> str:
    second, fraction = divmod(created, 1)
    moment = f"{_iso_second(int(second))}.{int(fraction * 1000):03d}Z"
    line = f"{moment} {level} {name}[{process}] {text}"
    return line.replace("\n", "\\n").replace("\r", "\\r")


@lru_cache(16)
def _iso_second(seconds: int) -> str:
    """Cached, because many lines have the same second."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[: len("2026-01-01T00:00:00")]


class _Output(logging.StreamHandler[TextIO]):
    """Writes lines without a lock.

    A green thread does not yield within a line, and native threads do not log.
    """

    def handle(self, record: logging.LogRecord) -> bool:
        """Write a line. The caller does not see an error of it."""
        try:
            self.write(self.format(record))
        except Exception:
            self.handleError(record)
        return True

    def write(self, line: str) -> None:
        """Write a formatted line."""
        self.stream.write(f"{line}\n")
        self.stream.flush()


def setup_logging(level: str) -> None:
    """Send the lines of all loggers from ``level`` on to standard error.

    :raises ValueError: unknown level.
    """
    if level.upper() not in LEVELS:
        raise ValueError(f"log_level must be one of {', '.join(LEVELS)}, not {level!r}")
    # No line shows these. Under eventlet each record would search all green threads.
    logging.logThreads = logging.logMultiprocessing = False
    handler = _Output(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(level.upper())


def get_logger(name: str) -> logging.Logger:
    """The logger of that name."""
    return logging.getLogger(name)


def log_request(logger: logging.Logger, text: str) -> None:
    """Log a line at INFO, as ``logger.info("%s", text)`` does, but faster: one for each request.

    In a service our own output is the only handler. It then gets the line without a log record,
    which takes 2.5 us in place of 7.
    """
    if not logger.isEnabledFor(logging.INFO):
        return
    output = _only_output(logger)
    if output is None:
        logger.info("%s", text)
        return
    try:
        output.write(_line(time.time(), "INFO", logger.name, os.getpid(), text))
    except Exception:
        output.handleError(logging.makeLogRecord({"name": logger.name, "msg": text}))


def _only_output(logger: logging.Logger) -> _Output | None:
    """Our output, if it gets all lines of the logger and no other handler gets any."""
    ours, root = logging.root.handlers, logging.root
    if logger.filters or len(ours) != 1 or type(ours[0]) is not _Output:
        return None
    above: logging.Logger | None = logger
    while above is not None and above is not root:
        if above.handlers or not above.propagate:
            return None
        above = above.parent
    return ours[0]


def fields(**values: object) -> str:
    """``key=value`` pairs, quoted where a value holds spaces or quotes."""
    parts = []
    for key, value in values.items():
        text = str(value)
        parts.append(
            f"{key}={text!r}" if not text or " " in text or "'" in text else f"{key}={text}"
        )
    return " ".join(parts)

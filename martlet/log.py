# SPDX-License-Identifier: Apache-2.0
"""Logging to standard error: one line for each event, ``key=value`` after the message.

With the format ``json`` each line is an object, for programs (doc/operations.md).
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import TextIO

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
FORMATS = ("text", "json")
#: The transaction id in a line; the last match counts, because names stand before the id.
_TRANS_ID = re.compile(r"(?:^| )trans_id=([^\s'\"]+)")

#: How long a line may wait for others, seconds. A process that is killed loses the lines that wait.
_LINES_WAIT_SECONDS = 0.1
#: How many characters wait at most. Linux does not divide a write of up to 4096 bytes to a pipe,
#: which several workers may share.
_LINES_WAIT_MAX = 4096

#: Calls a function after so many seconds.
CallLater = Callable[[float, Callable[[], None]], object]


class LineFormatter(logging.Formatter):
    """One line for each event: ISO time, level, logger, message; a traceback is folded into it."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if record.exc_info:
            text += " traceback=" + repr(self.formatException(record.exc_info))
        return _line(record.created, record.levelname, record.name, record.process, text)


class JsonFormatter(LineFormatter):
    """One object of JSON for each event, with the transaction id as a field of its own."""

    def format(self, record: logging.LogRecord) -> str:
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        text, process = record.getMessage(), record.process
        return _json_line(record.created, record.levelname, record.name, process, text, trace)


def _json_line(
    created: float, level: str, name: str, process: int | None, text: str, traceback: str = ""
) -> str:
    line: dict[str, object] = {
        "time": _moment(created),
        "level": level,
        "logger": name,
        "pid": process,
        "message": text,
    }
    if found := _TRANS_ID.findall(text):
        line["trans_id"] = found[-1]
    if traceback:
        line["traceback"] = traceback
    return json.dumps(line)


def _moment(created: float) -> str:
    second, fraction = divmod(created, 1)
    return f"{_iso_second(int(second))}.{int(fraction * 1000):03d}Z"


def _line(created: float, level: str, name: str, process: int | None, text: str) -> str:
    line = f"{_moment(created)} {level} {name}[{process}] {text}"
    return line.replace("\n", "\\n").replace("\r", "\\r")


@lru_cache(16)
def _iso_second(seconds: int) -> str:
    """Cached, because many lines have the same second."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[: len("2026-01-01T00:00:00")]


class _Output(logging.StreamHandler[TextIO]):
    """Writes lines without a lock.

    A green thread does not yield within a line, and native threads do not log.
    """

    def __init__(self, stream: TextIO, is_json: bool) -> None:
        super().__init__(stream)
        self.setFormatter(JsonFormatter() if is_json else LineFormatter())
        #: Makes a line of its parts, without a log record.
        self.line_of = _json_line if is_json else _line
        #: Joins lines of requests into few writes; without it each line is written at once.
        self.call_later: CallLater | None = None
        self._waiting: list[str] = []
        self._waiting_size = 0
        self._is_timed = False  # whether a call that writes the lines is due

    def handle(self, record: logging.LogRecord) -> bool:
        """Write a line, and before it those that wait. The caller does not see an error of it."""
        try:
            self.write_waiting()
            self._write(f"{self.format(record)}\n")
        except Exception:
            self.handleError(record)
        return True

    def add(self, line: str) -> None:
        """Write a formatted line, alone or soon together with others."""
        line += "\n"
        call_later = self.call_later
        if call_later is None or not line.isascii():
            self.write_waiting()
            self._write(line)
            return
        if self._waiting_size + len(line) > _LINES_WAIT_MAX:
            self.write_waiting()
        self._waiting.append(line)
        self._waiting_size += len(line)
        if not self._is_timed:
            self._is_timed = True
            call_later(_LINES_WAIT_SECONDS, self._on_time)

    def write_waiting(self) -> None:
        """Write the lines that wait."""
        if self._waiting:
            text = "".join(self._waiting)
            self._waiting.clear()
            self._waiting_size = 0
            self._write(text)

    def forget_timer(self) -> None:
        """In a child process: the call that is due is one of the parent."""
        self.call_later = None
        self._is_timed = False

    def _on_time(self) -> None:
        self._is_timed = False
        try:
            self.write_waiting()
        except Exception:
            self.handleError(logging.makeLogRecord({"msg": "lines of requests are lost"}))

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()


def setup_logging(level: str, form: str = FORMATS[0]) -> None:
    """Send the lines of all loggers from ``level`` on to standard error.

    :param form: of the lines, text or json.
    :raises ValueError: unknown level or format.
    """
    if form not in FORMATS:
        raise ValueError(f"log_style must be one of {', '.join(FORMATS)}, not {form!r}")
    if level.upper() not in LEVELS:
        raise ValueError(f"log_level must be one of {', '.join(LEVELS)}, not {level!r}")
    # No line shows these. Under eventlet each record would search all green threads.
    logging.logThreads = logging.logMultiprocessing = False
    logging.root.handlers[:] = [_Output(sys.stderr, form == "json")]
    logging.root.setLevel(level.upper())


def join_request_lines(call_later: CallLater) -> None:
    """Write the lines of `log_request` together, at most 0.1 s later.

    All other lines are written at once, after those that wait. So the order stays.
    """
    for output in _outputs():
        output.call_later = call_later


def separate_request_lines() -> None:
    """Write the lines that wait, and each further one at once: the process may end soon.

    A child process begins so, too; it does not have the timers of its parent.
    """
    for output in _outputs():
        output.call_later = None
        output.write_waiting()


def _outputs() -> list[_Output]:
    return [output for output in logging.root.handlers if isinstance(output, _Output)]


def _before_fork() -> None:
    for output in _outputs():
        output.write_waiting()  # else the child would write them, too


def _after_fork() -> None:
    _process_id.cache_clear()
    for output in _outputs():
        output.forget_timer()


os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
atexit.register(separate_request_lines)


@cache
def _process_id() -> int:
    return os.getpid()


def get_logger(name: str) -> logging.Logger:
    """The logger of that name."""
    return logging.getLogger(name)


def log_request(logger: logging.Logger, text: str) -> None:
    """Log a line at INFO, as ``logger.info("%s", text)`` does, but faster: one for each request.

    In a service our own output is the only handler. It then gets the line without a log record,
    which takes 2.5 us in place of 7. The line may wait for others (`join_request_lines`).
    """
    if not logger.isEnabledFor(logging.INFO):
        return
    output = _only_output(logger)
    if output is None:
        logger.info("%s", text)
        return
    try:
        output.add(output.line_of(time.time(), "INFO", logger.name, _process_id(), text))
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

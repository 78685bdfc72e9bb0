"""Lines of the log, and the short way of those that each request has."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator

import pytest

from martlet.log import (
    get_logger,
    join_request_lines,
    log_request,
    separate_request_lines,
    setup_logging,
)


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], io.StringIO]]:
    """Begins to log as a service does, at one and the same time; returns what is written.

    To be called in the test: pytest adds handlers of its own after the fixtures.
    """
    handlers, level = logging.root.handlers[:], logging.root.level
    for name in ("logThreads", "logMultiprocessing"):
        monkeypatch.setattr(logging, name, getattr(logging, name))

    def begin() -> io.StringIO:
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr("time.time", lambda: 1_700_000_000.5)
        # Python 3.13's logging reads this one.
        monkeypatch.setattr("time.time_ns", lambda: 1_700_000_000_500_000_000)
        setup_logging("INFO")
        return stream

    yield begin
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


@pytest.fixture
def log(request: pytest.FixtureRequest) -> logging.Logger:
    return get_logger(f"test_log.{request.node.name}")


class Seen(logging.Handler):
    """A handler of somebody else."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(f"{record.levelname} {record.getMessage()}")


@pytest.mark.parametrize(
    "text",
    ["status=200", "100 %s", "two\r\nlines", "", pytest.param("é \udcff\x00", id="not-utf-8")],
)
def test_a_request_has_the_line_that_info_makes(
    start: Callable[[], io.StringIO], monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    written = start()
    log = get_logger("test_log.requests")
    log.info("%s", text)
    monkeypatch.setattr(log, "makeRecord", None)  # no record is made of a request
    log_request(log, text)
    first, second = written.getvalue().splitlines()
    # In ASCII: pytest-xdist cannot report a failure that shows a lone surrogate.
    assert ascii(first) == ascii(second)
    assert first.startswith("2023-11-14T22:13:20.500Z INFO test_log.requests[")


def test_levels_hold_for_requests(log: logging.Logger, start: Callable[[], io.StringIO]) -> None:
    written = start()
    log.setLevel("WARNING")
    log_request(log, "a")
    log.setLevel("NOTSET")
    log.disabled = True
    log_request(log, "b")
    log.disabled = False
    logging.disable(logging.INFO)
    try:
        log_request(log, "c")
    finally:
        logging.disable(logging.NOTSET)
    assert written.getvalue() == ""
    log_request(log, "d")
    assert written.getvalue().endswith(" d\n")


def test_others_may_listen(log: logging.Logger, start: Callable[[], io.StringIO]) -> None:
    written = start()
    for listened in (log, logging.root):
        seen = Seen()
        listened.addHandler(seen)
        log_request(log, "a % b")
        listened.removeHandler(seen)
        assert seen.messages == ["INFO a % b"]
    assert written.getvalue().count(" a % b\n") == 2


def test_filters_and_loggers_between_are_asked(
    log: logging.Logger, start: Callable[[], io.StringIO]
) -> None:
    written = start()
    log.addFilter(lambda _: False)
    log_request(log, "a")
    child = log.getChild("child")
    log.propagate = False
    log_request(child, "b")
    assert written.getvalue() == ""
    log.propagate = True
    log_request(child, "c")
    assert written.getvalue().endswith(" c\n")


def test_an_output_that_fails_is_nobody_elses(
    log: logging.Logger, start: Callable[[], io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    start().close()
    errors = io.StringIO()
    monkeypatch.setattr(sys, "stderr", errors)
    log_request(log, "a % b")
    assert "--- Logging error ---" in errors.getvalue()
    assert "a % b" in errors.getvalue()


class Later:
    """Calls that are due later; ``run`` makes them."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Callable[[], None]]] = []

    def __call__(self, seconds: float, action: Callable[[], None]) -> None:
        self.due.append((seconds, action))

    def run(self) -> None:
        due, self.due = self.due, []
        for _, action in due:
            action()


class Writes(io.StringIO):
    """Counts the writes."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def write(self, text: str) -> int:
        self.sizes.append(len(text))
        return super().write(text)


def words(written: io.StringIO) -> list[str]:
    """The last word of each line."""
    return [line.rsplit(" ", 1)[-1] for line in written.getvalue().splitlines()]


@pytest.fixture
def joined(
    monkeypatch: pytest.MonkeyPatch, start: Callable[[], io.StringIO]
) -> Callable[[Later], Writes]:
    """Begins to join the lines of requests."""

    def begin(later: Later) -> Writes:
        start()
        writes = Writes()
        monkeypatch.setattr(logging.root.handlers[0], "stream", writes)
        join_request_lines(later)
        return writes

    return begin


def test_lines_of_requests_wait_for_each_other(
    log: logging.Logger, joined: Callable[[Later], Writes]
) -> None:
    later = Later()
    written = joined(later)
    for number in range(3):
        log_request(log, str(number))
    assert written.sizes == []
    assert [seconds for seconds, _ in later.due] == [0.1]  # one call for all
    later.run()
    assert words(written) == ["0", "1", "2"]
    assert len(written.sizes) == 1
    log_request(log, "3")
    later.run()
    assert words(written) == ["0", "1", "2", "3"]


def test_other_lines_are_written_at_once_after_those_that_wait(
    log: logging.Logger, joined: Callable[[Later], Writes]
) -> None:
    later = Later()
    written = joined(later)
    log_request(log, "a")
    log.info("b")
    assert words(written) == ["a", "b"]
    log_request(log, "c")
    log_request(log, "no-ascii-é")  # its bytes are not counted
    assert words(written) == ["a", "b", "c", "no-ascii-é"]
    later.run()
    assert words(written) == ["a", "b", "c", "no-ascii-é"]


def test_a_write_of_many_lines_is_one_that_a_pipe_takes_whole(
    log: logging.Logger, joined: Callable[[Later], Writes]
) -> None:
    later = Later()
    written = joined(later)
    for _ in range(100):
        log_request(log, "x" * 150)
    log_request(log, "y" * 5000)  # a line is never divided
    log_request(log, "z")
    later.run()
    assert len(written.getvalue().splitlines()) == 102
    *joined_sizes, longest, last = written.sizes
    assert max(joined_sizes) <= 4096 < longest
    assert min(joined_sizes[:-1]) > 4096 - 300
    assert last < 200


def test_the_end_of_a_process_writes_what_waits(
    log: logging.Logger, joined: Callable[[Later], Writes]
) -> None:
    later = Later()
    written = joined(later)
    log_request(log, "a")
    separate_request_lines()
    log_request(log, "b")
    assert words(written) == ["a", "b"]
    later.run()  # of the time before
    assert words(written) == ["a", "b"]


def test_a_fork_writes_no_line_twice(
    log: logging.Logger, monkeypatch: pytest.MonkeyPatch, start: Callable[[], io.StringIO]
) -> None:
    start()
    later = Later()
    with tempfile.TemporaryFile("w+") as file:
        monkeypatch.setattr(logging.root.handlers[0], "stream", file)
        join_request_lines(later)
        log_request(log, "parent")
        child = os.fork()
        if child == 0:
            log_request(log, "child")  # at once: the timer is the parent's
            os._exit(0)
        os.waitpid(child, 0)
        log_request(log, "parent-again")
        later.run()
        file.seek(0)
        lines = file.read().splitlines()
    assert [line.rsplit(" ", 1)[-1] for line in lines] == ["parent", "child", "parent-again"]
    assert f"[{os.getpid()}]" in lines[0]
    assert f"[{child}]" in lines[1]


_REQUESTS_OF_A_PROCESS = """
import sys
from martlet.log import get_logger, join_request_lines, log_request, setup_logging
setup_logging("INFO")
join_request_lines(lambda seconds, action: None)
log_request(get_logger("test"), "waits")
{end}
"""


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "raise ValueError('an error of the program')"])
def test_the_end_of_the_interpreter_writes_what_waits(end: str) -> None:
    code = _REQUESTS_OF_A_PROCESS.format(end=end)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr.count(" waits\n") == 1


def test_json(start: Callable[[], io.StringIO], log: logging.Logger) -> None:
    written = start()
    setup_logging("INFO", "json")
    log_request(log, "request path='/v1/a/trans_id=fake x' \"é\" status=200 trans_id=tx1-2")
    log.warning("two\nlines")
    try:
        raise ValueError("bad\nvalue")
    except ValueError:
        log.exception("failed trans_id=%s", "tx3")
    rows = [json.loads(line) for line in written.getvalue().splitlines()]
    common = {"time": "2023-11-14T22:13:20.500Z", "logger": log.name, "pid": os.getpid()}
    assert rows[0] == {
        **common,
        "level": "INFO",
        "message": "request path='/v1/a/trans_id=fake x' \"é\" status=200 trans_id=tx1-2",
        "trans_id": "tx1-2",
    }
    assert rows[1] == {**common, "level": "WARNING", "message": "two\nlines"}
    assert (rows[2]["level"], rows[2]["trans_id"]) == ("ERROR", "tx3")
    assert rows[2]["traceback"].endswith("ValueError: bad\nvalue")
    assert len(rows) == 3


def test_an_unknown_style() -> None:
    with pytest.raises(ValueError, match="log_style must be one of text, json"):
        setup_logging("INFO", "xml")

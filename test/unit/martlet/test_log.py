"""Lines of the log, and the short way of those that each request has."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable, Iterator

import pytest

from martlet.log import get_logger, log_request, setup_logging


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

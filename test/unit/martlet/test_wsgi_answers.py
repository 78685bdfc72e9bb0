"""Answers are framed as RFC 9112 has it, whatever the application yields."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator

import pytest
from wsgi_calls import exchange, serving, status_of

from martlet.http.environ import Environ, StartResponse

Body_ = Iterable[bytes]


@pytest.mark.parametrize(
    ("body", "headers", "sent"),
    [
        ([b"abc"], [], b"Content-Length: 3\r\n"),
        ([b"a", b"bc"], [], b"Content-Length: 3\r\n"),
        ([], [], b"Content-Length: 0\r\n"),
        (iter([b"a", b"", b"bc"]), [], b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"),
        (iter([]), [], b"Content-Length: 0\r\n"),
        (iter([b"a", b"bc"]), [("Content-Length", "3")], b"\r\n\r\nabc"),
    ],
)
def test_answers(body: Body_, headers: list[tuple[str, str]], sent: bytes) -> None:
    def app(_environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", headers)
        return body

    with serving(app) as (port, _):
        assert sent in exchange(port, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")


def too_short() -> Iterator[bytes]:
    yield b"a"


def too_long() -> Iterator[bytes]:
    yield b"abcdef"
    yield b"g"


def failing() -> Iterator[bytes]:
    yield b"a"
    raise RuntimeError("in the middle")


@pytest.mark.parametrize("body", [too_short, too_long, failing])
def test_an_answer_that_breaks_off_ends_the_connection(
    body: Callable[[], Iterator[bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    def app(_environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [("Content-Length", "6")])
        return body()

    with serving(app) as (port, _):
        answer = exchange(port, 2 * b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        assert answer.count(b"HTTP/1.1") == 1
        assert b"g" not in answer.partition(b"\r\n\r\n")[2]
    assert "event=unhandled_error" in caplog.text


@pytest.mark.parametrize("header", [("X-A", "a\r\nX-B: c"), ("X-A", "a\nb"), ("X\r\nA", "b")])
def test_no_line_break_gets_into_an_answer(header: tuple[str, str]) -> None:
    def app(_environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [header])
        return [b"x"]

    with serving(app) as (port, _):
        assert status_of(exchange(port, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")) == 500


TRANS_ID = re.compile(rb"\r\nX-Trans-Id: (tx[0-9a-f]{21}-[0-9a-f]{10})\r\n")


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: h\r\n\r\n",
    ],
)
def test_a_refused_request_is_found_in_the_log(
    port: int, caplog: pytest.LogCaptureFixture, raw: bytes
) -> None:
    caplog.set_level(logging.INFO, "test.wsgi")
    answer = exchange(port, raw)
    match = TRANS_ID.search(answer)
    assert match, answer
    lines = [r.getMessage() for r in caplog.records if match[1].decode() in r.getMessage()]
    assert len(lines) == 1
    assert f"event=request_refused remote_addr=127.0.0.1 status={status_of(answer)}" in lines[0]


@pytest.mark.parametrize("known", ["", "tx-of-a-filter"])
def test_an_error_of_ours_is_found_in_the_log(caplog: pytest.LogCaptureFixture, known: str) -> None:
    def app(environ: Environ, _start_response: StartResponse) -> Iterable[bytes]:
        if known:
            environ["swift.trans_id"] = known
        raise RuntimeError

    with serving(app) as (port, _):
        answer = exchange(port, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    trans_id = answer.partition(b"\r\nX-Trans-Id: ")[2].partition(b"\r\n")[0].decode()
    assert trans_id == known or (not known and TRANS_ID.search(answer))
    assert f"trans_id={trans_id}" in caplog.text

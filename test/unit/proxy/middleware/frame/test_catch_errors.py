"""Each request has a transaction id, each failure an answer, each body its declared length."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from martlet.conf.options import ConfigError
from martlet.http.call import call_app
from martlet.http.environ import Environ, HeaderList, StartResponse
from martlet.http.request import Request
from proxy.middleware.frame.catch_errors import (
    BadResponseLength,
    CatchErrors,
    CatchErrorsOptions,
    filter_factory,
)

TRANS_ID = re.compile(r"tx[0-9a-f]{21}-[0-9a-f]{10}")


def make(app: Any, **options: str) -> CatchErrors:
    return CatchErrors(app, CatchErrorsOptions(**options))


def test_transaction_id_is_everywhere(ask: Any, Inner: Any) -> None:
    inner = Inner()
    before = int(time.time())
    answer = ask(make(inner), "/v1/a")
    trans_id = answer.headers["X-Trans-Id"]
    assert TRANS_ID.fullmatch(trans_id)
    assert answer.headers["X-Openstack-Request-Id"] == trans_id
    assert inner.environ["swift.trans_id"] == trans_id
    assert before <= int(trans_id[24:], 16) <= int(time.time())
    assert (answer.status, answer.body) == (200, b"body")


def test_transaction_ids_differ(ask: Any, Inner: Any) -> None:
    app = make(Inner())
    ids = {ask(app, "/").headers["X-Trans-Id"] for _ in range(100)}
    assert len(ids) == 100


@pytest.mark.parametrize(
    ("suffix", "extra", "end"),
    [
        ("-east", "", "-east"),
        ("", "mine", "-mine"),
        ("-e", "m", "-e-m"),
        ("", "x" * 40, "-" + "x" * 32),
        ("", "a\r\nb c", "-a%0D%0Ab%20c"),
    ],
)
def test_suffixes(ask: Any, Inner: Any, suffix: str, extra: str, end: str) -> None:
    headers = {"X-Trans-Id-Extra": extra} if extra else {}
    answer = ask(make(Inner(), trans_id_suffix=suffix), "/", headers=headers)
    assert answer.headers["X-Trans-Id"][34:] == end


def test_the_applications_header_list_is_not_added_to(ask: Any, Inner: Any) -> None:
    headers = [("Content-Length", "4")]
    app = make(Inner(headers=headers))
    ask(app, "/")
    ask(app, "/")
    assert headers == [("Content-Length", "4")]


def raise_at_once(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    raise RuntimeError("boom")


def raise_before_first_chunk(environ: Environ, start_response: StartResponse) -> Iterator[bytes]:
    start_response("200 OK", [("Content-Length", "4")])
    yield b""
    raise RuntimeError("boom")


@pytest.mark.parametrize("app", [raise_at_once, raise_before_first_chunk])
def test_unhandled_error_becomes_a_500_with_the_id(
    ask: Any, app: Any, caplog: pytest.LogCaptureFixture
) -> None:
    answer = ask(make(app), "/v1/a%20b", "PUT")
    assert answer.status == 500
    trans_id = answer.headers["X-Trans-Id"]
    assert trans_id.encode() in answer.body
    assert b"boom" not in answer.body
    assert len(caplog.records) == 1
    assert f"method=PUT path=/v1/a%20b trans_id={trans_id}" in caplog.text
    assert "RuntimeError: boom" in caplog.text


class Body:
    """A streamed body that records whether it was closed."""

    def __init__(self, *chunks: bytes, error: Exception | None = None) -> None:
        self._chunks = chunks
        self._error = error
        self.is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        yield from self._chunks
        if self._error:
            raise self._error

    def close(self) -> None:
        self.is_closed = True


def stream(app: CatchErrors, method: str = "GET") -> tuple[str, HeaderList, list[bytes], str]:
    """Read a response in chunks to its end or an error; the error's name comes last."""
    status, headers, chunks = call_app(app, Request.blank("/v1/a", method).environ)
    got, error = [], ""
    try:
        for chunk in chunks:
            got.append(chunk)
    except Exception as failure:
        error = type(failure).__name__
    close = getattr(chunks, "close", None)
    if close:
        close()
    return status, headers, got, error


@pytest.mark.parametrize(
    ("chunks", "length", "sent", "error"),
    [
        ([b"ab", b"cd"], "4", b"abcd", ""),
        ([b"ab", b"", b"cd", b""], "4", b"abcd", ""),
        ([b"ab"], "4", b"ab", "BadResponseLength"),
        ([b"ab", b"cde"], "4", b"abcd", "BadResponseLength"),
        ([b"abcd", b"e"], "4", b"abcd", "BadResponseLength"),
        ([b"ab", b"cd"], "nonsense", b"abcd", ""),
        ([b"ab", b"cd"], None, b"abcd", ""),
        ([], "0", b"", ""),
        ([], None, b"", ""),
    ],
)
def test_streamed_body_is_held_to_its_length(
    Inner: Any, chunks: list[bytes], length: str | None, sent: bytes, error: str
) -> None:
    body = Body(*chunks)
    headers = [] if length is None else [("content-length", length)]
    status, _, got, failure = stream(make(Inner(headers=headers, body=body)))
    assert (status, b"".join(got), failure) == ("200 OK", sent, error)
    assert body.is_closed


def test_listed_body_is_held_to_its_length_too(Inner: Any) -> None:
    status, _, got, error = stream(make(Inner(body=[b"bo"])))
    assert (status, got, error) == ("200 OK", [b"bo"], BadResponseLength.__name__)


def test_missing_body_becomes_a_500(Inner: Any) -> None:
    body = Body()
    status, _, _, error = stream(make(Inner(body=body)))
    assert (status[:3], error, body.is_closed) == ("500", "", True)


@pytest.mark.parametrize(
    ("method", "status"), [("HEAD", "200 OK"), ("GET", "204 No Content"), ("GET", "304 Not Mod")]
)
@pytest.mark.parametrize("chunks", [[], [b"surplus"]])
def test_answers_without_body_have_none(
    Inner: Any, method: str, status: str, chunks: list[bytes]
) -> None:
    body = Body(*chunks)
    seen, headers, got, error = stream(make(Inner(status=status, body=body)), method)
    assert (seen, got, error) == (status, [], "")
    assert ("Content-Length", "4") in headers
    assert body.is_closed


def test_error_in_the_middle_is_logged_once_and_breaks_off(
    Inner: Any, caplog: pytest.LogCaptureFixture
) -> None:
    body = Body(b"ab", error=OSError("disk"))
    _, headers, got, error = stream(make(Inner(body=body)))
    assert (got, error, body.is_closed) == ([b"ab"], "OSError", True)
    assert len(caplog.records) == 1
    assert f"trans_id={dict(headers)['X-Trans-Id']}" in caplog.text


def test_factory_takes_its_option_and_no_other(ask: Any, Inner: Any) -> None:
    app = filter_factory({}, trans_id_suffix="-x")(Inner())
    assert ask(app, "/").headers["X-Trans-Id"].endswith("-x")
    with pytest.raises(ConfigError, match=r"\[filter:catch_errors\].*'trans_id_sufix'"):
        filter_factory({"__file__": "proxy.conf"}, trans_id_sufix="x")

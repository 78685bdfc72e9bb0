# SPDX-License-Identifier: Apache-2.0
"""The outermost filter: adds a transaction id to every request and answers unhandled errors.

- The id is in the response and in every log line about the request. It is ``tx``, 21 hex digits,
  ``-``, the time as 10 hex digits, and a suffix.
- An unhandled exception becomes a 500 that names the id, and one log line. Once a byte of the
  answer has been sent, the connection is closed instead.
- A body longer or shorter than its Content-Length would corrupt the next request on the same
  connection. So it ends with an exception, and the server closes the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import quote

from martlet.conf.options import option
from martlet.filters.filter_options import load_filter_options
from martlet.http.call import call_app
from martlet.http.environ import Environ, HeaderList, StartResponse, WSGIApp
from martlet.http.headers import find_header
from martlet.http.response import Response
from martlet.http.trans_id import new_trans_id
from martlet.log import get_logger

log = get_logger("proxy.catch_errors")

_TRANS_ID_EXTRA_LENGTH_MAX = 32
_BODYLESS_STATUSES = frozenset({"204", "304"})


@dataclass(frozen=True)
class CatchErrorsOptions:
    """``[filter:catch_errors]``."""

    trans_id_suffix: str = option("", "Suffix of each transaction id, to distinguish clusters")


class BadResponseLength(Exception):
    """A body was longer or shorter than its Content-Length; the connection must be closed."""


class CatchErrors:
    """The filter."""

    def __init__(self, app: WSGIApp, options: CatchErrorsOptions) -> None:
        self._app = app
        self._suffix = quote(options.trans_id_suffix)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Return the response of the rest of the pipeline, or a 500."""
        trans_id = environ["swift.trans_id"] = self._new_trans_id(environ)
        try:
            status, headers, body = call_app(self._app, environ)
            body = _checked_body(environ, status, headers, body)
        except Exception:
            log.exception("unhandled error %s", _request_fields(environ, trans_id))
            response = Response(
                500, {"Content-Type": "text/plain"}, f"An error occurred; transaction {trans_id}\n"
            )
            status, headers, body = call_app(response, environ)
        # A new list: the application may answer with the same one each time.
        start_response(
            status, [*headers, ("X-Trans-Id", trans_id), ("X-Openstack-Request-Id", trans_id)]
        )
        return body

    def _new_trans_id(self, environ: Environ) -> str:
        suffix = self._suffix
        extra = environ.get("HTTP_X_TRANS_ID_EXTRA")
        if extra:
            suffix += quote("-" + extra[:_TRANS_ID_EXTRA_LENGTH_MAX], encoding="latin-1")
        return new_trans_id(suffix)


def _checked_body(
    environ: Environ, status: str, headers: HeaderList, body: Iterable[bytes]
) -> Iterable[bytes]:
    """Return ``body`` with its first chunk produced and its length checked."""
    expected = _expected_length(environ["REQUEST_METHOD"], status, headers)
    if type(body) is list and (expected is None or sum(map(len, body)) == expected):
        return body
    return _CheckedBody(environ, body, expected)


def _expected_length(method: str, status: str, headers: HeaderList) -> int | None:
    if method == "HEAD" or status[:3] in _BODYLESS_STATUSES:
        return 0
    length = find_header(headers, "content-length")
    return int(length) if length is not None and length.isdecimal() else None


class _CheckedBody:
    """Passes a body on and raises ``BadResponseLength`` if it ends too early or too late.

    Surplus bytes of an answer that has no body (HEAD, 204, 304) are dropped silently: the client
    does not see the difference.
    """

    def __init__(self, environ: Environ, body: Iterable[bytes], expected: int | None) -> None:
        self._environ = environ
        self._body = body
        self._chunks = iter(body)
        self._expected = expected
        self._left = expected
        self._is_too_long = False
        self._first: bytes | None = b""
        try:
            # While no header has been sent, an error here can still become a 500.
            self._first = self._next_chunk()
        except StopIteration:
            self._first = None
        except Exception:
            self.close()
            raise

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            return first
        if self._first is None:
            raise StopIteration
        try:
            return self._next_chunk()
        except StopIteration:
            raise
        except Exception as error:
            trans_id = self._environ["swift.trans_id"]
            fields = _request_fields(self._environ, trans_id)
            if isinstance(error, BadResponseLength):
                log.error("%s; closing the connection %s", error, fields)
            else:
                log.exception("body broke off, closing the connection %s", fields)
            raise

    def _next_chunk(self) -> bytes:
        if self._is_too_long:
            raise BadResponseLength("response body is longer than its Content-Length")
        for chunk in self._chunks:
            if not chunk:
                continue
            if self._left is None:
                return chunk
            return self._within_length(chunk)
        if self._left:
            raise BadResponseLength(
                f"response body is {self._left} bytes shorter than its Content-Length"
            )
        raise StopIteration

    def _within_length(self, chunk: bytes) -> bytes:
        left = self._left or 0
        if len(chunk) <= left:
            self._left = left - len(chunk)
            return chunk
        if self._expected == 0:
            raise StopIteration
        self._left = 0
        self._is_too_long = True
        return chunk[:left] if left else self._next_chunk()

    def close(self) -> None:
        """Close the wrapped body."""
        close = getattr(self._body, "close", None)
        if close is not None:
            close()


def _request_fields(environ: Environ, trans_id: str) -> str:
    method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
    return f"method={method} path={quote(path, encoding='latin-1')} trans_id={trans_id}"


def filter_factory(
    global_conf: dict[str, str], **local_conf: str
) -> Callable[[WSGIApp], CatchErrors]:
    """PasteDeploy's entry point."""
    options = load_filter_options(CatchErrorsOptions, "catch_errors", global_conf, local_conf)
    return lambda app: CatchErrors(app, options)

# SPDX-License-Identifier: Apache-2.0
"""The access log: one ``key=value`` line for each request of a client.

The filter may stand twice in the pipeline, left and right of filters that make requests of their
own: the left one logs what the client asked for, the right one logs the sub-requests, whose line
carries ``source=``. A request that goes through both is logged once. Sum up bandwidth over lines
without ``source``.

Fields without a value are left out. ``status`` is 499 when the client went away before its request
or its answer was complete, and 500 when the answer broke off on our side.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from martlet.config import option
from martlet.http import Environ, HeaderList, StartResponse, WSGIApp, call_app
from martlet.log import LEVELS, get_logger
from proxy.middleware.filter_options import load_filter_options

log = get_logger("proxy.access")

#: Bodies up to this size go into the socket's buffer in one piece: whether the client was still
#: there to read them cannot be known, so their line is written at once.
_SMALL_BODY_BYTES = 64 * 1024
_MARK = "swift.proxy_access_log_made"
_SENSITIVE_PARAMS = re.compile(
    r"\b((?:temp_url_sig|signature|x-amz-signature|x-amz-security-token)=)([^&]*)", re.IGNORECASE
)
_PLAIN_TEXT = re.compile(r"[!-&(-~]+").fullmatch
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/_.~-]*").fullmatch


@dataclass(frozen=True)
class ProxyLoggingOptions:
    """``[filter:proxy-logging]``."""

    access_log_level: str = option(
        "", "Level of the access log; above INFO no lines are written. Empty: [DEFAULT] log_level"
    )
    reveal_sensitive_prefix: int = option(
        16, "How much of a signature in a query string is logged", "characters"
    )

    def __post_init__(self) -> None:
        if self.access_log_level and self.access_log_level.upper() not in LEVELS:
            raise ValueError(f"access_log_level must be one of {', '.join(LEVELS)}")


class ProxyLogging:
    """The filter."""

    def __init__(self, app: WSGIApp, options: ProxyLoggingOptions) -> None:
        self._app = app
        self._reveal = options.reveal_sensitive_prefix
        if options.access_log_level:
            log.setLevel(options.access_log_level.upper())

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Pass the request on and log it when its response is complete."""
        if _MARK in environ or not log.isEnabledFor(logging.INFO):
            return self._app(environ, start_response)
        environ[_MARK] = True
        access = _Access(environ, self._reveal)
        try:
            status, headers, body = call_app(self._app, environ)
        except Exception:
            access.log(500)
            raise
        access.answered(status, headers)
        start_response(status, headers)
        if type(body) is list:
            size = sum(map(len, body))
            if size <= _SMALL_BODY_BYTES:
                access.bytes_sent = 0 if access.method == "HEAD" else size
                access.log(access.status)
                return body
        return _LoggedBody(body, access)


class _Access:
    """What is known about one request under way.

    Method and path are taken at the start: other filters may rewrite them, and the line shows what
    the client asked for.
    """

    __slots__ = (
        "_environ",
        "_input",
        "_path",
        "_policy_index",
        "_query",
        "_reveal",
        "_started",
        "_ttfb",
        "bytes_sent",
        "method",
        "status",
    )

    def __init__(self, environ: Environ, reveal: int) -> None:
        self._started = time.time()
        self._environ = environ
        self.method: str = environ["REQUEST_METHOD"]
        self._path: str = environ["PATH_INFO"]
        self._query: str = environ.get("QUERY_STRING") or ""
        self._reveal = reveal
        self._policy_index: str | None = None
        self._ttfb = 0.0
        self.bytes_sent = 0
        self.status = 0
        self._input: _CountingInput | None = None
        if environ.get("CONTENT_LENGTH", "0") != "0" or "HTTP_TRANSFER_ENCODING" in environ:
            self._input = environ["wsgi.input"] = _CountingInput(environ["wsgi.input"])

    def answered(self, status: str, headers: HeaderList) -> None:
        """The response headers are there."""
        self._ttfb = time.time() - self._started
        self.status = int(status[:3])
        for name, value in headers:
            if name.lower() == "x-backend-storage-policy-index":
                self._policy_index = value

    def log(self, status: int) -> None:
        """Write the line."""
        environ, received = self._environ, self._input
        if received is not None and received.client_disconnect:
            status = 499
        user = environ.get("swift.access_logging")
        info = environ.get("swift.log_info")
        optional = (
            ("referer", environ.get("HTTP_REFERER")),
            ("user_agent", environ.get("HTTP_USER_AGENT")),
            ("client_etag", environ.get("HTTP_ETAG")),
            ("user", user.get("user_id") if user else None),
            ("policy_index", self._policy_index),
            ("source", environ.get("swift.source")),
            ("log_info", ",".join(info) if info else None),
        )
        log.info(
            "client_ip=%s remote_addr=%s method=%s path=%s protocol=%s status=%d bytes_recvd=%d"
            " bytes_sent=%d trans_id=%s request_time=%.4f ttfb=%.4f%s",
            _as_value(_client_ip(environ)),
            environ.get("REMOTE_ADDR", "-"),
            _as_value(self.method),
            self._shown_path(),
            environ.get("SERVER_PROTOCOL", "-"),
            status,
            received.bytes_received if received is not None else 0,
            self.bytes_sent,
            environ.get("swift.trans_id", "-"),
            time.time() - self._started,
            self._ttfb,
            "".join([f" {key}={_as_value(value)}" for key, value in optional if value]),
        )

    def _shown_path(self) -> str:
        path = self._path
        if not _PLAIN_PATH(path):
            path = quote(path, encoding="latin-1")
        if not self._query:
            return path
        query = _SENSITIVE_PARAMS.sub(self._shorten, self._query)
        return f"{path}?{quote(query, safe='%&=/:+,~*', encoding='latin-1')}"

    def _shorten(self, match: re.Match[str]) -> str:
        name, secret = match.groups()
        shown = secret if len(secret) <= self._reveal else f"{secret[: self._reveal]}..."
        return f"{name}{shown}"


class _LoggedBody:
    """A response body whose end, good or bad, writes the access line."""

    def __init__(self, body: Iterable[bytes], access: _Access) -> None:
        self._body = body
        self._chunks = iter(body)
        self._access: _Access | None = access
        # Nobody needs to read the body of an answer to HEAD to its end.
        self._status_at_close = access.status if access.method == "HEAD" else 499

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        access = self._access
        try:
            chunk = next(self._chunks)
        except StopIteration:
            if access is not None:
                self._status_at_close = access.status
            raise
        except Exception:
            self._status_at_close = 500
            raise
        if access is not None:
            access.bytes_sent += len(chunk)
        return chunk

    def close(self) -> None:
        """Close the body below and write the line, once."""
        try:
            close = getattr(self._body, "close", None)
            if close is not None:
                close()
        finally:
            if self._access is not None:
                access, self._access = self._access, None
                access.log(self._status_at_close)


class _CountingInput:
    """A request body that counts what is read and notices when the client goes away.

    Everything else of the server's input object (its 100-continue switches) shows through.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.bytes_received = 0
        self.client_disconnect = False

    def read(self, *args: Any) -> bytes:
        """See ``BinaryIO.read``."""
        return self._counted(self._stream.read, *args)

    def readline(self, *args: Any) -> bytes:
        """See ``BinaryIO.readline``."""
        return self._counted(self._stream.readline, *args)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")

    def _counted(self, read: Callable[..., bytes], *args: Any) -> bytes:
        try:
            chunk = read(*args)
        except Exception:
            self.client_disconnect = True
            raise
        self.bytes_received += len(chunk)
        return chunk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _client_ip(environ: Environ) -> str:
    forwarded = environ.get("HTTP_X_CLUSTER_CLIENT_IP") or environ.get("HTTP_X_FORWARDED_FOR")
    if forwarded:
        first: str = forwarded.split(",", 1)[0].strip()
        return first
    address: str = environ.get("REMOTE_ADDR", "-")
    return address


def _as_value(value: str) -> str:
    """A client's text so that it cannot look like more than one field of one line."""
    return value if _PLAIN_TEXT(value) else ascii(value)


def filter_factory(
    global_conf: dict[str, str], **local_conf: str
) -> Callable[[WSGIApp], ProxyLogging]:
    """PasteDeploy's entry point."""
    options = load_filter_options(ProxyLoggingOptions, "proxy-logging", global_conf, local_conf)
    return lambda app: ProxyLogging(app, options)

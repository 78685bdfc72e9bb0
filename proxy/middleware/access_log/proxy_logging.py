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
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

import statsd

from martlet.conf.options import ConfigError, option
from martlet.filters.filter_options import load_filter_options, where
from martlet.http.call import call_app
from martlet.http.environ import Environ, HeaderList, StartResponse, WSGIApp
from martlet.http.request import Request
from martlet.log import LEVELS, get_logger, log_request
from proxy.middleware.access_log.metrics import AccessMetrics, Counted
from proxy.middleware.access_log.secrets import AccessSecrets
from proxy.middleware.access_log.template import AccessTemplate

log = get_logger("proxy.access")

#: Bodies up to this size go into the socket's buffer in one piece: whether the client was still
#: there to read them cannot be known, so their line is written at once.
_SMALL_BODY_BYTES = 64 * 1024
_MARK = "swift.proxy_access_log_made"
_STATSD_METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "COPY", "OPTIONS", "UPDATE"]
_PLAIN_TEXT = re.compile(r"[!-&(-~]+").fullmatch
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/_.~-]*").fullmatch


@dataclass(frozen=True)
class ProxyLoggingOptions:
    """``[filter:proxy-logging]``."""

    access_log_level: str = option(
        "", "Level of the access log; above INFO no lines are written. Empty: [DEFAULT] log_level"
    )
    reveal_sensitive_prefix: int = option(
        16,
        "How much of a token, and of a signature in a URL, is logged; of keys nothing is",
        "characters",
    )
    log_msg_template: str = option(
        "", "Form of a line, with {field} in it; empty: key=value fields (doc/filters.md)"
    )
    log_anonymization_method: str = option("MD5", "Digest of {field.anonymized}")
    log_anonymization_salt: str = option("", "Put before what is anonymized")
    access_log_headers: bool = option(False, "Log the headers of requests")
    access_log_headers_only: list[str] = option(
        [], "Of these only the headers named here; empty: all"
    )
    access_log_statsd_host: str = option("", "Where StatsD figures are sent; empty: nowhere")
    access_log_statsd_port: int = option(8125, "UDP port of StatsD")
    access_log_statsd_metric_prefix: str = option("", "Put before the names of figures")
    access_log_statsd_default_sample_rate: float = option(1.0, "Share of the figures sent, 0 to 1")
    access_log_statsd_sample_rate_factor: float = option(1.0, "Multiplies the share")
    log_statsd_valid_http_methods: list[str] = option(
        _STATSD_METHODS, "Methods with figures of their own; others are BAD_METHOD"
    )

    def __post_init__(self) -> None:
        if self.access_log_level and self.access_log_level.upper() not in LEVELS:
            raise ValueError(f"access_log_level must be one of {', '.join(LEVELS)}")
        if not 0.0 <= self.sample_rate <= 1.0:
            raise ValueError("the share of figures sent to StatsD must be from 0 to 1")
        self.template()

    @property
    def sample_rate(self) -> float:
        """The share of figures that are sent."""
        rate = self.access_log_statsd_default_sample_rate
        return rate * self.access_log_statsd_sample_rate_factor

    def template(self) -> AccessTemplate | None:
        """The form of a line; None for key=value fields.

        :raises ValueError: it cannot be used.
        """
        form = self.log_msg_template
        method, salt = self.log_anonymization_method, self.log_anonymization_salt
        checked = AccessTemplate(form, method, salt)
        return checked if form else None


class ProxyLogging:
    """The filter."""

    def __init__(
        self, app: WSGIApp, options: ProxyLoggingOptions, metrics: AccessMetrics | None = None
    ) -> None:
        self._app = app
        self._style = _Style(
            AccessSecrets(options.reveal_sensitive_prefix),
            options.template(),
            options.access_log_headers,
            frozenset(name.lower() for name in options.access_log_headers_only),
            metrics,
        )
        if options.access_log_level:
            log.setLevel(options.access_log_level.upper())

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Pass the request on and log it when its response is complete."""
        is_wanted = log.isEnabledFor(logging.INFO) or self._style.metrics is not None
        if _MARK in environ or not is_wanted:
            return self._app(environ, start_response)
        environ[_MARK] = True
        access = _Access(environ, self._style)
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


class _Style(NamedTuple):
    """What is logged of a request, and how."""

    secrets: AccessSecrets
    template: AccessTemplate | None
    has_headers: bool
    only_headers: frozenset[str]
    metrics: AccessMetrics | None


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
        "_started",
        "_style",
        "_ttfb",
        "bytes_sent",
        "method",
        "status",
    )

    def __init__(self, environ: Environ, style: _Style) -> None:
        self._started = time.time()
        self._environ = environ
        self.method: str = environ["REQUEST_METHOD"]
        self._path: str = environ["PATH_INFO"]
        self._query: str = environ.get("QUERY_STRING") or ""
        self._style = style
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
        """Write the line, and count the request."""
        environ, received = self._environ, self._input
        if received is not None and received.client_disconnect:
            status = 499
        if self._style.metrics is not None:
            self._count(self._style.metrics, status)
        if not log.isEnabledFor(logging.INFO):
            return
        if self._style.template is not None:
            log_request(log, self._style.template.render(self._fields(status)))
            return
        user = environ.get("swift.access_logging")
        info = environ.get("swift.log_info")
        optional = (
            ("referer", self._referer()),
            ("user_agent", environ.get("HTTP_USER_AGENT")),
            ("client_etag", environ.get("HTTP_ETAG")),
            ("user", user.get("user_id") if user else None),
            ("policy_index", self._policy_index),
            ("source", environ.get("swift.source")),
            ("log_info", ",".join(info) if info else None),
            ("headers", self._shown_headers() if self._style.has_headers else None),
        )
        received_bytes = received.bytes_received if received is not None else 0
        log_request(
            log,
            f"client_ip={_as_value(_client_ip(environ))}"
            f" remote_addr={environ.get('REMOTE_ADDR', '-')}"
            f" method={_as_value(self.method)}"
            f" path={self._shown_path()}"
            f" protocol={environ.get('SERVER_PROTOCOL', '-')}"
            f" status={status}"
            f" bytes_recvd={received_bytes}"
            f" bytes_sent={self.bytes_sent}"
            f" trans_id={environ.get('swift.trans_id', '-')}"
            f" request_time={time.time() - self._started:.4f}"
            f" ttfb={self._ttfb:.4f}"
            + "".join([f" {key}={_as_value(value)}" for key, value in optional if value]),
        )

    def _count(self, metrics: AccessMetrics, status: int) -> None:
        received = self._input.bytes_received if self._input is not None else 0
        metrics.count(
            Counted(
                self._path,
                self.method,
                status,
                self._policy_index,
                time.time() - self._started,
                self._ttfb,
                received + self.bytes_sent,
            )
        )

    def _fields(self, status: int) -> dict[str, object]:
        """The fields of a template."""
        environ, ended = self._environ, time.time()
        user = environ.get("swift.access_logging") or {}
        names = [*self._path.split("/", 4), "", "", "", "", ""]
        token = environ.get("HTTP_X_AUTH_TOKEN") or environ.get("HTTP_X_STORAGE_TOKEN") or ""
        return {
            "client_ip": _client_ip(environ),
            "remote_addr": environ.get("REMOTE_ADDR"),
            "start_time": self._started,
            "end_time": ended,
            "method": self.method,
            "domain": environ.get("HTTP_HOST", "").partition(":")[0],
            "path": self._shown_path(),
            "protocol": environ.get("SERVER_PROTOCOL"),
            "status_int": status,
            "wire_status_int": self.status or status,
            "referer": self._referer(),
            "user_agent": environ.get("HTTP_USER_AGENT"),
            "auth_token": self._style.secrets.token(token),
            "bytes_recvd": (self._input.bytes_received if self._input is not None else 0) or "",
            "bytes_sent": self.bytes_sent or "",
            "client_etag": environ.get("HTTP_ETAG"),
            "transaction_id": environ.get("swift.trans_id"),
            "headers": self._shown_headers(),
            "request_time": f"{ended - self._started:.4f}",
            "source": environ.get("swift.source"),
            "log_info": ",".join(environ.get("swift.log_info") or []),
            "policy_index": self._policy_index,
            "access_user_id": user.get("user_id"),
            "account": names[2],
            "container": names[3],
            "object": names[4],
            "ttfb": f"{self._ttfb:.4f}",
            "pid": os.getpid(),
        }

    def _shown_headers(self) -> str:
        """The headers of the request, one a line; secrets among them are not shown."""
        style = self._style
        if not style.has_headers:
            return ""
        lines = []
        for name, value in sorted(Request(self._environ).headers.items()):
            if not style.only_headers or name.lower() in style.only_headers:
                lines.append(f"{name}: {style.secrets.header(name, value)}")
        return "\n".join(lines)

    def _shown_path(self) -> str:
        path = self._path
        if not _PLAIN_PATH(path):
            path = quote(path, encoding="latin-1")
        if not self._query:
            return path
        query = self._style.secrets.url(self._query)
        return f"{path}?{quote(query, safe='%&=/:+,~*', encoding='latin-1')}"

    def _referer(self) -> str | None:
        # Of a page that was itself opened by a temporary URL.
        referer = self._environ.get("HTTP_REFERER")
        return self._style.secrets.url(referer) if referer else referer


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
    metrics = None
    if options.access_log_statsd_host:
        host, port = options.access_log_statsd_host, options.access_log_statsd_port
        prefix = ".".join(filter(None, [options.access_log_statsd_metric_prefix, "proxy-server"]))
        try:
            client = statsd.StatsClient(host, port, prefix)
        except OSError as error:
            section = where("proxy-logging", global_conf)
            raise ConfigError(f"{section}: access_log_statsd_host {host!r}: {error}") from None
        methods = options.log_statsd_valid_http_methods
        metrics = AccessMetrics(client, options.sample_rate, methods)
    return lambda app: ProxyLogging(app, options, metrics)

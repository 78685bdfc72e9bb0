# SPDX-License-Identifier: Apache-2.0
"""Traces of clients' requests for a collector of OpenTelemetry (doc/tracing.md).

Each traced request has a span, and one below it for each request to a storage server. Place the
filter right of catch_errors, which makes the transaction id, and of gatekeeper, which finds the
client's address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from martlet.conf.options import option
from martlet.filters.filter_options import load_filter_options
from martlet.grid.plain_http import PlainHttp
from martlet.http.environ import TRANS_ID, Environ, HeaderList, StartResponse, WSGIApp
from martlet.http.traced import traced_requests
from martlet.http.trans_id import new_trans_id
from martlet.tracing.options import ExportOptions

if TYPE_CHECKING:
    from martlet.tracing.otel import ServedRequest, Tracing

_KINDS = ("account", "container", "object")


@dataclass(frozen=True)
class TracingOptions(ExportOptions):
    """``[filter:tracing]``."""

    sample_ratio: float = option(0.1, "Part of the requests that are traced, from 0 to 1")
    traceparent_from: list[str] = option(
        [], "Addresses and networks of clients whose Traceparent continues their own trace"
    )

    def __post_init__(self) -> None:
        """:raises ValueError: an option is out of its range."""
        super().__post_init__()
        if not 0 <= self.sample_ratio <= 1:
            raise ValueError("sample_ratio must be from 0 to 1")
        PlainHttp(self.traceparent_from, "traceparent_from")


class TracingFilter:
    """The filter."""

    def __init__(self, app: WSGIApp, tracing: Tracing, callers: PlainHttp) -> None:
        self._app = app
        self._tracing = tracing
        self._callers = callers

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Pass the request on; its span lasts until the end of the answer."""
        traceparent = environ.get("HTTP_TRACEPARENT")
        if traceparent is not None and environ.get("REMOTE_ADDR", "") not in self._callers:
            traceparent = None
        trans_id = environ.get(TRANS_ID) or new_trans_id()
        environ[TRANS_ID] = trans_id
        span = self._tracing.begin(_name(environ), traceparent, _attributes(environ, trans_id))
        if span is None:
            return self._app(environ, start_response)
        request = _Traced(span, trans_id, start_response)
        try:
            result = self._app(environ, request.start_response)
        except BaseException as error:
            request.fail(type(error).__name__)
            raise
        if isinstance(result, (list, tuple)):
            request.end()
            return result
        return _Body(result, request)


class _Traced:
    """A traced request under way."""

    def __init__(self, span: ServedRequest, trans_id: str, tell: StartResponse) -> None:
        self._span = span
        self._trans_id = trans_id
        self._tell = tell
        self._status = 0
        traced_requests[trans_id] = span

    def start_response(self, status: str, headers: HeaderList, exc_info: Any = None) -> Any:
        self._status = int(status[:3])
        return self._tell(status, headers, exc_info)

    def end(self) -> None:
        traced_requests.pop(self._trans_id, None)
        self._span.end(self._status)

    def fail(self, reason: str) -> None:
        traced_requests.pop(self._trans_id, None)
        self._span.fail(reason)


class _Body:
    """The body of an answer, whose end is the end of the request."""

    def __init__(self, chunks: Iterable[bytes], request: _Traced) -> None:
        self._chunks = chunks
        self._request = request

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._chunks)

    def close(self) -> None:
        self._request.end()
        close = getattr(self._chunks, "close", None)
        if close is not None:
            close()


def _name(environ: Environ) -> str:
    """The method, and the kind of resource: a trace is found by few names."""
    method: str = environ["REQUEST_METHOD"]
    version, *names = environ["PATH_INFO"].lstrip("/").split("/", 3)
    if version not in ("v1", "v1.0") or not names:
        return method
    return f"{method} {_KINDS[sum(map(bool, names)) - 1]}" if names[0] else method


def _attributes(environ: Environ, trans_id: str) -> dict[str, str | int]:
    return {
        "http.request.method": environ["REQUEST_METHOD"],
        "url.path": quote(environ["PATH_INFO"], encoding="latin-1"),
        "client.address": environ.get("REMOTE_ADDR", ""),
        "storage.trans_id": trans_id,
    }


def filter_factory(
    global_conf: dict[str, str], **local_conf: str
) -> Callable[[WSGIApp], TracingFilter]:
    """PasteDeploy's entry point."""
    from martlet.tracing.otel import Tracing  # the library is an optional one

    options = load_filter_options(TracingOptions, "tracing", global_conf, local_conf)
    callers = PlainHttp(options.traceparent_from, "traceparent_from")
    tracing = Tracing(options, options.sample_ratio)
    return lambda app: TracingFilter(app, tracing, callers)

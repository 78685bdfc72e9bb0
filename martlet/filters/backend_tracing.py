# SPDX-License-Identifier: Apache-2.0
"""Spans of the requests that an account or container server answers (doc/tracing.md).

A proxy decides which requests are traced, and sends the header Traceparent with them. The filter
holds the options. The server asks it for each request, because requests over the grid pass no
filters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from martlet.filters.filter_options import load_filter_options
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.request import Request
from martlet.http.traced import TRACEPARENT, OpenSpan
from martlet.tracing.options import ExportOptions

if TYPE_CHECKING:
    from martlet.tracing.otel import Tracing


@dataclass(frozen=True)
class BackendTracingOptions(ExportOptions):
    """``[filter:backend_tracing]``."""


class BackendTracing:
    """The filter."""

    def __init__(self, app: WSGIApp, tracing: Tracing) -> None:
        self.app = app  # the entry point finds the application by this name
        self._tracing = tracing

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Pass the request on."""
        return self.app(environ, start_response)

    def begin_span(self, req: Request) -> OpenSpan | None:
        """The span of a request that begins now; None without a trace of a proxy."""
        traceparent = req.headers.get(TRACEPARENT)
        if traceparent is None:
            return None
        path = quote(req.environ["PATH_INFO"], encoding="latin-1")
        device, _, place = path.lstrip("/").partition("/")
        attributes = {
            "http.request.method": req.method,
            "url.path": path,
            "storage.device": device,
            "storage.partition": place.partition("/")[0],
            "storage.trans_id": req.headers.get("X-Trans-Id") or "",
        }
        return self._tracing.begin(req.method, traceparent, attributes)


def filter_factory(
    global_conf: Mapping[str, str], **local_conf: str
) -> Callable[[WSGIApp], BackendTracing]:
    """PasteDeploy's entry point."""
    from martlet.tracing.otel import Tracing  # the library is an optional one

    options = load_filter_options(BackendTracingOptions, "backend_tracing", global_conf, local_conf)
    tracing = Tracing(options, sample_ratio=0.0)
    return lambda app: BackendTracing(app, tracing)

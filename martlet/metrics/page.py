# SPDX-License-Identifier: Apache-2.0
"""``GET /metrics`` in front of a pipeline, for the addresses in ``metrics_from``."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from martlet.grid.plain_http import PlainHttp
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.response import Response

PATH = "/metrics"


class MetricsPage:
    """Answers ``GET /metrics``; every other request goes to the pipeline."""

    def __init__(self, app: WSGIApp, registry: CollectorRegistry, readers: PlainHttp) -> None:
        self.app = app
        self._registry = registry
        self._readers = readers

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """An address that may not read gets the answer of the pipeline, as without metrics."""
        if environ["PATH_INFO"] != PATH or environ["REMOTE_ADDR"] not in self._readers:
            return self.app(environ, start_response)
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            headers = {"Allow": "GET, HEAD", "Content-Type": "text/plain"}
            return Response(405, headers, "Only GET is answered here.\n")(environ, start_response)
        headers = {"Content-Type": CONTENT_TYPE_PLAIN_0_0_4}
        body = generate_latest(self._registry)
        return Response(200, headers, body)(environ, start_response)

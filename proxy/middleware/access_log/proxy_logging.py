# SPDX-License-Identifier: Apache-2.0
"""The access log: one ``key=value`` line for each request of a client.

The filter may stand twice in the pipeline, left and right of filters that make sub-requests. The
left one logs the client's request. The right one logs the sub-requests, and their lines have
``source=``. A request that goes through both is logged once. To sum up bandwidth, take the lines
without ``source``.

Fields without a value are left out. ``status`` is 499 if the client closed the connection before
its request or the response was complete. It is 500 if the response ended early by an error here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

import statsd

from martlet.conf.options import ConfigError
from martlet.filters.filter_options import load_filter_options, where
from martlet.http.call import call_app
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.log import get_logger, log_request
from proxy.middleware.access_log.line import AccessLine
from proxy.middleware.access_log.logged_body import LoggedBody
from proxy.middleware.access_log.metrics import AccessMetrics, Counted
from proxy.middleware.access_log.options import ProxyLoggingOptions
from proxy.middleware.access_log.request_record import RequestRecord
from proxy.middleware.access_log.secrets import AccessSecrets

log = get_logger("proxy.access")

#: The line of a body up to this size is written at once. Such a body goes into the socket's buffer
#: in one piece, so the server cannot tell whether the client was still there to read it.
_SMALL_BODY_BYTES = 64 * 1024
_MARK = "swift.proxy_access_log_made"


class ProxyLogging:
    """The filter."""

    def __init__(
        self, app: WSGIApp, options: ProxyLoggingOptions, metrics: AccessMetrics | None = None
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._line = AccessLine(
            AccessSecrets(options.reveal_sensitive_prefix),
            options.template(),
            options.access_log_headers,
            frozenset(name.lower() for name in options.access_log_headers_only),
        )
        if options.access_log_level:
            log.setLevel(options.access_log_level.upper())

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Pass the request on and log it when its response is complete."""
        is_wanted = log.isEnabledFor(logging.INFO) or self._metrics is not None
        if _MARK in environ or not is_wanted:
            return self._app(environ, start_response)
        environ[_MARK] = True
        record = RequestRecord(environ)
        try:
            status, headers, body = call_app(self._app, environ)
        except Exception:
            self._finish(record, 500)
            raise
        record.answered(status, headers)
        start_response(status, headers)
        if type(body) is list:
            size = sum(map(len, body))
            if size <= _SMALL_BODY_BYTES:
                record.bytes_sent = 0 if record.method == "HEAD" else size
                self._finish(record, record.status)
                return body
        return LoggedBody(body, record, self._finish)

    def _finish(self, record: RequestRecord, status: int) -> None:
        """Count the request and write its line."""
        if record.is_client_gone:
            status = 499
        if self._metrics is not None:
            self._metrics.count(
                Counted(
                    record.path,
                    record.method,
                    status,
                    record.policy_index,
                    time.time() - record.started,
                    record.ttfb,
                    record.bytes_received + record.bytes_sent,
                )
            )
        if log.isEnabledFor(logging.INFO):
            log_request(log, self._line.render(record, status))


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

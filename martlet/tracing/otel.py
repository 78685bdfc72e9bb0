# SPDX-License-Identifier: Apache-2.0
"""Spans by OpenTelemetry's library, and their way to the collector.

The library sends spans in a thread of its own. A Python service has patched the standard library by
then, so this is a green thread, and its sockets are green. A collector that hangs holds no request.
Each worker has its own thread and queue, made at its first traced request, after the fork.
"""

from __future__ import annotations

import importlib.metadata
import os
import socket
import sys
import threading

from martlet.http.traced import Attributes
from martlet.service.worker_processes import at_end
from martlet.tracing.options import BATCH_SPANS, ExportOptions

try:
    from opentelemetry.context import Context
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise ImportError(f"{error}: traces need pip install 'martlet[tracing]'") from None

#: How long spans wait for others to be sent with them, seconds.
_BATCH_SECONDS = 1.0
#: How long the end of a process waits for the collector, seconds.
_FLUSH_SECONDS = 2.0
_STATUS = "http.response.status_code"
_propagator = TraceContextTextMapPropagator()


class LibrarySpan:
    """An `OpenSpan`."""

    def __init__(self, span: Span) -> None:
        self.span = span

    @property
    def traceparent(self) -> str:
        """The value of the header Traceparent."""
        context = self.span.get_span_context()
        flags = int(context.trace_flags)
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{flags:02x}"

    def end(self, status: int) -> None:
        """The request has this answer; a server error marks the span."""
        span = self.span
        if not span.is_recording():
            return
        span.set_attribute(_STATUS, status)
        if status >= 500:
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    def fail(self, reason: str) -> None:
        """The request has no answer."""
        if self.span.is_recording():
            self.span.set_status(Status(StatusCode.ERROR, reason))
            self.span.end()


class ServedRequest(LibrarySpan):
    """The span of a request that this process serves; other spans are below it."""

    def __init__(self, tracer: Tracer, span: Span) -> None:
        super().__init__(span)
        self._tracer = tracer
        self._context = set_span_in_context(span, Context())

    def begin_backend(self, name: str, attributes: Attributes) -> LibrarySpan:
        """The span of a request to another server that begins now."""
        return LibrarySpan(
            self._tracer.start_span(name, self._context, SpanKind.CLIENT, dict(attributes))
        )


class Tracing:
    """Makes the spans of requests that a service answers.

    :param sample_ratio: the part of the requests without a trace for which one begins.
    :param exporter: for tests; otherwise that of the options.
    """

    def __init__(
        self, options: ExportOptions, sample_ratio: float, exporter: SpanExporter | None = None
    ) -> None:
        self._options = options
        self._sampler = ParentBased(TraceIdRatioBased(sample_ratio))
        self._exporter = exporter
        self._provider: TracerProvider | None = None
        self._tracer: Tracer | None = None

    def begin(
        self, name: str, traceparent: str | None, attributes: Attributes
    ) -> ServedRequest | None:
        """The span of a request that begins now; None if it is not traced.

        :param traceparent: of a caller that is believed; it decides whether there is a trace.
        """
        tracer = self._tracer or self._start()
        parent = Context()
        if traceparent is not None:
            parent = _propagator.extract({"traceparent": traceparent}, parent)
        span = tracer.start_span(name, parent, SpanKind.SERVER, dict(attributes))
        return ServedRequest(tracer, span) if span.is_recording() else None

    def finish(self) -> None:
        """Send what waits, and end. The library waits half a minute for a collector that hangs."""
        if self._provider is not None:
            thread = threading.Thread(target=self._provider.shutdown, daemon=True)
            thread.start()
            thread.join(_FLUSH_SECONDS)

    def _start(self) -> Tracer:
        options = self._options
        version = importlib.metadata.version("martlet")
        resource: dict[str, str | int] = {
            "service.name": options.service_name or os.path.basename(sys.argv[0]),
            "service.version": version,
            "host.name": socket.gethostname(),
            "process.pid": os.getpid(),
        }
        provider = TracerProvider(self._sampler, Resource(resource), shutdown_on_exit=False)
        processor = BatchSpanProcessor(
            self._exporter or OTLPSpanExporter(options.endpoint, timeout=options.export_timeout),
            max_queue_size=options.queue_size,
            schedule_delay_millis=_BATCH_SECONDS * 1000,
            max_export_batch_size=BATCH_SPANS,
        )
        provider.add_span_processor(processor)
        at_end(self.finish)
        self._provider = provider
        self._tracer = provider.get_tracer("martlet", version)
        return self._tracer

"""Spans of clients' requests and, below them, of those to storage servers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from fake_cluster import FakeCluster
from fake_devices import HANG_UP
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from martlet.conf.options import ConfigError
from martlet.grid.plain_http import PlainHttp
from martlet.http.call import call_app
from martlet.http.request import Request
from martlet.http.response import Response
from martlet.http.traced import traced_requests
from martlet.tracing.options import ExportOptions
from martlet.tracing.otel import Tracing
from proxy.controllers.object_put import ONE_MESSAGE_BYTES_MAX
from proxy.middleware.frame.tracing import TracingFilter, filter_factory

LARGE = b"x" * (ONE_MESSAGE_BYTES_MAX + 1)
TRACE = "0af7651916cd43dd8448eb211c80319c"
SAMPLED = f"00-{TRACE}-b7ad6b7169203331-01"
NOT_SAMPLED = f"00-{TRACE}-b7ad6b7169203331-00"


class Traced:
    """A cluster whose requests are traced."""

    def __init__(self, cluster: FakeCluster, ratio: float = 1.0, callers: str = "") -> None:
        self.cluster = cluster
        self.exporter = InMemorySpanExporter()
        self.tracing = Tracing(ExportOptions(), ratio, self.exporter)
        self._app = cluster.app
        cluster.app = TracingFilter(  # type: ignore[assignment]
            self._app, self.tracing, PlainHttp(callers.split())
        )

    def spans(self) -> tuple[ReadableSpan, list[ReadableSpan]]:
        """The only span of a client's request, and those below it."""
        spans = self.all_spans()
        (top,) = [span for span in spans if span.kind is SpanKind.SERVER]
        return top, [span for span in spans if span is not top]

    def all_spans(self) -> list[ReadableSpan]:
        self.tracing.finish()
        assert traced_requests == {}
        return list(self.exporter.get_finished_spans())

    def traceparents(self) -> list[str]:
        """What the storage servers got, over the grid and by HTTP."""
        found = []
        for device in self.cluster.devices:
            headers = [seen.headers for seen in device.seen]
            found += [h["traceparent"] for h in headers if "traceparent" in h]
        return found


@pytest.fixture
def traced(cluster: FakeCluster) -> Iterator[Traced]:
    yield Traced(cluster)
    traced_requests.clear()


def parent_of(span: ReadableSpan) -> tuple[int, int]:
    assert span.parent is not None
    return span.parent.trace_id, span.parent.span_id


def id_of(span: ReadableSpan) -> tuple[int, int]:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


@pytest.mark.parametrize(("body", "transport"), [(b"small", "grid"), (LARGE, "http")])
def test_each_replica_has_a_span_and_gets_its_id(
    traced: Traced, body: bytes, transport: str
) -> None:
    environ = {"swift.trans_id": "tx123", "REMOTE_ADDR": "192.0.2.7"}
    assert traced.cluster.call("PUT", "/v1/a/c/o\u00e9", body, **environ).status == 201
    top, below = traced.spans()
    assert top.name == "PUT object"
    assert top.parent is None
    wanted = {
        "http.request.method": "PUT",
        "url.path": "/v1/a/c/o%C3%A9",
        "client.address": "192.0.2.7",
        "storage.trans_id": "tx123",
        "http.response.status_code": 201,
    }
    assert dict(top.attributes or {}) == wanted
    puts = [span for span in below if span.name == "PUT object-server"]
    assert len(puts) == 3
    assert len({(span.attributes or {})["storage.device"] for span in puts}) == 3
    for span in below:
        assert span.kind is SpanKind.CLIENT
        assert parent_of(span) == id_of(top)
        attributes = span.attributes or {}
        assert attributes["storage.trans_id"] == "tx123"
        assert attributes["server.address"] == "127.0.0.1"
    for span in puts:
        attributes = span.attributes or {}
        assert attributes["storage.transport"] == transport
        assert attributes["http.response.status_code"] == 201
    ids = [f"00-{trace:032x}-{span:016x}" for trace, span in map(id_of, below)]
    assert sorted(text[:-3] for text in traced.traceparents()) == sorted(ids)
    assert all(int(text[-2:], 16) & 1 for text in traced.traceparents())  # sampled


def test_a_server_without_an_answer_is_an_error(traced: Traced) -> None:
    for device in traced.cluster.devices[:3]:
        device.fault = lambda seen: HANG_UP if seen.path.endswith("/a/c/o") else None
    traced.cluster.call("PUT", "/v1/a/c/o", b"data")
    _, below = traced.spans()
    failed = [span for span in below if span.status.status_code is StatusCode.ERROR]
    assert {(span.attributes or {})["storage.device"] for span in failed} == {"sd0", "sd1", "sd2"}
    assert all(span.status.description for span in failed)


def test_a_server_error_is_an_error(traced: Traced) -> None:
    for device in traced.cluster.devices:
        device.fault = 500
    assert traced.cluster.call("GET", "/v1/a/c/o").status == 503
    top, below = traced.spans()
    for span in (top, *below):
        assert span.status.status_code is StatusCode.ERROR
    assert {(span.attributes or {})["http.response.status_code"] for span in below} == {500}


def test_a_read_by_http_has_a_span(traced: Traced) -> None:
    assert traced.cluster.call("PUT", "/v1/a/c/o", LARGE).status == 201
    assert traced.cluster.call("GET", "/v1/a/c/o").body == LARGE
    tops = [span for span in traced.all_spans() if span.kind is SpanKind.SERVER]
    assert [span.name for span in tops] == ["PUT object", "GET object"]
    below = [s for s in traced.all_spans() if s.parent and parent_of(s) == id_of(tops[1])]
    transports = [
        (span.attributes or {})["storage.transport"]
        for span in below
        if span.name == "GET object-server"
    ]
    assert sorted(map(str, transports)) == ["grid", "http"]  # the first answer left the body out


@pytest.mark.parametrize(
    ("header", "callers", "ratio", "is_traced", "is_continued"),
    [
        (SAMPLED, "192.0.2.0/24", 0.0, True, True),
        (NOT_SAMPLED, "192.0.2.0/24", 1.0, False, False),
        (SAMPLED, "198.51.100.1", 1.0, True, False),
        (SAMPLED, "", 0.0, False, False),
        ("nonsense", "192.0.2.0/24", 1.0, True, False),
        (None, "192.0.2.0/24", 0.0, False, False),
    ],
)
def test_the_caller_decides_if_it_is_believed(
    cluster: FakeCluster,
    header: str | None,
    callers: str,
    ratio: float,
    is_traced: bool,
    is_continued: bool,
) -> None:
    traced = Traced(cluster, ratio, callers)
    headers = {} if header is None else {"Traceparent": header}
    answer = cluster.call("PUT", "/v1/a/c/o", b"data", headers, REMOTE_ADDR="192.0.2.7")
    assert answer.status == 201
    spans = traced.all_spans()
    assert bool(spans) == is_traced
    assert len(traced.traceparents()) == max(0, len(spans) - 1)
    for span in spans:
        assert (id_of(span)[0] == int(TRACE, 16)) == is_continued


def test_an_error_of_the_pipeline_ends_the_span() -> None:
    exporter = InMemorySpanExporter()
    tracing = Tracing(ExportOptions(), 1.0, exporter)

    def fail(*_: Any) -> Any:
        raise RuntimeError("the test fails it")

    with pytest.raises(RuntimeError):
        call_app(TracingFilter(fail, tracing, PlainHttp()), Request.blank("/v1/a").environ)
    tracing.finish()
    (span,) = exporter.get_finished_spans()
    assert span.status.description == "RuntimeError"
    assert traced_requests == {}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/a", "GET account"),
        ("/v1/a/", "GET account"),
        ("/v1/a/c", "GET container"),
        ("/v1/a/c/o/p", "GET object"),
        ("/v1.0/a/c/o", "GET object"),
        ("/v1/", "GET"),
        ("/bucket/key", "GET"),
        ("/", "GET"),
    ],
)
def test_names_are_few(path: str, name: str) -> None:
    exporter = InMemorySpanExporter()
    tracing = Tracing(ExportOptions(), 1.0, exporter)
    app = TracingFilter(Response(200), tracing, PlainHttp())
    call_app(app, Request.blank(path).environ)
    tracing.finish()
    assert [span.name for span in exporter.get_finished_spans()] == [name]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("endpoint", "collector:4318"),
        ("endpoint", "http:///v1/traces"),
        ("export_timeout", "0"),
        ("queue_size", "10"),
        ("sample_ratio", "1.5"),
        ("traceparent_from", "balancer"),
    ],
)
def test_options_that_cannot_be_used(option: str, value: str) -> None:
    with pytest.raises(ConfigError, match=option):
        filter_factory({}, **{option: value})


def test_services_without_the_filter_do_not_load_the_library() -> None:
    modules = "proxy.server, proxy.app, proxy.replicas.backends, account.app, container.app"
    code = (
        f"import sys, martlet.service.gate, martlet.service.server, {modules}; "
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

"""Spans of an account server, below those of a proxy: over the grid and by HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from grid_calls import GridCaller
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from storage_calls import Answer, Caller, write_cluster

from account.app import AccountServer
from martlet.conf.grid import GridConf
from martlet.filters.backend_tracing import BackendTracing, filter_factory
from martlet.http.response import Response
from martlet.service.gate import behind_gate
from martlet.tracing.options import ExportOptions
from martlet.tracing.otel import Tracing

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SENT = {"Traceparent": f"00-{TRACE}-{PARENT}-01", "X-Trans-Id": "tx123"}

Call = Callable[[dict[str, str]], Answer]


class Traced:
    """An account server with the filter."""

    def __init__(self, home: Path) -> None:
        conf = {"swift_dir": str(home), "devices": str(home / "devices"), "mount_check": "false"}
        self.server = AccountServer.from_conf(conf, {})
        self.exporter = InMemorySpanExporter()
        self.tracing = Tracing(ExportOptions(), 0.0, self.exporter)
        self.app = BackendTracing(self.server, self.tracing)
        behind_gate(self.app, GridConf(), "test", 8)
        self._grid = GridCaller("account", self.server.grid_handlers())
        self._http = Caller(self.app)

    def by_grid(self, headers: dict[str, str]) -> Answer:
        return self._grid("put", "/a", 1, headers)

    def by_http(self, headers: dict[str, str]) -> Answer:
        return self._http("PUT", "/d1/0/a", 1, headers)

    def spans(self) -> list[ReadableSpan]:
        self.tracing.finish()
        return list(self.exporter.get_finished_spans())


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    traced = Traced(write_cluster(tmp_path))
    yield traced
    traced.server.pool.close()


@pytest.mark.parametrize("transport", ["grid", "http"])
def test_a_request_of_a_traced_one_has_a_span(traced: Traced, transport: str) -> None:
    call: Call = traced.by_grid if transport == "grid" else traced.by_http
    assert call(SENT).status == 201
    (span,) = traced.spans()
    assert span.name == "PUT"
    assert span.parent is not None
    assert f"{span.parent.trace_id:032x}" == TRACE
    assert f"{span.parent.span_id:016x}" == PARENT
    assert dict(span.attributes or {}) == {
        "http.request.method": "PUT",
        "url.path": "/d1/0/a",
        "storage.device": "d1",
        "storage.partition": "0",
        "storage.trans_id": "tx123",
        "http.response.status_code": 201,
    }


@pytest.mark.parametrize("header", [None, f"00-{TRACE}-{PARENT}-00", "nonsense"])
def test_others_have_none(traced: Traced, header: str | None) -> None:
    headers = {} if header is None else {"Traceparent": header}
    assert traced.by_grid(headers).status == 201
    assert traced.by_http(headers).status == 202
    assert traced.spans() == []


def test_an_error_is_in_the_span(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> Response:
        raise RuntimeError("the test fails it")

    monkeypatch.setitem(traced.server.handlers, "PUT", fail)
    assert traced.by_grid(SENT).status == 500
    (span,) = traced.spans()
    assert span.status.status_code is StatusCode.ERROR


def test_the_factory_passes_requests_on(tmp_path: Path) -> None:
    made = filter_factory({}, service_name="accounts")(Response(204))
    assert Caller(made)("GET", "/d1/0/a").status == 204

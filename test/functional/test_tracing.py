"""Traces of a whole cluster at a collector of OTLP over HTTP, also one that hangs or is away."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from running_cluster import RunningCluster, await_true
from swift_api import Account

from cluster.ports import HOST

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
LARGE = b"x" * 200_000
REQUESTS = 400
#: A request waits for no collector: the export's limit is 5 s.
SECONDS_MAX = 3.0


@dataclass(frozen=True)
class Span:
    """A span as the collector got it."""

    service: str
    name: str
    trace: str
    number: str
    parent: str
    attributes: dict[str, Any]


class Collector:
    """Takes spans, as a collector of OpenTelemetry does."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self._lock = threading.Lock()
        take = self._take

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                assert self.path == "/v1/traces"
                assert self.headers["Content-Type"] == "application/x-protobuf"
                take(self.rfile.read(int(self.headers["Content-Length"])))
                body = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _take(self, body: bytes) -> None:
        message = ExportTraceServiceRequest.FromString(body)
        found = []
        for resource in message.resource_spans:
            about = {pair.key: pair.value.string_value for pair in resource.resource.attributes}
            for span in (span for scope in resource.scope_spans for span in scope.spans):
                values = {
                    pair.key: getattr(pair.value, pair.value.WhichOneof("value") or "")
                    for pair in span.attributes
                }
                ids = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
                found.append(Span(about["service.name"], span.name, *ids, values))
        with self._lock:
            self.spans += found

    def of(self, trans_id: str) -> list[Span]:
        with self._lock:
            return [s for s in self.spans if s.attributes["storage.trans_id"] == trans_id]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def trace(cluster: RunningCluster, port: int) -> None:
    """Add the filters of traces to the confs, and start the services anew."""
    names = ("proxy", "account", "container")
    for name in names:
        conf = cluster.home / "etc" / f"{name}-server.conf"
        kind, left_one = ("tracing", "healthcheck")
        if name != "proxy":
            kind, left_one = ("backend_tracing", "recon")
        text = conf.read_text()
        before, _, rest = text.partition("[filter:tracing]\n")
        if not rest:
            assert before.count(f" {left_one} ") == 1
            before = before.replace(f" {left_one} ", f" {left_one} tracing ")
        conf.write_text(
            f"{before}[filter:tracing]\nuse = egg:martlet#{kind}\n"
            f"endpoint = http://{HOST}:{port}/v1/traces\n"
            + ("sample_ratio = 1\ntraceparent_from = 127.0.0.1\n" if name == "proxy" else "")
        )
    cluster.kill_and_await_restart(*(f"{name}-server" for name in names))


@pytest.fixture(scope="module")
def traced_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    cluster = RunningCluster(tmp_path_factory.mktemp("traced") / "var").start()
    yield cluster
    cluster.stop()


def put(account: Account, name: str, body: bytes, **headers: str) -> str:
    """The transaction id of an upload."""
    answer = account.call("PUT", f"traced/{name}", body=body, headers=headers)
    assert answer.status == 201
    return answer.headers["x-trans-id"]


def test_a_trace_leads_from_the_client_to_the_servers(traced_cluster: RunningCluster) -> None:
    collector = Collector()
    trace(traced_cluster, collector.port)
    account = Account(traced_cluster.port)
    made = account.call("PUT", "traced")
    assert made.status == 201
    caller = {"Traceparent": f"00-{TRACE}-{CALLER}-01"}
    small, large = put(account, "small", b"x", **caller), put(account, "large", LARGE)
    container = made.headers["x-trans-id"]

    def is_complete() -> bool:
        return (
            sum(s.name == "PUT container-server" for s in collector.of(container)) == 3
            and sum(s.service == "martlet-container-server" for s in collector.of(container)) == 3
            and sum(s.name == "PUT object-server" for s in collector.of(small)) == 3
            and sum(s.name == "PUT object-server" for s in collector.of(large)) == 3
        )

    await_true(is_complete, "all spans")
    spans = {span.number: span for span in collector.of(container)}
    (top,) = [span for span in spans.values() if not span.parent]
    assert (top.service, top.name) == ("martlet-proxy-server", "PUT container")
    assert top.attributes["http.response.status_code"] == 201
    for span in spans.values():
        assert span.trace == top.trace
        if span.service == "martlet-container-server":
            asked = spans[span.parent]
            assert asked.name == "PUT container-server"
            assert asked.attributes["storage.device"] == span.attributes["storage.device"]
        elif span is not top and span.service == "martlet-proxy-server":
            assert span.parent == top.number
    (top,) = [span for span in collector.of(small) if span.name == "PUT object"]
    assert (top.trace, top.parent) == (TRACE, CALLER)
    transports = {
        trans_id: {s.attributes.get("storage.transport") for s in collector.of(trans_id)} - {None}
        for trans_id in (small, large)
    }
    assert transports[small] == {"grid"}
    assert "http" in transports[large]
    collector.stop()


def test_a_service_that_stops_sends_its_spans(traced_cluster: RunningCluster) -> None:
    collector = Collector()
    trace(traced_cluster, collector.port)
    account = Account(traced_cluster.port)
    assert account.call("PUT", "traced").status in (201, 202)

    def stop_the_proxy() -> bool:
        """Whether the spans of its last requests came. It waits for the collector for 2 s only."""
        user, pid = account.again(), traced_cluster.pid_of("proxy-server")
        done = [put(user, f"last{number}", b"x") for number in range(20)]
        os.kill(pid, signal.SIGTERM)
        await_true(lambda: traced_cluster.pid_of("proxy-server") != pid, "a new process")
        await_true(lambda: traced_cluster.services()["proxy-server"]["state"] == "ok", "answers")
        return all(any(s.name == "PUT object" for s in collector.of(one)) for one in done)

    assert any(stop_the_proxy() for _ in range(4))
    collector.stop()


@pytest.mark.parametrize("state", ["hangs", "is away"])
def test_requests_do_not_wait_for_the_collector(traced_cluster: RunningCluster, state: str) -> None:
    with socket.create_server((HOST, 0), backlog=64) as listener:  # accepts, and answers nothing
        port = listener.getsockname()[1]
        if state == "is away":
            listener.close()
        trace(traced_cluster, port)
        account = Account(traced_cluster.port)
        assert account.call("PUT", "traced").status in (201, 202)

        def slowest() -> float:
            """The longest of many requests, seconds."""
            longest = 0.0
            for number in range(REQUESTS):
                began = time.monotonic()
                put(account, f"o{number}", b"x")
                longest = max(longest, time.monotonic() - began)
            return longest

        # A busy machine delays a request of some round. An export that holds requests, of each.
        assert any(slowest() < SECONDS_MAX for _ in range(4))
        if state == "hangs":  # it was asked
            listener.settimeout(150)
            listener.accept()[0].close()

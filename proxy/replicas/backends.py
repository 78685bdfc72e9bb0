# SPDX-License-Identifier: Apache-2.0
"""Requests to single devices, and the record of their failures.

Every failure is logged here, once, with the id of its transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from martlet.http.backend_client import (
    BackendClient,
    BackendError,
    BackendExchange,
    BackendUpload,
    ConnectionLost,
)
from martlet.http.traced import OpenSpan, traced_requests
from martlet.log import fields
from proxy.replicas.grid_servers import Grid
from proxy.replicas.health import DeviceHealth
from proxy.replicas.nodes import node_name
from proxy.replicas.prober import Prober
from proxy.wire_headers import WireHeaders
from ring.ring import Node

# An object server that lost records sends this header with an answer that may be wrong.
DOUBT = "x-backend-doubt"
DOUBT_STALE = "stale"  # correct, unless a lost record is a newer write or delete of this name
DOUBT_UNKNOWN = "unknown"  # with 503: this replica does not know the state of this name

# The limit for the body of an answer to a write. Storage servers send one line at most.
ANSWER_BYTES_MAX = 64 * 1024


class BackendRequest(NamedTuple):
    """A request to the servers of one partition.

    :param server_type: Account, Container or Object.
    :param path: quoted ``/account[/container[/object]]``, with the query, if any.
    :param timeout: longest wait for each read or write, seconds.
    """

    server_type: str
    method: str
    partition: int
    path: str
    trans_id: str
    timeout: float
    body: bytes = b""

    def path_on(self, node: Node) -> str:
        """The request target for one device."""
        return f"/{node['device']}/{self.partition}{self.path}"

    def begin_span(self, node: Node, transport: str) -> OpenSpan | None:
        """The span of the request to one device; None if the client's request is not traced."""
        traced = traced_requests.get(self.trans_id)
        if traced is None:
            return None
        attributes: dict[str, str | int] = {
            "http.request.method": self.method,
            "server.address": node["ip"],
            "server.port": node["port"],
            "storage.device": node["device"],
            "storage.partition": str(self.partition),
            "storage.transport": transport,
            "storage.trans_id": self.trans_id,
        }
        return traced.begin_backend(f"{self.method} {self.server_type.lower()}-server", attributes)


class _Reply(Protocol):
    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...


class Backends:
    """Sends requests to devices. After a failure, which is noted, the result is None."""

    def __init__(
        self, client: BackendClient, grid: Grid, health: DeviceHealth, logger: logging.Logger
    ) -> None:
        self.client = client
        self.grid = grid
        self.health = health
        self.logger = logger
        self._prober = Prober(client, health, logger)

    def start(
        self, node: Node, request: BackendRequest, headers: WireHeaders
    ) -> BackendExchange | None:
        """Send a whole request."""
        span = request.begin_span(node, "http")
        try:
            exchange = self.client.start(
                (node["ip"], node["port"]),
                request.method,
                request.path_on(node),
                headers.below(span).lines,
                request.body,
                request.timeout,
            )
        except BackendError as error:
            self._not_sent(node, request, error, span)
            return None
        exchange.span = span
        return exchange

    def start_upload(
        self, node: Node, request: BackendRequest, headers: WireHeaders, content_length: int | None
    ) -> BackendUpload | None:
        """Send the headers of an upload."""
        span = request.begin_span(node, "http")
        try:
            upload = self.client.start_upload(
                (node["ip"], node["port"]),
                request.method,
                request.path_on(node),
                headers.below(span).lines,
                content_length,
                request.timeout,
            )
        except BackendError as error:
            self._not_sent(node, request, error, span)
            return None
        upload.span = span
        return upload

    def _not_sent(
        self, node: Node, request: BackendRequest, error: BackendError, span: OpenSpan | None
    ) -> None:
        if span is not None:
            span.fail(error.reason)
        self.failed(node, request, error)

    def failed(self, node: Node, request: BackendRequest, error: BackendError) -> None:
        """Note that a device gave no usable answer. An error that several requests share, such as
        a failed connection, counts once for each device.
        """
        is_refusal = isinstance(error.__cause__, ConnectionRefusedError)
        if not is_refusal:
            self._log(logging.ERROR, "backend_failed", node, request, reason=error.reason)
        if node["device"] in error.devices:
            return
        error.devices.add(node["device"])
        if is_refusal:
            if self.health.add_refusal(node):  # otherwise a stopped server would fill the log
                self._log(logging.ERROR, "backend_refuses", node, request, reason=error.reason)
        elif isinstance(error, ConnectionLost):
            self._suppressed(node, request, self.health.add_lost_connection(node))
        else:
            self._suppressed(node, request, self.health.add_failure(node))

    def gave_up(self, node: Node) -> None:
        """Note that the proxy stopped waiting for a write: the device may have missed it."""
        self.health.doubt(node)

    def is_usable(self, node: Node, request: BackendRequest, answer: _Reply) -> bool:
        """False for a server error, which is noted. A 507 suppresses the device immediately."""
        status = answer.status
        if status < 500:
            if self.health.troubles:
                self.health.forgive(node)
            return True
        if status == 529:  # the device's rate limit is reached; that is not a failure
            self._log(logging.INFO, "backend_busy", node, request)
            self.health.doubt(node)
            return False
        if status == 503 and answer.headers.get(DOUBT) == DOUBT_UNKNOWN:
            # One record is lost. The device serves the others, so this is not a failure either.
            self._log(logging.INFO, "backend_doubt", node, request)
            return False
        self._log(logging.ERROR, "backend_error", node, request, status=status)
        if status == 507:
            self._suppressed(node, request, self.health.suppress(node))
        else:
            self._suppressed(node, request, self.health.add_failure(node))
        return False

    def _suppressed(self, node: Node, request: BackendRequest, is_suppressed: bool) -> None:
        """Start probes of a device if it has just become suppressed."""
        if is_suppressed:
            self.logger.error("event=device_suppressed %s", fields(device=node_name(node)))
            self._prober.watch(node, request.server_type)

    def _log(
        self, level: int, event: str, node: Node, request: BackendRequest, **details: object
    ) -> None:
        self.logger.log(
            level,
            "event=%s %s",
            event,
            fields(
                device=node_name(node),
                server=request.server_type,
                method=request.method,
                path=request.path,
                **details,
                trans_id=request.trans_id,
            ),
        )

# SPDX-License-Identifier: Apache-2.0
"""Requests to single devices, and the account of which devices fail.

Every failure is logged here, once, with the transaction that met it.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from martlet.backend_client import (
    BackendClient,
    BackendError,
    BackendExchange,
    BackendResponse,
    BackendUpload,
)
from martlet.log import fields
from proxy.nodes import ErrorLimiter, node_name
from proxy.quorum import Answer
from ring.ring import Node

# An object server that lost records says with this header how far its answer may be trusted.
DOUBT = "x-backend-doubt"
DOUBT_STALE = "stale"  # good, but a lost record may be a newer write or delete of this name
DOUBT_UNKNOWN = "unknown"  # with 503: this replica cannot say


class BackendRequest(NamedTuple):
    """What is asked of the servers of one partition.

    :param server_type: Account, Container or Object.
    :param path: quoted ``/account[/container[/object]]``, with a query if there is one.
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
        """The request target at one device."""
        return f"/{node['device']}/{self.partition}{self.path}"


class Backends:
    """Sends requests to devices; a failure is noted and answered with None."""

    def __init__(
        self, client: BackendClient, limiter: ErrorLimiter, logger: logging.Logger
    ) -> None:
        self.client = client
        self.limiter = limiter
        self.logger = logger

    def start(self, node: Node, request: BackendRequest, headers: bytes) -> BackendExchange | None:
        """Send a whole request."""
        try:
            return self.client.start(
                (node["ip"], node["port"]),
                request.method,
                request.path_on(node),
                headers,
                request.body,
                request.timeout,
            )
        except BackendError as error:
            self.failed(node, request, error)
            return None

    def start_upload(
        self, node: Node, request: BackendRequest, headers: bytes, content_length: int | None
    ) -> BackendUpload | None:
        """Send the headers of an upload."""
        try:
            return self.client.start_upload(
                (node["ip"], node["port"]),
                request.method,
                request.path_on(node),
                headers,
                content_length,
                request.timeout,
            )
        except BackendError as error:
            self.failed(node, request, error)
            return None

    def failed(self, node: Node, request: BackendRequest, error: BackendError) -> None:
        """Note that a device gave no usable answer. One error of several requests, as when a batch
        is lost, counts once for each device.
        """
        self._log(logging.ERROR, "backend_failed", node, request, reason=error.reason)
        if node["device"] not in error.devices:
            error.devices.add(node["device"])
            self._count_failure(node)

    def is_usable(
        self, node: Node, request: BackendRequest, answer: Answer | BackendResponse
    ) -> bool:
        """False for a server error, which is noted: 507 at once puts the device aside."""
        status = answer.status
        if status < 500:
            if self.limiter.failures:
                self.limiter.forgive(node)
            return True
        if status == 529:  # busy, as its rate limit says; that is no failure
            self._log(logging.INFO, "backend_busy", node, request)
            return False
        if status == 503 and answer.headers.get(DOUBT) == DOUBT_UNKNOWN:
            # One record is lost; the device serves the rest, so this is no failure either.
            self._log(logging.INFO, "backend_doubt", node, request)
            return False
        self._log(logging.ERROR, "backend_error", node, request, status=status)
        if status == 507:
            self.limiter.limit(node)
            self._log_limited(node)
        else:
            self._count_failure(node)
        return False

    def _count_failure(self, node: Node) -> None:
        if self.limiter.add_failure(node):
            self._log_limited(node)

    def _log_limited(self, node: Node) -> None:
        self.logger.error(
            "event=device_suppressed %s",
            fields(device=node_name(node), seconds=self.limiter.interval),
        )

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

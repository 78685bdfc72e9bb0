# SPDX-License-Identifier: Apache-2.0
"""The requests of this process that are traced now, and the spans below them.

Requests to storage servers know the transaction id, in whatever thread they run, so it leads to the
trace. Without tracing no request is here: a request to a storage server then costs a look-up in an
empty dict.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

#: The header of W3C's Trace Context, in a request to another server.
TRACEPARENT = "Traceparent"

Attributes = Mapping[str, str | int]


class OpenSpan(Protocol):
    """The span of a request that has begun. Only its first end counts."""

    @property
    def traceparent(self) -> str:
        """The value of the header for requests below this one."""

    def end(self, status: int) -> None:
        """The request has an answer."""

    def fail(self, reason: str) -> None:
        """There is no answer, or nothing waits for it."""


class TracedRequest(Protocol):
    """A request of a client."""

    def begin_backend(self, name: str, attributes: Attributes) -> OpenSpan:
        """The span of a request to a storage server that begins now."""


#: Transaction id -> the request, until its answer has been sent.
traced_requests: dict[str, TracedRequest] = {}

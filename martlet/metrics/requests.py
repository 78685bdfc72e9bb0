# SPDX-License-Identifier: Apache-2.0
"""Counts of requests and their durations, by method, policy and status.

One request costs a look-up and two additions. `martlet.metrics.shared` has the numbers.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from martlet.http.environ import TELL_POLICY, Environ, HeaderList, StartResponse, WSGIApp
from martlet.metrics.shared import WIDTH, Region, private_region

if TYPE_CHECKING:
    from martlet.metrics.shared import Row

#: Upper bounds of the buckets, seconds; another bucket has all that is longer.
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
#: The kind of a row of requests: the first word of its key.
KIND = "request"
#: Clients may invent methods; these have labels of their own.
_METHODS = frozenset(
    ("COPY", "DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT", "REPLICATE", "UPDATE")
)

# A row has the sum of the durations, and the buckets.
assert len(BOUNDS) + 2 == WIDTH


class Requests:
    """The counts of this process."""

    def __init__(self) -> None:
        self._region = private_region()
        self._rows: dict[tuple[str, str, int], Row] = {}

    def use(self, region: Region) -> None:
        """Count in this region from now on."""
        self._region = region
        self._rows.clear()

    def add(self, method: str, policy: str, status: int, seconds: float) -> None:
        """Count one request that has ended."""
        row = self._rows.get((method, policy, status))
        if row is None:
            row = self._row(method, policy, status)
        row[0] += seconds
        row[bisect_left(BOUNDS, seconds) + 1] += 1.0

    def _row(self, method: str, policy: str, status: int) -> Row:
        shown = method if method in _METHODS else "other"
        row = self._region.row(f"{KIND} {shown} {policy or '-'} {status}")
        if shown == method:
            self._rows[method, policy, status] = row
        return row


#: Those of this process. The entry point gives it the region that the workers share.
requests = Requests()


class CountedPipeline:
    """Counts the requests of a pipeline; the duration is until the last byte of the answer."""

    def __init__(self, app: WSGIApp) -> None:
        self.app = app

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        request = _Request(environ["REQUEST_METHOD"], start_response)
        environ[TELL_POLICY] = request.take_policy
        try:
            result = self.app(environ, request.start_response)
        except Exception:
            request.fail()
            raise
        if isinstance(result, (list, tuple)):
            request.end()
            return result
        return _Body(result, request)


class _Request:
    """One request under way."""

    __slots__ = ("_method", "_policy", "_started", "_status", "_tell")

    def __init__(self, method: str, start_response: StartResponse) -> None:
        self._method = method
        self._policy = ""
        self._tell = start_response
        self._status = 0
        self._started = time.monotonic()

    def take_policy(self, index: str) -> None:
        self._policy = index

    def start_response(self, status: str, headers: HeaderList, exc_info: Any = None) -> Any:
        self._status = int(status[:3])
        return self._tell(status, headers, exc_info)

    def fail(self) -> None:
        self._status = 500
        self.end()

    def end(self) -> None:
        requests.add(self._method, self._policy, self._status, time.monotonic() - self._started)


class _Body:
    """The body of an answer, whose end is the end of the request."""

    def __init__(self, chunks: Iterable[bytes], request: _Request) -> None:
        self._chunks = chunks
        self._request: _Request | None = request

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._chunks)

    def close(self) -> None:
        if self._request is not None:
            self._request.end()
            self._request = None
        close = getattr(self._chunks, "close", None)
        if close is not None:
            close()

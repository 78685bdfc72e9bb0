# SPDX-License-Identifier: Apache-2.0
"""A daemon's own proxy: requests to a pipeline that runs in the same process.

As in OpenStack Swift, a daemon that works on objects has its own pipeline in its conf, without
gatekeeper and auth. So it may set what clients may not: the storage policy, and the timestamp.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from martlet.http.call import call_app
from martlet.http.environ import WSGIApp
from martlet.http.headers import Headers
from martlet.http.request import Request
from martlet.log import get_logger

_log = get_logger("martlet.internal_client")


class InternalResponse:
    """An answer; the caller reads its body or closes it."""

    def __init__(self, status: int, headers: Headers, chunks: Iterable[bytes]) -> None:
        self.status = status
        self.headers = headers
        self._chunks = chunks
        self._iterator: Iterator[bytes] = iter(chunks)
        self._rest = b""

    def body(self) -> bytes:
        """Return the whole body and close the answer."""
        try:
            return self._rest + b"".join(self._iterator)
        finally:
            self.close()

    def read(self, size: int = -1) -> bytes:
        """Return up to ``size`` bytes, all if negative; empty at the end.

        With this method the answer can be the input of another request.

        :raises Exception: the body is incomplete.
        """
        if size < 0:
            return b"".join(iter(lambda: self.read(1 << 20), b""))
        while not self._rest:
            chunk = next(self._iterator, None)
            if chunk is None:
                return b""
            self._rest = chunk
        piece, self._rest = self._rest[:size], self._rest[size:]
        return piece

    def close(self) -> None:
        """Release the resources of the answer."""
        close = getattr(self._chunks, "close", None)
        if close is not None:
            close()

    def __enter__(self) -> InternalResponse:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class InternalClient:
    """Sends requests to ``app``, up to ``tries`` times as long as the answer is a 5xx.

    Between two tries it waits, each time twice as long.
    """

    def __init__(
        self,
        app: WSGIApp,
        user_agent: str,
        tries: int,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._app = app
        self._user_agent = user_agent
        self._tries = tries
        self._sleep = sleep

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        environ: Mapping[str, Any] = MappingProxyType({}),
    ) -> InternalResponse:
        """Send a request without a body; ``path`` is percent-encoded, with the query.

        :param environ: keys of `martlet.http.environ` for the pipeline.
        """
        for attempt in range(1, self._tries + 1):
            response = self._send(method, path, headers, environ)
            if response.status < 500 or attempt == self._tries:
                break
            response.close()
            self._sleep(2.0**attempt)
        return response

    def upload(
        self, path: str, headers: Mapping[str, str], body: InternalResponse, length: int
    ) -> InternalResponse:
        """PUT the body of another answer; without a retry, as the body can be read only once."""
        environ = {"wsgi.input": body, "CONTENT_LENGTH": str(length)}
        return self._send("PUT", path, headers, environ)

    def _send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None,
        environ: Mapping[str, Any],
    ) -> InternalResponse:
        req = Request.blank(path, method, {"User-Agent": self._user_agent, **(headers or {})})
        req.environ.update(environ)
        try:
            status, sent, chunks = call_app(self._app, req.environ)
        except Exception:
            _log.exception("request failed method=%s path=%s", method, path)
            return InternalResponse(500, Headers(), [])
        return InternalResponse(int(status.split()[0]), Headers(sent), chunks)

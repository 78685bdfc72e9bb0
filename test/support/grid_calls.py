"""Calls of the handlers of the grid in this process, as a connection makes them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import msgpack  # type: ignore[import-untyped]
from storage_calls import Answer, stamp

from martlet.grid.connection import GridConnection
from martlet.grid.events import Requested
from martlet.grid.handlers import GridCall, Handler
from martlet.http.headers import Headers


class GridCaller:
    """Calls handlers: ``call("put", "/a/c", 1)`` has X-Timestamp ``stamp(1)``, device d1."""

    def __init__(self, server: str, handlers: Mapping[str, Handler]) -> None:
        self._server = server
        self._handlers = handlers
        #: The largest answer that the peer accepts.
        self.max_payload = 1 << 20

    def __call__(
        self,
        method: str,
        path: str,
        time: float | None = None,
        headers: dict[str, str] | None = None,
        body: bytes = b"",
    ) -> Answer:
        sent = dict(headers or {})
        if time is not None:
            sent["X-Timestamp"] = stamp(time)
        return self.send(method, ["d1", 0, path, sent, body])

    def send(self, method: str, payload: Any) -> Answer:
        """Send a payload, as it is if it is bytes."""
        data = payload if isinstance(payload, bytes) else msgpack.packb(payload)
        answer = msgpack.unpackb(self.handle(method, data))
        assert len(answer) == 3
        status, headers, body = answer
        assert all(name == name.lower() for name in headers)
        return Answer(status, Headers(headers), body)

    def handle(self, method: str, payload: bytes) -> bytes:
        """The payload of the answer."""
        name = f"{self._server}.{method}"
        options = SimpleNamespace(max_payload=self.max_payload)
        connection = SimpleNamespace(peer=("10.0.0.7", 4711), session=SimpleNamespace(peer=options))
        event = Requested(1, name, payload, math.inf, is_resent=False)
        return self._handlers[name](GridCall(cast(GridConnection, connection), event))

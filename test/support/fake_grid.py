# SPDX-License-Identifier: Apache-2.0
"""The grid of a storage device in memory."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import msgpack  # type: ignore[import-untyped]

from martlet.grid.handlers import GridCall, Handlers
from martlet.grid.secrets import Secrets
from martlet.grid.server import GridServer
from martlet.http.environ import HAND_OVER
from proxy.replicas.grid_messages import NAMES

#: Larger bodies of objects are left out.
BODY_BYTES_MAX = 64 * 1024

#: Serves a request: method, path with device and partition, headers in lower case, body.
Serve = Callable[[GridCall, str, str, dict[str, str], bytes], tuple[int, dict[str, str], Any]]


class FakeGrid:
    """Serves connections that asked for the grid, for as long as they last."""

    def __init__(self, serve: Serve, names: frozenset[str] = frozenset(NAMES.values())) -> None:
        self._serve = serve
        handlers = dict.fromkeys(names, self._answer)
        self.server = GridServer(Secrets(), Handlers(handlers))

    def run(self, sock: socket.socket, headers: dict[str, str]) -> None:
        """Answer the upgrade, and serve the connection to its end."""
        guests: list[Any] = []
        answer: list[Any] = []
        environ = {
            "REQUEST_METHOD": "GET",
            "SERVER_PROTOCOL": "HTTP/1.1",
            HAND_OVER: guests.append,
            **{f"HTTP_{k.upper().replace('-', '_')}": v for k, v in headers.items()},
        }
        self.server(environ, lambda *given: answer.extend(given))
        lines = "".join(f"{k}: {v}\r\n" for k, v in answer[1])
        sock.sendall(f"HTTP/1.1 {answer[0]}\r\n{lines}\r\n".encode())
        guests[0].run(sock, b"")

    def _answer(self, call: GridCall) -> bytes:
        device, partition, path, headers, body = msgpack.unpackb(call.payload)
        method = call.name.partition(".")[2].upper()
        lowered = {k.lower(): v for k, v in headers.items()}
        assert len(lowered) == len(headers)
        status, given, body = self._serve(
            call, method, f"/{device}/{partition}{path}", lowered, body
        )
        shown = {k.lower(): v for k, v in given.items()}
        if method == "HEAD":
            shown.setdefault("content-length", str(len(body)))
            body = b""
        elif body is None:
            pass
        elif call.name == "object.get" and len(body) > BODY_BYTES_MAX:
            shown["content-length"] = str(len(body))
            body = None
        packed: bytes = msgpack.packb((status, shown, body))
        return packed

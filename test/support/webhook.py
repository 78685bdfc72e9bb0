"""A webhook for tests: an HTTP server that keeps what is posted to it."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from cluster.ports import HOST


class Webhook:
    """Answers ``status`` within ``with``; ``posts`` has paths, headers and bodies."""

    def __init__(self, port: int = 0, status: int = 200) -> None:
        self.status = status
        self.posts: list[tuple[str, dict[str, str], bytes]] = []
        self._server = ThreadingHTTPServer((HOST, port), _handler_of(self))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Webhook:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)

    @property
    def port(self) -> int:
        return int(self._server.server_port)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/in?x=1"

    @property
    def events(self) -> list[dict[str, Any]]:
        """The bodies, which are JSON."""
        return [json.loads(body) for _, _, body in self.posts]


def _handler_of(webhook: Webhook) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            webhook.posts.append((self.path, dict(self.headers.items()), body))
            self.send_response(webhook.status)
            self.send_header("Location", f"http://{HOST}:1/")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler

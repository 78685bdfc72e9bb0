"""Calls of an account or container server through plain WSGI, and a minimal cluster."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from martlet.http.call import call_app
from martlet.http.environ import WSGIApp
from martlet.http.headers import Headers
from martlet.http.request import Request

CONF = """
[grid]
grid_secret = none
[swift-hash]
swift_hash_path_suffix = test
[swift-constraints]
container_listing_limit = 50
account_listing_limit = 50
max_meta_count = 3
[storage-policy:0]
name = gold
default = yes
[storage-policy:1]
name = silver
"""


def write_cluster(directory: Path) -> Path:
    """Create ``martlet.conf`` and devices d1 and d2 in a directory, and return it."""
    (directory / "martlet.conf").write_text(CONF)
    for device in ("d1", "d2"):
        (directory / "devices" / device).mkdir(parents=True)
    return directory


def stamp(seconds: float) -> str:
    """Return an X-Timestamp so many seconds after an arbitrary start."""
    return f"{1795223500 + seconds:016.5f}"


@dataclass(frozen=True)
class Answer:
    """The answer of a server."""

    status: int
    headers: Headers
    body: bytes

    def json(self) -> Any:
        """Return the body as JSON."""
        return json.loads(self.body)


class Caller:
    """Calls an application: ``call("PUT", "/d1/0/a/c", 1)`` has X-Timestamp ``stamp(1)``."""

    def __init__(self, app: WSGIApp) -> None:
        self._app = app

    def __call__(
        self,
        method: str,
        path: str,
        time: float | None = None,
        headers: dict[str, str] | None = None,
        body: bytes | list[Any] = b"",
    ) -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        req = Request.blank(path, method, headers or {}, data)
        if time is not None:
            req.headers["X-Timestamp"] = stamp(time)
        status, sent, chunks = call_app(self._app, req.environ)
        content = b"".join(chunks)
        answer = Answer(int(status.split()[0]), Headers(sent), content)
        if method != "HEAD" and answer.status != 204:
            assert answer.headers["Content-Length"] == str(len(content))
        return answer

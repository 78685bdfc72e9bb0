# SPDX-License-Identifier: Apache-2.0
"""The proxy application in front of devices in memory, as a test calls it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, NamedTuple

from fake_devices import FakeDevice

from martlet.http.call import call_app
from martlet.http.request import Request
from proxy.app import Application


class Reply(NamedTuple):
    """The answer to a client of the proxy."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class FakeCluster:
    """Devices, rings and a proxy; all kinds of data are on all devices."""

    devices: list[FakeDevice]
    app: Application
    environ: dict[str, Any] = field(default_factory=dict)

    def call(
        self,
        method: str,
        path: str,
        body: bytes | Any = b"",
        headers: Mapping[str, str] | None = None,
        **environ: Any,
    ) -> Reply:
        req = Request.blank(path, method, headers, environ={**self.environ, **environ})
        if isinstance(body, bytes):
            req.environ["wsgi.input"] = BytesIO(body)
            if method in ("PUT", "POST"):
                req.environ["CONTENT_LENGTH"] = str(len(body))
        else:
            req.environ["wsgi.input"] = body
            del req.environ["CONTENT_LENGTH"]
        if "Content-Length" in (headers or {}):
            req.environ["CONTENT_LENGTH"] = (headers or {})["Content-Length"]
        status, given, chunks = call_app(self.app, req.environ)
        try:
            content = b"".join(chunks)
        finally:
            if hasattr(chunks, "close"):
                chunks.close()
        return Reply(int(status.split()[0]), {k.lower(): v for k, v in given}, content)

    def make_container(self) -> None:
        """Create /v1/a/c on every primary, without the proxy's checks."""
        assert self.call("PUT", "/v1/a/c").status == 201
        self.forget()

    def forget(self) -> None:
        for device in self.devices:
            device.seen.clear()
            device.grid_calls.clear()

    def holders(self, name: str) -> list[str]:
        """Return the devices that hold ``/a/c/o``."""
        return [d.name for d in self.devices if name in d.stored and not d.stored[name].is_deleted]


MakeCluster = Callable[..., FakeCluster]

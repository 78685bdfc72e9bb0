"""Fixtures of the filters' tests: requests to an application, and a fake application."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from martlet.http.call import call_app
from martlet.http.environ import LOOK_UP, Environ, HeaderList, StartResponse, WSGIApp
from martlet.http.headers import Headers
from martlet.http.request import Request


@dataclass
class Answer:
    """A response read to its end."""

    status: int
    headers: Headers
    body: bytes
    environ: Environ = field(repr=False)


def ask(
    app: WSGIApp,
    path: str,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    environ: Mapping[str, Any] | None = None,
) -> Answer:
    """Send one request as a server does: read the body to its end and close it."""
    request = Request.blank(path, method, headers, body, environ)
    status, header_list, chunks = call_app(app, request.environ)
    try:
        answer = b"".join(chunks)
    finally:
        close = getattr(chunks, "close", None)
        if close is not None:
            close()
    return Answer(int(status.split(" ", 1)[0]), Headers(header_list), answer, request.environ)


class Inner:
    """The application behind the filter: gives a fixed answer and records the environ."""

    def __init__(
        self,
        status: str = "200 OK",
        headers: HeaderList | None = None,
        body: Iterable[bytes] | None = None,
    ) -> None:
        self.status = status
        self.headers = [("Content-Length", "4")] if headers is None else headers
        self.body: Iterable[bytes] = [b"body"] if body is None else body
        self.environs: list[Environ] = []

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if LOOK_UP in environ:  # it knows nothing of containers, so there are no policies
            environ[LOOK_UP](SimpleNamespace(info=lambda: {"status": 404, "sysmeta": {}}))
            start_response("204 No Content", [])
            return []
        self.environs.append(environ)
        start_response(self.status, self.headers)
        return self.body

    @property
    def environ(self) -> Environ:
        """The environ of the last request."""
        return self.environs[-1]


@pytest.fixture(name="ask")
def ask_fixture() -> Callable[..., Answer]:
    """``ask(app, path, method, headers, body, environ)``."""
    return ask


@pytest.fixture(name="Inner")
def inner_fixture() -> type[Inner]:
    """The class ``Inner``."""
    return Inner

# SPDX-License-Identifier: Apache-2.0
"""Responses, and errors that are raised as responses."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from email.utils import formatdate
from html import escape
from http import HTTPStatus

from martlet.http.environ import Environ, StartResponse
from martlet.http.headers import Headers

_REASONS = {
    # Python 3.13 has newer phrases; OpenStack Swift answers with these.
    413: "Request Entity Too Large",
    414: "Request-URI Too Long",
    416: "Requested Range Not Satisfiable",
    422: "Unprocessable Entity",
    # Not in Python's list.
    497: "Blacklisted",
    498: "Rate Limited",
    499: "Client Disconnect",
    529: "Too Many Backend Requests",
}
STATUS_LINES: dict[int, str] = {s.value: f"{s.value} {s.phrase}" for s in HTTPStatus}
STATUS_LINES.update({code: f"{code} {text}" for code, text in _REASONS.items()})

# The page of an error without its own text, where the reason alone says too little.
_SENTENCES = {409: "There was a conflict when trying to complete your request."}


class Response:
    """An HTTP response, itself a WSGI application."""

    __slots__ = ("app_iter", "body", "headers", "status")

    def __init__(
        self,
        status: int = 200,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        body: bytes | str = b"",
        app_iter: Iterable[bytes] | None = None,
    ) -> None:
        """With ``app_iter`` the caller sets Content-Length if it is known."""
        self.status = status
        self.headers = Headers(headers)
        self.body = body.encode("utf-8") if isinstance(body, str) else body
        self.app_iter = app_iter

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    @property
    def status_line(self) -> str:
        """Status and reason."""
        return STATUS_LINES.get(self.status) or f"{self.status} Unknown"

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if self.app_iter is None and "content-length" not in self.headers:
            self.headers["Content-Length"] = str(len(self.body))
        start_response(self.status_line, self.headers.as_list())
        if environ["REQUEST_METHOD"] == "HEAD":
            close = getattr(self.app_iter, "close", None)
            if close is not None:
                close()
            return [b""]
        return self.app_iter if self.app_iter is not None else [self.body]


class HTTPException(Exception):
    """A response that is raised; the client gets ``response``."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status_line)
        self.response = response

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        return self.response(environ, start_response)


def error_response(
    status: int, text: str = "", headers: Mapping[str, str] | Iterable[tuple[str, str]] = ()
) -> Response:
    """An error: ``text``, a sentence that says what to do, or by default a page with the reason."""
    response = Response(status, headers)
    if status in (204, 304):
        return response
    page = escape(text, quote=False)  # it may quote what the client sent
    if not text:
        reason = STATUS_LINES.get(status, f"{status} Error").split(" ", 1)[1]
        page = f"<html><h1>{reason}</h1><p>{_SENTENCES.get(status, reason)}</p></html>"
    response.body = page.encode("utf-8", "surrogateescape")
    response.headers["Content-Type"] = "text/html; charset=UTF-8"
    return response


def http_error(
    status: int, text: str = "", headers: Mapping[str, str] | Iterable[tuple[str, str]] = ()
) -> HTTPException:
    """``raise http_error(404, "…")``: an ``error_response`` to be raised."""
    return HTTPException(error_response(status, text, headers))


def plain_error(
    status: int, text: str, headers: Mapping[str, str] | Iterable[tuple[str, str]] = ()
) -> HTTPException:
    """An error to be raised, as plain text: no characters are escaped."""
    response = Response(status, headers, text)
    response.headers["Content-Type"] = "text/plain"
    return HTTPException(response)


def http_date(seconds: float | None = None) -> str:
    """A date in the format of HTTP headers, by default the current time."""
    return formatdate(time.time() if seconds is None else seconds, usegmt=True)

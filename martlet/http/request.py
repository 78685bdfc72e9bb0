# SPDX-License-Identifier: Apache-2.0
"""A request: a view of its WSGI ``environ``."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any, BinaryIO
from urllib.parse import parse_qsl, unquote_to_bytes

from martlet.http.environ import Environ
from martlet.http.headers import RequestHeaders
from martlet.http.response import http_error
from martlet.words.names import split_path, wsgi_to_str
from martlet.words.timestamp import Timestamp


class Request:
    """A view of a WSGI request.

    ``acl`` is the read or write ACL of the container of the request. The proxy's controllers set it
    before they call ``environ['swift.authorize']``.
    """

    __slots__ = ("_params", "acl", "environ", "headers")

    def __init__(self, environ: Environ) -> None:
        self.environ = environ
        self.headers = RequestHeaders(environ)
        self.acl: str | None = None
        self._params: dict[str, str] | None = None

    @classmethod
    def blank(
        cls,
        path: str,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        environ: Mapping[str, Any] | None = None,
    ) -> Request:
        """Make a request, for sub-requests and tests; ``path`` is percent-encoded."""
        bare, _, query = path.partition("?")
        env: Environ = {
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": "",
            "PATH_INFO": unquote_to_bytes(bare).decode("latin-1"),
            "QUERY_STRING": query,
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "80",
            "HTTP_HOST": "localhost:80",
            "SERVER_PROTOCOL": "HTTP/1.0",
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.errors": None,
            "wsgi.multithread": False,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }
        env.update(environ or {})
        env["wsgi.input"] = BytesIO(body)
        if body or method in ("PUT", "POST"):
            env["CONTENT_LENGTH"] = str(len(body))
        req = cls(env)
        for name, value in (headers or {}).items():
            req.headers[name] = value
        return req

    @property
    def method(self) -> str:
        """The method, in capitals as sent."""
        method: str = self.environ["REQUEST_METHOD"]
        return method

    @method.setter
    def method(self, value: str) -> None:
        self.environ["REQUEST_METHOD"] = value

    @property
    def path(self) -> str:
        """The decoded path as text.

        :raises BadNameError: it is not UTF-8.
        """
        return wsgi_to_str(self.environ.get("SCRIPT_NAME", "") + self.environ["PATH_INFO"])

    @property
    def params(self) -> dict[str, str]:
        """The query parameters as text; the last of equal names wins.

        :raises BadNameError: one is not UTF-8.
        """
        if self._params is None:
            query = self.environ.get("QUERY_STRING", "")
            pairs = parse_qsl(query, keep_blank_values=True, encoding="latin-1") if query else []
            self._params = {wsgi_to_str(k): wsgi_to_str(v) for k, v in pairs}
        return self._params

    @property
    def content_length(self) -> int | None:
        """The Content-Length, or None where the request has none.

        :raises HTTPException: (400) it is not a whole number.
        """
        text = self.environ.get("CONTENT_LENGTH") or ""
        if not text:
            return None
        if not (text.isascii() and text.isdigit()):
            raise http_error(400, "Invalid Content-Length")
        return int(text)

    @property
    def is_chunked(self) -> bool:
        """Whether the body has chunked transfer encoding."""
        return "chunked" in self.environ.get("HTTP_TRANSFER_ENCODING", "").lower()

    @property
    def body_file(self) -> BinaryIO:
        """The body; it can be read only once."""
        stream: BinaryIO = self.environ["wsgi.input"]
        return stream

    @property
    def trans_id(self) -> str:
        """The transaction id; empty before catch_errors has set it."""
        trans_id: str = self.environ.get("swift.trans_id", "")
        return trans_id

    @property
    def timestamp(self) -> Timestamp:
        """The X-Timestamp.

        :raises HTTPException: (400) it is missing or malformed.
        """
        try:
            return Timestamp(self.environ["HTTP_X_TIMESTAMP"])
        except (KeyError, ValueError):
            raise http_error(400, "Missing or bad X-Timestamp") from None

    def split_path(
        self, minsegs: int = 1, maxsegs: int | None = None, rest_with_last: bool = False
    ) -> list[str | None]:
        """The segments of the path, see ``martlet.words.names.split_path``."""
        return split_path(self.path, minsegs, maxsegs, rest_with_last)

    def __repr__(self) -> str:
        return f"<Request {self.method} {self.environ.get('PATH_INFO')!r}>"

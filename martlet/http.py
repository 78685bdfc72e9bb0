"""HTTP requests and responses over plain WSGI (PEP 3333).

Thin on purpose: a request is a view of ``environ``, a response is a status, headers and a body.
Header values stay WSGI strings (one character a byte) until somebody needs their text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from email.utils import formatdate
from html import escape
from http import HTTPStatus
from typing import Any, BinaryIO
from urllib.parse import parse_qsl

from martlet.header_names import lower_name, title_name, upper_name
from martlet.names import split_path, wsgi_to_str
from martlet.timestamp import Timestamp

Environ = dict[str, Any]
HeaderList = list[tuple[str, str]]
StartResponse = Callable[..., Any]
WSGIApp = Callable[[Environ, StartResponse], Iterable[bytes]]

_EXTRA_REASONS = {
    497: "Blacklisted",
    498: "Rate Limited",
    499: "Client Disconnect",
    529: "Too Many Backend Requests",
}
STATUS_LINES: dict[int, str] = {s.value: f"{s.value} {s.phrase}" for s in HTTPStatus}
STATUS_LINES.update({code: f"{code} {text}" for code, text in _EXTRA_REASONS.items()})

_environ_keys: dict[str, str] = {}


def environ_key(header: str) -> str:
    """The ``environ`` key of a header name."""
    key = _environ_keys.get(header)
    if key is None:
        upper = upper_name(header).replace("-", "_")
        key = upper if upper in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{upper}"
        if len(_environ_keys) < 4096:  # the names come from our own code, but stay bounded
            _environ_keys[header] = key
    return key


class RequestHeaders(MutableMapping[str, str]):
    """The headers of a request: a case-insensitive view of its ``environ``."""

    __slots__ = ("_environ",)

    def __init__(self, environ: Environ) -> None:
        self._environ = environ

    def __getitem__(self, name: str) -> str:
        value: str = self._environ[environ_key(name)]
        return value

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a header, or ``default``."""
        return self._environ.get(environ_key(name), default)

    def __setitem__(self, name: str, value: str) -> None:
        self._environ[environ_key(name)] = str(value)

    def __delitem__(self, name: str) -> None:
        del self._environ[environ_key(name)]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and environ_key(name) in self._environ

    def __iter__(self) -> Iterator[str]:
        for key, value in self._environ.items():
            if key.startswith("HTTP_"):
                yield title_name(key[5:].replace("_", "-"))
            elif key in ("CONTENT_TYPE", "CONTENT_LENGTH") and value:
                yield key.replace("_", "-").title()

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Headers(MutableMapping[str, str]):
    """Response headers: case-insensitive, in order, one value a name, spelled as first set."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> None:
        self._items: dict[str, tuple[str, str]] = {}
        if type(items) is not list and isinstance(items, Mapping):
            items = items.items()
        for name, value in items:
            self._items[lower_name(name)] = (name, str(value))

    def __getitem__(self, name: str) -> str:
        return self._items[lower_name(name)][1]

    def __setitem__(self, name: str, value: str | int) -> None:
        lowered = lower_name(name)
        known = self._items.get(lowered)
        self._items[lowered] = (known[0] if known else name, str(value))

    def __delitem__(self, name: str) -> None:
        del self._items[lower_name(name)]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and lower_name(name) in self._items

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self._items.values()])

    def __len__(self) -> int:
        return len(self._items)

    def as_list(self) -> HeaderList:
        """The (name, value) pairs for ``start_response``."""
        return list(self._items.values())

    def __repr__(self) -> str:
        return f"Headers({self.as_list()!r})"


def find_header(headers: HeaderList, lowered: str) -> str | None:
    """The value of a response header by its name in lower case, without a look at the others."""
    for name, value in headers:
        if name.lower() == lowered:
            return value
    return None


class Request:
    """A view of a WSGI request.

    ``acl`` is set by the proxy's controllers before they ask ``environ['swift.authorize']``: the
    read or write ACL of the container the request is about.
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
        """A request made here, for sub-requests and tests; ``path`` is percent-encoded."""
        from io import BytesIO
        from urllib.parse import unquote_to_bytes

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
        """The body, to be read once."""
        stream: BinaryIO = self.environ["wsgi.input"]
        return stream

    @property
    def trans_id(self) -> str:
        """The transaction id, or an empty string before catch_errors gave one."""
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
        """The segments of the path, see ``martlet.names.split_path``."""
        return split_path(self.path, minsegs, maxsegs, rest_with_last)

    def __repr__(self) -> str:
        return f"<Request {self.method} {self.environ.get('PATH_INFO')!r}>"


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
        """With ``app_iter`` the caller sets Content-Length where it is known."""
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
    """A response that is raised; ``response`` is what the client gets."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status_line)
        self.response = response

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        return self.response(environ, start_response)


# What the page of an error without a text of its own says, where the reason alone says too little.
_SENTENCES = {409: "There was a conflict when trying to complete your request."}


def error_response(
    status: int, text: str = "", headers: Mapping[str, str] | Iterable[tuple[str, str]] = ()
) -> Response:
    """An error: ``text``, one sentence that says what to do, or a page that names the reason."""
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
    """An error to be raised whose text clients read as it is: no characters are escaped."""
    response = Response(status, headers, text)
    response.headers["Content-Type"] = "text/plain"
    return HTTPException(response)


def call_app(app: WSGIApp, environ: Environ) -> tuple[str, HeaderList, Iterable[bytes]]:
    """Run a WSGI application up to its first byte.

    Returns the status line, the headers, and the body, whose ``close`` the caller must call where
    it has one.
    """
    seen: list[tuple[str, HeaderList]] = []

    def start_response(status: str, headers: HeaderList, exc_info: Any = None) -> None:
        seen[:] = [(status, headers)]

    body = app(environ, start_response)
    if seen:
        return (*seen[0], body)
    # An application written as a generator calls start_response with its first chunk.
    iterator = iter(body)
    first = next(iterator, b"")
    if not seen:
        raise RuntimeError("WSGI application returned without calling start_response")
    return (*seen[0], _Rejoined(first, iterator, body))


class _Rejoined:
    """A body whose first chunk has been taken off."""

    def __init__(self, first: bytes, rest: Iterator[bytes], whole: Iterable[bytes]) -> None:
        self._first: bytes | None = first
        self._rest = rest
        self._whole = whole

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        return next(self._rest)

    def close(self) -> None:
        """Close the application's body."""
        close = getattr(self._whole, "close", None)
        if close is not None:
            close()


def http_date(seconds: float | None = None) -> str:
    """A date as HTTP headers write it, now by default."""
    return formatdate(time.time() if seconds is None else seconds, usegmt=True)

# SPDX-License-Identifier: Apache-2.0
"""An object store in memory, for the filters near the end of the proxy's pipeline.

It supports PUT, POST, GET, HEAD, DELETE of objects and GET of container listings, with conditions,
one range, and the X-Backend headers of those filters. It records every request and every body sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import md5
from typing import Any
from urllib.parse import parse_qsl

from martlet.http.environ import Environ, HeaderList, StartResponse
from martlet.http.request import Request
from martlet.http.response import error_response
from proxy.middleware.large_objects.byte_ranges import parse_ranges

MODIFIED = "Fri, 01 Feb 2013 20:38:36 GMT"
_OVERRIDE = "X-Object-Sysmeta-Container-Update-Override-Etag"
_KEPT = ("X-Object-", "X-Static-Large-Object", "X-Delete-At")


@dataclass
class Stored:
    """An object: its bytes, and its headers as a GET shows them."""

    body: bytes
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def etag(self) -> str:
        return md5(self.body).hexdigest()


class Stream:
    """A body in small pieces; it records whether it was closed, and may break off."""

    def __init__(self, body: bytes, break_after: int | None) -> None:
        self._body = body
        self._break_after = break_after
        self.sent = 0
        self.is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, len(self._body), 4):
            if self._break_after is not None and start >= self._break_after:
                raise ConnectionError("the storage server went away")
            piece = self._body[start : start + 4]
            self.sent += len(piece)
            yield piece

    def close(self) -> None:
        self.is_closed = True


class ObjectStore:
    """The WSGI application. Paths are WSGI paths: ``/v1/a/c/o``."""

    def __init__(self) -> None:
        self.objects: dict[str, Stored] = {}
        self.requests: list[Environ] = []
        self.streams: list[Stream] = []
        #: (method, path) -> status to answer with.
        self.failing: dict[tuple[str, str], int] = {}
        #: Path -> bytes after which its body breaks off.
        self.breaking: dict[str, int] = {}
        self.page_size = 10000

    def add(self, path: str, body: bytes, **headers: str) -> Stored:
        """Store an object; ``x_object_meta_a`` stands for X-Object-Meta-A."""
        named = {name.title().replace("_", "-"): value for name, value in headers.items()}
        self.objects[path] = Stored(body, {"Content-Type": "text/plain", **named})
        return self.objects[path]

    @property
    def calls(self) -> list[str]:
        """``METHOD path?query`` of each request so far."""
        return [_call_of(environ) for environ in self.requests]

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        self.requests.append(dict(environ))
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        status = self.failing.get((method, path))
        if status is not None:
            return error_response(status)(environ, start_response)
        if path.count("/") == 3:
            return self._list(environ, start_response)
        if method in ("PUT", "POST"):
            return self._write(environ, start_response)
        if path not in self.objects:
            return error_response(404)(environ, start_response)
        if method == "DELETE":
            del self.objects[path]
            start_response("204 No Content", [])
            return []
        return self._read(environ, self.objects[path], start_response)

    def _write(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        headers = Request(environ).headers
        kept = {n: v for n, v in headers.items() if n.startswith(_KEPT) or n == "Content-Type"}
        if environ["REQUEST_METHOD"] == "POST":
            if path not in self.objects:
                return error_response(404)(environ, start_response)
            known = self.objects[path].headers
            system = {n: v for n, v in known.items() if "Sysmeta" in n or "Static" in n}
            self.objects[path].headers = {**system, **kept}
            start_response("202 Accepted", list(system.items()))
            return []
        body = b"".join(iter(lambda: environ["wsgi.input"].read(5), b""))
        if len(body) != int(environ["CONTENT_LENGTH"]):
            return error_response(499)(environ, start_response)
        stored = Stored(body, kept)
        if headers.get("Etag", stored.etag) != stored.etag:
            return error_response(422)(environ, start_response)
        self.objects[path] = stored
        start_response(
            "201 Created",
            [("Content-Length", "0"), ("Etag", stored.etag), ("Last-Modified", MODIFIED)],
        )
        return [b""]

    def _read(
        self, environ: Environ, stored: Stored, start_response: StartResponse
    ) -> Iterable[bytes]:
        headers: HeaderList = [
            *stored.headers.items(),
            ("Etag", stored.etag),
            ("Last-Modified", MODIFIED),
        ]
        unmet = _unmet(environ, stored)
        if unmet:
            start_response(unmet, headers)
            return []
        body, status = stored.body, "200 OK"
        ignoring = environ.get("HTTP_X_BACKEND_IGNORE_RANGE_IF_METADATA_PRESENT", "").split(",")
        names = {name.lower() for name in stored.headers}
        is_ignored = any(name.strip().lower() in names for name in ignoring)
        ranges = None
        if not is_ignored and environ["REQUEST_METHOD"] == "GET":
            ranges = parse_ranges(environ.get("HTTP_RANGE"), len(body))
        if ranges == []:
            return error_response(416)(environ, start_response)
        if ranges is not None and len(ranges) == 1:
            headers.append(("Content-Range", ranges[0].content_range(len(body))))
            body, status = body[ranges[0].first : ranges[0].last + 1], "206 Partial Content"
        if "Content-Length" not in stored.headers:  # a test may set a wrong one
            headers.append(("Content-Length", str(len(body))))
        start_response(status, headers)
        if environ["REQUEST_METHOD"] == "HEAD":
            return []
        self.streams.append(Stream(body, self.breaking.get(environ["PATH_INFO"])))
        return self.streams[-1]

    def _list(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        query = dict(parse_qsl(environ.get("QUERY_STRING", ""), encoding="latin-1"))
        base = environ["PATH_INFO"] + "/"
        prefix, marker = query.get("prefix", ""), query.get("marker", "")
        rows: list[dict[str, Any]] = []
        for path in sorted(self.objects):
            name = path.removeprefix(base)
            if path.startswith(base + prefix) and name > marker and len(rows) < self.page_size:
                rows.append(_row(name, self.objects[path]))
        text = json.dumps(rows).encode("ascii")
        head = [("Content-Type", "application/json"), ("Content-Length", str(len(text)))]
        start_response("200 OK", head)
        return [text]


def _row(name: str, stored: Stored) -> dict[str, Any]:
    etag = stored.headers.get(_OVERRIDE, stored.etag)
    text = name.encode("latin-1").decode("utf-8")
    return {"name": text, "hash": etag, "bytes": len(stored.body), "content_type": "text/plain"}


def _unmet(environ: Environ, stored: Stored) -> str:
    etag = stored.etag
    for name in environ.get("HTTP_X_BACKEND_ETAG_IS_AT", "").split(","):
        etag = stored.headers.get(name.strip(), etag)
    if environ.get("HTTP_IF_NONE_MATCH", "").strip('"') == etag:
        return "304 Not Modified"
    if environ.get("HTTP_IF_MATCH", etag).strip('"') != etag:
        return "412 Precondition Failed"
    return ""


def _call_of(environ: Environ) -> str:
    query = environ.get("QUERY_STRING", "")
    path = f"{environ['PATH_INFO']}?{query}" if query else environ["PATH_INFO"]
    return f"{environ['REQUEST_METHOD']} {path}"

# SPDX-License-Identifier: Apache-2.0
"""GET and HEAD of a static large object: its segments as one body, or its manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import unquote

from martlet.conf.options import is_true
from martlet.http.call import call_app
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.headers import Headers, find_header
from martlet.http.response import STATUS_LINES, HTTPException, error_response, http_error
from martlet.words.names import split_path, str_to_wsgi
from proxy.middleware.backend_hints import etag_is_at, ignore_range_of
from proxy.middleware.large_objects.byte_ranges import ByteRange, parse_ranges
from proxy.middleware.large_objects.row_etag import OVERRIDE_ETAG
from proxy.middleware.large_objects.segments import (
    AS_STORED,
    LargeObject,
    Pace,
    Segment,
    SegmentError,
    SegmentReader,
    not_satisfiable,
    send,
    send_ranges,
    unmet,
    unmet_condition,
)
from proxy.middleware.large_objects.slo_manifest import (
    Entry,
    ManifestError,
    large_etag,
    large_size,
    load_entries,
)
from proxy.middleware.large_objects.slo_options import (
    IS_SLO,
    SLO_ETAG,
    SLO_SIZE,
    SloOptions,
    is_slo,
)
from proxy.middleware.query import parameter
from proxy.middleware.subrequest import ask_app, close_body, read_body, sub_environ

#: Greatest depth of nested static large objects.
DEPTH_MAX = 10
_IS_SLO_LOWERED = IS_SLO.lower()
_UNREADABLE = "Unable to load SLO manifest"
#: Headers of the manifest alone, not of the large object.
_OF_THE_MANIFEST = (SLO_ETAG, SLO_SIZE, OVERRIDE_ETAG)


class SloDownload:
    """Serves GET and HEAD of objects, few of which are static large objects."""

    def __init__(self, app: WSGIApp, options: SloOptions) -> None:
        self._app = app
        self._pace = Pace(
            options.max_get_time,
            options.rate_limit_after_segment,
            options.rate_limit_segments_per_sec,
            options.rate_limit_under_size,
        )

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Return the answer of the object's GET or HEAD, or the large object.

        A large object: 200, 206, 304; 400 a bad part number; 409 the first segment has changed;
        412; 416; 500 the manifest is damaged; 503.
        """
        if parameter(environ, "multipart-manifest") == "get":
            is_raw = parameter(environ, "format") == "raw"
            return self._manifest(environ, start_response, is_raw)
        etag_is_at(environ, SLO_ETAG)
        ignore_range_of(environ, IS_SLO)
        status, header_list, body = call_app(self._app, environ)
        if not is_true(find_header(header_list, _IS_SLO_LOWERED)):  # the fast path
            start_response(status, header_list)
            return body
        part_number = parameter(environ, "part-number")
        headers = Headers(header_list)
        try:
            return self._large(environ, start_response, int(status[:3]), headers, body, part_number)
        except HTTPException as refusal:
            return refusal(environ, start_response)

    def _manifest(
        self, environ: Environ, start_response: StartResponse, is_raw: bool
    ) -> Iterable[bytes]:
        status, header_list, body = call_app(self._app, environ)
        headers = Headers(header_list)
        if status[:3] not in ("200", "206", "304") or not is_slo(headers):
            start_response(status, header_list)
            return body
        if not is_raw:
            headers["Content-Type"] = "application/json; charset=utf-8"
        elif environ["REQUEST_METHOD"] == "GET" and status[:3] == "200":
            try:
                entries = load_entries(read_body(body))
            except ManifestError:
                return error_response(500, _UNREADABLE)(environ, start_response)
            text = json.dumps([e.as_wanted() for e in entries], sort_keys=True).encode("ascii")
            headers["Content-Length"] = len(text)
            headers["Etag"] = hashlib.md5(text, usedforsecurity=False).hexdigest()
            body = [text]
        start_response(status, headers.as_list())
        return body

    def _large(
        self,
        environ: Environ,
        start_response: StartResponse,
        status: int,
        headers: Headers,
        body: Iterable[bytes],
        part_number: str | None,
    ) -> Iterable[bytes]:
        is_head = environ["REQUEST_METHOD"] == "HEAD"
        # Before Swift 2.12 a manifest was stored without ETag and size of the whole. An object
        # server without support for large objects answers a Range with a part of the manifest.
        is_known = SLO_ETAG in headers and SLO_SIZE in headers and status != 206
        number = _check_part_number(environ, part_number, body)
        entries: list[Entry] | None = None
        if status == 200 and not is_head:
            entries = _load(read_body(body))
        else:
            close_body(body)
            if not is_known or (number and status == 200):
                entries = self._fetch_manifest(environ)
        large = self._large_object(environ, headers, entries)
        refusal = None
        if status not in (200, 206) and is_known:
            refusal = unmet(status, large.headers)
        elif not is_known:
            refusal = unmet_condition(environ, large.headers)
        if refusal is not None:
            return refusal(environ, start_response)
        if number:
            return _send_part(environ, start_response, large, entries or [], number)
        return send(environ, start_response, large)

    def _fetch_manifest(self, environ: Environ) -> list[Entry]:
        # The rest of the query may select a version.
        query = "&".join(filter(None, (environ.get("QUERY_STRING"), AS_STORED)))
        newest = {"X-Newest": "true"}
        request = sub_environ(
            environ, "GET", environ["PATH_INFO"], "SLO", query=query, headers=newest
        )
        answered = ask_app(self._app, request)
        if not answered.is_success or not is_slo(answered.headers):
            raise http_error(503 if answered.status >= 500 else 409)
        return _load(answered.body)

    def _large_object(
        self, environ: Environ, headers: Headers, entries: list[Entry] | None
    ) -> LargeObject:
        """Build the large object; ``entries`` may be None if the manifest's headers suffice."""
        manifest_etag = headers.get("etag", "").strip('"')
        if entries is None:
            etag, size = headers[SLO_ETAG], int(headers[SLO_SIZE])
        else:
            etag, size = large_etag(entries), large_size(entries)
        base = _base_path(environ, headers)
        for name in (*_OF_THE_MANIFEST, "Content-Length", "Content-Range"):
            headers.pop(name, None)
        headers["Etag"] = f'"{etag}"'
        headers["X-Manifest-Etag"] = manifest_etag
        if entries is None:
            return LargeObject(headers, size, None)
        reader = SegmentReader(self._app, environ, "SLO", self._pace)
        walk = _Walk(self._app, environ)
        top = _Manifest(base, entries)
        return LargeObject(headers, size, lambda wanted: reader.read(walk.parts(top, wanted)))


def _load(text: bytes) -> list[Entry]:
    try:
        return load_entries(text)
    except ManifestError:
        raise http_error(500, _UNREADABLE) from None


def _check_part_number(environ: Environ, text: str | None, body: Iterable[bytes]) -> int:
    """Return the number of the requested part, 0 for all parts.

    :raises HTTPException: (400) it is not a valid number; ``body`` is closed then.
    """
    if text is None:
        return 0
    problem = ""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
    if number < 1:
        problem = "Part number must be an integer greater than 0"
    elif parse_ranges(environ.get("HTTP_RANGE"), 1) is not None:
        problem = "Range requests are not supported with part number queries"
    if problem:
        close_body(body)
        raise http_error(400, problem)
    return number


def _send_part(
    environ: Environ,
    start_response: StartResponse,
    large: LargeObject,
    entries: list[Entry],
    number: int,
) -> Iterable[bytes]:
    """Answer 206 with one segment, or 416 if the number is too large."""
    headers, size = large.headers, large.size or 0
    headers["X-Parts-Count"] = len(entries)
    if number > len(entries):
        refusal = not_satisfiable(headers, size, "The requested part number is not satisfiable")
        if environ["REQUEST_METHOD"] == "HEAD":
            refusal.body = b""
        return refusal(environ, start_response)
    first = large_size(entries[: number - 1])
    part = ByteRange(first, first + entries[number - 1].length - 1)
    if part.length and environ["REQUEST_METHOD"] != "HEAD":
        return send_ranges(environ, start_response, large, [part])
    headers["Content-Range"] = part.content_range(size)
    headers["Content-Length"] = part.length
    start_response(STATUS_LINES[206], headers.as_list())
    return []


def _base_path(environ: Environ, headers: Headers) -> str:
    """Return ``/version/account`` of the manifest, or of the target if the path is a symlink."""
    path = environ["PATH_INFO"]
    location = headers.get("content-location")
    if location:
        path = unquote(location, encoding="latin-1")
    version, account, _, _ = split_path(path, 4, 4, True)
    return f"/{version}/{account}"


class _Manifest(NamedTuple):
    """Entries, and the WSGI path ``/version/account`` that precedes their names."""

    base: str
    entries: list[Entry]


class _Walk:
    """Traverses a manifest and its nested manifests to find the segments of a range."""

    def __init__(self, app: WSGIApp, environ: Environ) -> None:
        self._app = app
        self._environ = environ
        # The last manifest read: one may be named many times in a row, with different ranges.
        self._last: tuple[str, _Manifest] | None = None

    def parts(
        self, manifest: _Manifest, wanted: ByteRange, depth: int = 1
    ) -> Iterator[Segment | bytes]:
        """Yield the parts of the bytes ``wanted``, in order; read manifests when they are reached.

        :raises SegmentError: a manifest is unavailable, has changed, or is nested too deep.
        """
        begin = 0
        for entry in manifest.entries:
            first = max(wanted.first - begin, 0)
            last = min(wanted.last - begin, entry.length - 1)
            begin += entry.length
            if first > last:
                if begin > wanted.last:
                    return
                continue
            part = ByteRange(first + entry.wanted.first, last + entry.wanted.first)
            path = manifest.base + str_to_wsgi(entry.name)
            if entry.data is not None:
                yield entry.data[part.first : part.last + 1]
            elif entry.is_large:
                yield from self.parts(self._load(path, entry.etag, depth), part, depth + 1)
            else:
                yield Segment(path, entry.etag, entry.size, part)

    def _load(self, path: str, etag: str, depth: int) -> _Manifest:
        if depth >= DEPTH_MAX:
            raise SegmentError(f"{path}: large objects are nested too deep")
        if self._last is not None and self._last[0] == path:
            return self._last[1]
        request = sub_environ(self._environ, "GET", path, "SLO", query=AS_STORED)
        answered = ask_app(self._app, request)
        if not answered.is_success or not is_slo(answered.headers):
            status = 503 if answered.status >= 500 else 409
            raise SegmentError(f"manifest {path}: {answered.status}", status)
        try:
            entries = load_entries(answered.body)
        except ManifestError as error:
            raise SegmentError(f"manifest {path}: {error}") from None
        if etag and large_etag(entries) != etag:
            raise SegmentError(f"manifest {path} has changed: its etag was {etag}")
        manifest = _Manifest(_base_path(request, answered.headers), entries)
        self._last = path, manifest
        return manifest

# SPDX-License-Identifier: Apache-2.0
"""Dynamic large objects: all objects of a container under a prefix, sent as one.

An object with ``X-Object-Manifest: container/prefix`` is a manifest, independent of its own bytes;
``?multipart-manifest=get`` returns those bytes. Each GET takes the segments from the container's
listing. The filter requests one page of it before the answer starts. If that page has all segments,
ETag and size of the whole are known, and ranges are served. Place the filter right of slo, left of
versioned_writes; see doc/large-objects.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote, urlencode

from martlet.conf.cluster import ClusterConf
from martlet.conf.options import option
from martlet.filters.filter_options import load_filter_options
from martlet.http.call import call_app
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.headers import Headers, find_header
from martlet.http.response import Response, error_response
from martlet.words.names import split_path, str_to_wsgi
from proxy.info_registry import register_info
from proxy.middleware.backend_hints import ignore_range_of
from proxy.middleware.large_objects.byte_ranges import ByteRange, parse_ranges
from proxy.middleware.large_objects.segments import (
    LargeObject,
    Pace,
    Segment,
    SegmentError,
    SegmentReader,
    not_satisfiable,
    send,
    send_ranges,
    unmet_condition,
)
from proxy.middleware.query import parameter
from proxy.middleware.subrequest import ask_app, close_body, sub_environ

MANIFEST = "X-Object-Manifest"


@dataclass(frozen=True)
class DloOptions:
    """``[filter:dlo]``."""

    rate_limit_after_segment: int = option(
        10, "Segments of one GET before the rate limit applies", "count"
    )
    rate_limit_segments_per_sec: float = option(
        1, "Segments that one GET may start in a second after those; 0: no limit", "count"
    )
    max_get_time: int = option(
        86400, "How long after its start a GET may start a segment", "seconds"
    )


class _Refused(Exception):
    """The listing of the segments failed; ``response`` is the answer to send."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status_line)
        self.response = response


class _Source(NamedTuple):
    """The location of segments: WSGI path ``/version/account/container``, text of the prefix."""

    container: str
    prefix: str


class _Row(NamedTuple):
    """A segment in the listing."""

    name: str
    etag: str
    size: int


class Dlo:
    """The filter."""

    def __init__(self, app: WSGIApp, options: DloOptions, page_size: int) -> None:
        """Create the filter; ``page_size`` is the number of names in a full listing."""
        self._app = app
        self._page_size = page_size
        self._pace = Pace(
            options.max_get_time,
            options.rate_limit_after_segment,
            options.rate_limit_segments_per_sec,
        )

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Serve requests for objects; pass other requests on."""
        method = environ["REQUEST_METHOD"]
        if method not in ("GET", "HEAD", "PUT", "POST"):
            return self._app(environ, start_response)
        try:
            split_path(environ["PATH_INFO"], 4, 4, True)
        except ValueError:
            return self._app(environ, start_response)
        if method in ("PUT", "POST"):
            value = environ.get("HTTP_X_OBJECT_MANIFEST")
            if value is not None and not _is_manifest_value(value):
                text = f"{MANIFEST} must be in the format container/prefix"
                return error_response(400, text)(environ, start_response)
            return self._app(environ, start_response)
        if parameter(environ, "multipart-manifest") == "get":
            return self._app(environ, start_response)
        return self._get(environ, start_response)

    def _get(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        ignore_range_of(environ, MANIFEST)
        status, header_list, body = call_app(self._app, environ)
        # Also 304 and 412: they refer to the manifest's own ETag, not to the ETag of the whole.
        is_manifest = find_header(header_list, "x-object-manifest") is not None
        if not is_manifest or status[:3] not in ("200", "206", "304", "412"):
            start_response(status, header_list)
            return body
        close_body(body)
        try:
            return self._large(environ, start_response, Headers(header_list))
        except _Refused as refusal:
            return refusal.response(environ, start_response)

    def _large(
        self, environ: Environ, start_response: StartResponse, headers: Headers
    ) -> Iterable[bytes]:
        source = _source(environ, headers)
        page = self._list(environ, source, "")
        is_all = len(page) < self._page_size
        for name in ("Content-Length", "Content-Range", "Etag"):
            headers.pop(name, None)
        headers["Accept-Ranges"] = "bytes"
        if is_all:
            headers["Etag"] = f'"{_etag(page)}"'
            unmet = unmet_condition(environ, headers)
            if unmet is not None:
                return unmet(environ, start_response)
        size = sum(row.size for row in page)
        reader = SegmentReader(self._app, environ, "DLO", self._pace)

        def read(wanted: ByteRange) -> Iterator[bytes]:
            return reader.read(self._parts(environ, source, page, wanted))

        ranges = self._ranges(environ, size, is_all)
        is_empty = size == 0 and is_all and ranges is None
        is_wanted = environ["REQUEST_METHOD"] == "GET" and not is_empty
        large = LargeObject(headers, size if is_all else None, read if is_wanted else None)
        if not is_wanted:
            return send(environ, start_response, large)
        if ranges == []:
            return not_satisfiable(headers, size)(environ, start_response)
        return send_ranges(environ, start_response, large, ranges)

    def _ranges(self, environ: Environ, size: int, is_all: bool) -> list[ByteRange] | None:
        """Return the requested range; None for the whole.

        Several ranges are answered with the whole. So is a range that might reach beyond the first
        page of the listing (``size`` bytes), because it may not be satisfiable.
        """
        header = environ.get("HTTP_RANGE", "")
        if "," in header:
            return None
        ranges = parse_ranges(header, size)
        if ranges is None or is_all:
            return ranges
        beyond = parse_ranges(header, size + 1)
        is_suffix = "=-" in header.replace(" ", "")
        return ranges if ranges and ranges == beyond and not is_suffix else None

    def _parts(
        self, environ: Environ, source: _Source, page: Sequence[_Row], wanted: ByteRange
    ) -> Iterator[Segment]:
        """Yield the segments of the bytes ``wanted``; request further pages when needed."""
        begin = 0
        while True:
            for row in page:
                first = max(wanted.first - begin, 0)
                last = min(wanted.last - begin, row.size - 1)
                begin += row.size
                if first <= last:
                    path = f"{source.container}/{str_to_wsgi(row.name)}"
                    yield Segment(path, row.etag, row.size, ByteRange(first, last))
            if len(page) < self._page_size or begin > wanted.last:
                return
            try:
                page = self._list(environ, source, page[-1].name)
            except _Refused as refusal:
                text = f"listing of {source.container}: {refusal}"
                raise SegmentError(text, refusal.response.status) from None

    def _list(self, environ: Environ, source: _Source, marker: str) -> list[_Row]:
        """Return one page of segments, those after ``marker``.

        :raises _Refused: with the answer of the container server or of auth.
        """
        query = urlencode({"format": "json", "prefix": source.prefix, "marker": marker})
        request = sub_environ(environ, "GET", source.container, "DLO", query=query)
        answered = ask_app(self._app, request)
        if not answered.is_success:
            raise _Refused(Response(answered.status, answered.headers, answered.body))
        try:
            rows = json.loads(answered.body or b"[]")
        except ValueError:
            raise _Refused(error_response(503)) from None
        return [_row(row) for row in rows if "subdir" not in row]


def _row(row: dict[str, Any]) -> _Row:
    etag = str(row["hash"]).partition(";")[0].strip().strip('"')
    return _Row(row["name"], etag, int(row["bytes"]))


def _etag(rows: Iterable[_Row]) -> str:
    md5 = hashlib.md5(usedforsecurity=False)
    for row in rows:
        md5.update(row.etag.encode("utf-8"))
    return md5.hexdigest()


def _is_manifest_value(value: str) -> bool:
    container, _, prefix = unquote(value, encoding="latin-1").partition("/")
    is_plain = not any(character in value for character in "?&")
    return bool(container and prefix) and not prefix.startswith("/") and is_plain


def _source(environ: Environ, headers: Headers) -> _Source:
    """Return the location of the segments.

    The account is the manifest's, also if the path is a symlink to the manifest.
    """
    path = environ["PATH_INFO"]
    if "content-location" in headers:
        path = unquote(headers["content-location"], encoding="latin-1")
    version, account, _, _ = split_path(path, 4, 4, True)
    container, _, prefix = unquote(headers[MANIFEST], encoding="latin-1").partition("/")
    # Object names are always UTF-8, so a prefix that is not UTF-8 matches no object.
    text = prefix.encode("latin-1").decode("utf-8", "replace")
    return _Source(f"/{version}/{account}/{container}", text)


def filter_factory(global_conf: dict[str, str], **local_conf: str) -> Callable[[WSGIApp], Dlo]:
    """PasteDeploy's entry point."""
    options = load_filter_options(DloOptions, "dlo", global_conf, local_conf)
    cluster = ClusterConf.load(global_conf.get("swift_dir", "/etc/martlet"))
    page_size = cluster.constraints.container_listing_limit
    register_info("dlo")
    return lambda app: Dlo(app, options, page_size)

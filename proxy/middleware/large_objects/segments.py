# SPDX-License-Identifier: Apache-2.0
"""Large objects as one body: segments fetched one after the other while the client reads.

Only the bytes that the manifest describes are sent. A segment that is missing, or whose ETag or
size has changed, ends the body. Before the first byte the answer is 409, or 503 if the servers
failed. After the first byte the connection is closed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from martlet.http.backend_client import BackendError
from martlet.http.call import call_app
from martlet.http.environ import Environ, StartResponse, WSGIApp
from martlet.http.headers import Headers
from martlet.http.response import STATUS_LINES, Response, error_response
from martlet.log import fields, get_logger
from proxy.middleware.large_objects.byte_ranges import ByteRange, Multipart, parse_ranges
from proxy.middleware.large_objects.conditions import condition_status
from proxy.middleware.subrequest import close_body, sub_environ

log = get_logger("proxy.segments")

#: Stops filters to the right from assembling a large object: a segment is plain bytes.
AS_STORED = "multipart-manifest=get"


class SegmentError(Exception):
    """A segment differs from the manifest; ``status`` is sent if no byte has been sent."""

    def __init__(self, text: str, status: int = 409) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of an object.

    :param path: WSGI path of the object.
    :param etag: ETag of the object, without quotes; empty: not checked.
    :param size: size of the object, bytes.
    :param wanted: the range of its bytes to read.
    """

    path: str
    etag: str
    size: int
    wanted: ByteRange

    @property
    def is_whole(self) -> bool:
        """Whether the whole object is to be read."""
        return self.wanted == (0, self.size - 1)


@dataclass(frozen=True, slots=True)
class Pace:
    """The rate limit on the segments that one request reads.

    Small segments are those below ``small_bytes`` (None: all). After the first ``free_count`` of
    them, ``per_second`` are started in a second. After ``seconds_max`` no segment is started.
    """

    seconds_max: float
    free_count: int
    per_second: float
    small_bytes: int | None = None


class SegmentReader:
    """Reads segments on behalf of one request."""

    def __init__(self, app: WSGIApp, environ: Environ, source: str, pace: Pace) -> None:
        """Create a reader; ``source`` names the filter in the access log."""
        self._app = app
        self._environ = environ
        self._source = source
        self._pace = pace
        self._stop_at = time.monotonic() + pace.seconds_max
        self._small_count = 0
        self._next_small_at = 0.0

    def read(self, parts: Iterable[Segment | bytes]) -> Iterator[bytes]:
        """Yield the bytes of all parts; parts given as bytes are passed unchanged.

        :raises SegmentError: a segment is unavailable or differs from the manifest.
        """
        for part in parts:
            if isinstance(part, bytes):
                yield part
            else:
                self._wait_for_turn(part)
                yield from self._read_one(part)

    def _wait_for_turn(self, segment: Segment) -> None:
        pace = self._pace
        if time.monotonic() > self._stop_at:
            raise SegmentError(f"max_get_time of {pace.seconds_max} s exceeded")
        if pace.small_bytes is not None and segment.wanted.length >= pace.small_bytes:
            return
        self._small_count += 1
        if pace.per_second <= 0 or self._small_count <= pace.free_count:
            return
        now = time.monotonic()
        if now < self._next_small_at:
            time.sleep(self._next_small_at - now)
        self._next_small_at = max(now, self._next_small_at) + 1 / pace.per_second

    def _read_one(self, segment: Segment) -> Iterator[bytes]:
        wanted = segment.wanted
        headers = {} if segment.is_whole else {"Range": f"bytes={wanted.first}-{wanted.last}"}
        environ = sub_environ(
            self._environ, "GET", segment.path, self._source, query=AS_STORED, headers=headers
        )
        status, header_list, body = call_app(self._app, environ)
        try:
            _check_answer(segment, status, Headers(header_list))
            yield from _checked(segment, body)
        finally:
            close_body(body)


def _check_answer(segment: Segment, status: str, headers: Headers) -> None:
    """:raises SegmentError: it is not the object that the manifest describes."""
    number = int(status[:3])
    if number not in (200, 206):
        text = f"segment {segment.path}: {status}"
        raise SegmentError(text, 503 if number >= 500 else 409)
    etag = headers.get("etag", "").strip('"')
    if segment.etag and etag != segment.etag:
        raise SegmentError(f"segment {segment.path}: etag {etag}, not {segment.etag}")
    expected = segment.wanted.content_range(segment.size) if number == 206 else None
    found = headers.get("content-range")
    if number == 200:
        expected, found = str(segment.size), headers.get("content-length")
    is_wanted = number == (200 if segment.is_whole else 206)
    if not is_wanted or found != expected:
        raise SegmentError(f"segment {segment.path}: {status} with {found}, not {expected}")


def _checked(segment: Segment, body: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the body and check its length.

    Its MD5 is not compared with the ETag: the object server has already verified the bytes with its
    own checksums. The MD5 would take twice the CPU time of everything else here.
    """
    left = segment.wanted.length
    for chunk in body:
        if len(chunk) > left:
            raise SegmentError(f"segment {segment.path} is longer than {segment.size} bytes")
        left -= len(chunk)
        if chunk:
            yield chunk
    if left:
        raise SegmentError(f"segment {segment.path} ended {left} bytes early", 503)


# The end of an object of unknown size.
_BYTES_MAX = 2**63

#: The bytes of a range of a large object.
ReadRange = Callable[[ByteRange], Iterator[bytes]]


@dataclass(frozen=True, slots=True)
class LargeObject:
    """A large object to send.

    :param headers: the manifest's, with the ETag of the whole and without Content-Length.
    :param size: bytes, None if unknown; then the whole is sent and the Range is ignored.
    :param read: None if the bytes are not requested.
    """

    headers: Headers
    size: int | None
    read: ReadRange | None


def unmet_condition(environ: Environ, headers: Headers) -> Response | None:
    """Return 304 or 412 if an object with these headers fails a condition of the request."""
    status = condition_status(environ, headers["Etag"], headers.get("last-modified"))
    return unmet(status, headers) if status else None


def unmet(status: int, headers: Headers) -> Response:
    """Return 304 or 412 with the headers of the object."""
    return Response(status, headers, app_iter=[] if status == 304 else None)


def send(environ: Environ, start_response: StartResponse, large: LargeObject) -> Iterable[bytes]:
    """Send 200, or 206 or 416 for a Range; 409 or 503 if the first segment is wrong."""
    headers, size = large.headers, large.size
    is_head = environ["REQUEST_METHOD"] == "HEAD" or large.read is None
    ranges = None if is_head or size is None else parse_ranges(environ.get("HTTP_RANGE"), size)
    if ranges == []:
        return not_satisfiable(headers, size)(environ, start_response)
    if is_head or size == 0:
        if size is not None:
            headers["Content-Length"] = size
        start_response(STATUS_LINES[200], headers.as_list())
        return []
    return send_ranges(environ, start_response, large, ranges)


def not_satisfiable(
    headers: Headers, size: int | None, text: str = "The requested range is not available."
) -> Response:
    """Return 416 with the headers of the object that also apply to ``text``."""
    response = error_response(416, text, headers)
    response.headers["Content-Range"] = f"bytes */{size or 0}"
    for name in ("Content-Disposition", "Content-Encoding", "Content-Language"):
        response.headers.pop(name, None)
    return response


def send_ranges(
    environ: Environ,
    start_response: StartResponse,
    large: LargeObject,
    ranges: list[ByteRange] | None,
) -> Iterable[bytes]:
    """Send 206 with ``ranges``, or 200 with the whole; 409 or 503 if the first segment is wrong."""
    headers, size, read = large.headers, large.size, large.read
    assert read is not None
    frame = None
    if ranges is None:
        if size is not None:
            headers["Content-Length"] = size
    elif len(ranges) == 1:
        headers["Content-Range"] = ranges[0].content_range(size)
        headers["Content-Length"] = ranges[0].length
    else:
        frame = Multipart(headers.get("content-type", ""), size or 0, ranges)
        headers["Content-Type"] = frame.content_type
        headers["Content-Length"] = frame.length
    body = _Body(read, ranges or [ByteRange(0, (size or _BYTES_MAX) - 1)], frame)
    try:
        body.begin()
    except (SegmentError, BackendError) as error:
        body.close()
        path = environ["PATH_INFO"]
        log.error("event=large_object_refused %s", fields(path=path, reason=error))
        status = error.status if isinstance(error, SegmentError) else 503
        return error_response(status)(environ, start_response)
    start_response(STATUS_LINES[200 if ranges is None else 206], headers.as_list())
    return body


class _Body:
    """The bytes of one range, or of several ranges as multipart."""

    def __init__(self, read: ReadRange, parts: list[ByteRange], frame: Multipart | None) -> None:
        self._read = read
        self._parts = parts
        self._frame = frame
        self._first = read(parts[0])
        self._begun = b""
        self._chunks = self._all()

    def begin(self) -> None:
        """Fetch the first piece while an error can still change the status."""
        self._begun = next(self._first, b"")

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks

    def _all(self) -> Iterator[bytes]:
        frame = self._frame
        for index, part in enumerate(self._parts):
            if frame is not None:
                yield frame.head(part)
            if index == 0:
                yield self._begun
                yield from self._first
            else:
                yield from self._read(part)
            if frame is not None:
                yield frame.part_end
        if frame is not None:
            yield frame.tail

    def close(self) -> None:
        """Discard the unread rest and release its connection."""
        for chunks in (self._chunks, self._first):
            close_body(chunks)

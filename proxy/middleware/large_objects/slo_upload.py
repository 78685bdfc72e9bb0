# SPDX-License-Identifier: Apache-2.0
"""PUT of a static large object's manifest, which is stored after every segment was checked."""

from __future__ import annotations

import hashlib
import json
import mimetypes
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from io import BytesIO
from urllib.parse import quote

from martlet.conf.options import is_true
from martlet.http.call import call_app
from martlet.http.environ import SLO_MANIFEST_HOOK, Environ, StartResponse, WSGIApp
from martlet.http.headers import Headers, RequestHeaders
from martlet.http.listing import PLAIN, listing_content_type
from martlet.http.request import Request
from martlet.http.response import (
    STATUS_LINES,
    HTTPException,
    Response,
    error_response,
    http_error,
    plain_error,
)
from martlet.words.names import split_path, str_to_wsgi, wsgi_to_str
from proxy.controllers.object_get import clean_content_type
from proxy.crew import run_crew
from proxy.middleware.bulk.report import Failure, render_outcome
from proxy.middleware.large_objects.row_etag import OVERRIDE_ETAG, join_row_etag, split_row_etag
from proxy.middleware.large_objects.slo_manifest import (
    Entry,
    ManifestError,
    WantedSegment,
    inline_entry,
    large_etag,
    large_size,
    parse_wanted,
)
from proxy.middleware.large_objects.slo_options import (
    IS_SLO,
    SLO_ETAG,
    SLO_SIZE,
    SloOptions,
    is_slo,
)
from proxy.middleware.subrequest import (
    ask_app,
    close_body,
    get_container_info,
    read_body,
    sub_environ,
)
from proxy.middleware.write_denial import write_denial

_READ_BYTES = 64 * 1024
# The reasons that Swift sends in the body of an answer with status 202.
_REASONS = {
    400: "Bad Request\nThe server could not comply with the request since it is either malformed "
    "or otherwise incorrect.",
    422: "Unprocessable Entity\nUnable to process the contained instructions",
}


@dataclass(frozen=True, slots=True)
class _Upload:
    """One PUT; ``base`` is the WSGI path ``/version/account`` that precedes segments' names."""

    environ: Environ
    base: str
    segments: list[WantedSegment]
    content_type: str


class SloUpload:
    """Serves ``PUT ?multipart-manifest=put``."""

    def __init__(self, app: WSGIApp, slo: WSGIApp, options: SloOptions) -> None:
        """Create the handler; ``slo`` is the filter, which answers for segments that are SLOs."""
        self._app = app
        self._slo = slo
        self._options = options

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Return 201; 400, 411, 413, 422 for a bad manifest; else the answer of the manifest's PUT.

        With ``heartbeat=on`` the status is an immediate 202. White space is sent while segments are
        checked, and the body has the outcome.
        """
        version, account, container, name = split_path(environ["PATH_INFO"], 4, 4, True)
        names = wsgi_to_str(account or ""), wsgi_to_str(container or "")
        find = partial(get_container_info, environ, self._app, *names, "SLO")
        denial = write_denial(environ, find)  # before any work is done and any 202 is sent
        if denial is not None:
            return denial(environ, start_response)
        check = environ.pop(SLO_MANIFEST_HOOK, None)
        text = self._read_manifest(environ)
        segments = self._parse(text, f"/{container}/{name}")
        content_type = _content_type(environ.get("HTTP_ACCEPT"))
        upload = _Upload(environ, f"/{version}/{account}", segments, content_type)
        if is_true(Request(environ).params.get("heartbeat")):
            start_response(STATUS_LINES[202], [("Content-Type", content_type)])
            return self._with_heartbeat(upload)
        problems: list[Failure] = []
        entries = [entry for entry in self._look_up(upload, problems) if entry is not None]
        if not problems and check is not None:
            problems += check(
                [{**entry.as_stored(), "headers": entry.headers} for entry in entries]
            )
        if problems:
            return self._refusal(upload, problems)(environ, start_response)
        return self._store(upload, entries)(environ, start_response)

    def _read_manifest(self, environ: Environ) -> bytes:
        limit = self._options.max_manifest_size
        request = Request(environ)
        length = request.content_length
        if length is None and not request.is_chunked:
            raise http_error(411, "Missing Content-Length header.")
        if length is not None and length > limit:
            raise plain_error(413, f"Manifest File > {limit} bytes")
        text = bytearray()
        wanted = limit + 1 if length is None else length
        try:
            while chunk := request.body_file.read(min(_READ_BYTES, wanted - len(text))):
                text += chunk
        except TimeoutError:
            raise http_error(408, "The client sent no data before the timeout.") from None
        except OSError:
            raise http_error(499, "The client disconnected.") from None
        except ValueError:
            raise http_error(400, "The chunked encoding of the body is malformed.") from None
        if len(text) > limit:
            raise plain_error(413, f"Manifest File > {limit} bytes")
        if length is not None and len(text) < length:
            raise http_error(499, "The client disconnected before the end of the manifest.")
        return bytes(text)

    def _parse(self, text: bytes, own_name: str) -> list[WantedSegment]:
        try:
            segments = parse_wanted(text, wsgi_to_str(own_name))
        except ManifestError as error:
            raise plain_error(400, str(error)) from None
        count = sum(segment.data is None for segment in segments)
        limit = self._options.max_manifest_segments
        if count > limit:
            raise plain_error(413, f"Number of object-backed segments must be <= {limit}")
        return segments

    def _look_up(self, upload: _Upload, problems: list[Failure]) -> Iterator[Entry | None]:
        """Yield the entries in order; before them, yield None after each period of silence."""
        waiting = iter(dict.fromkeys(s.name for s in upload.segments if s.data is None))
        lock = threading.Lock()  # guards the iterator
        heads: dict[str, tuple[int, Headers]] = {}

        def look_at_next() -> bool:
            with lock:
                name = next(waiting, None)
            if name is None:
                return False
            path = upload.base + str_to_wsgi(name)
            answered = ask_app(self._slo, sub_environ(upload.environ, "HEAD", path, "SLO"))
            heads[name] = answered.status, answered.headers
            return True

        yield from run_crew(look_at_next, self._options.concurrency, self._options.yield_frequency)
        last = len(upload.segments) - 1
        for index, segment in enumerate(upload.segments):
            if segment.data is not None:
                yield inline_entry(segment.data)
                continue
            found, reasons = _compare(segment, *heads[segment.name], may_be_empty=index == last)
            problems += [(quote(segment.path), reason) for reason in reasons]
            if found is not None:
                yield found

    def _refusal(self, upload: _Upload, problems: list[Failure]) -> Response:
        text = render_outcome(upload.content_type, "upload", {}, problems)
        return Response(400, {"Content-Type": upload.content_type}, text)

    def _store(self, upload: _Upload, entries: list[Entry]) -> WSGIApp:
        """PUT the manifest.

        :returns: the response, as a WSGI application.
        """
        environ = upload.environ
        etag = large_etag(entries)
        given = environ.get("HTTP_ETAG", "").strip('"')
        if given and given.lower() != etag:
            return error_response(422, "Unable to process the contained instructions")
        _make_manifest_put(environ, entries, etag)
        status, header_list, body = call_app(self._app, environ)
        headers = Headers(header_list)
        if status[:1] == "2":
            headers["Etag"] = f'"{etag}"'
        return _Answered(status, headers, body)

    def _with_heartbeat(self, upload: _Upload) -> Iterator[bytes]:
        yield b" "
        problems: list[Failure] = []
        entries = []
        for entry in self._look_up(upload, problems):
            if entry is None:
                yield b" "
            else:
                entries.append(entry)
        values: dict[str, str | int] = {"Response Status": STATUS_LINES[400]}
        values["Response Body"] = _REASONS[400]
        if not problems:
            values = _outcome(*call_app(self._store(upload, entries), upload.environ))
        yield b"\r\n\r\n" + render_outcome(upload.content_type, "upload", values, problems)


def _content_type(accept: str | None) -> str:
    """Return the content type of the outcome; plain text if Accept admits none of ours."""
    try:
        return listing_content_type(None, accept)
    except HTTPException:
        return PLAIN


@dataclass(frozen=True, slots=True)
class _Answered:
    """The answer to the PUT of the manifest, to be passed on."""

    status: str
    headers: Headers
    body: Iterable[bytes]

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response(self.status, self.headers.as_list())
        return self.body


def _outcome(
    status: str, header_list: list[tuple[str, str]], body: Iterable[bytes]
) -> dict[str, str | int]:
    """Return the values about the PUT for the body of a 202."""
    headers = Headers(header_list)
    values: dict[str, str | int] = {"Response Status": status, "Response Body": ""}
    if status[:1] == "2":
        values["Etag"] = headers["Etag"]
        values["Last Modified"] = headers.get("last-modified", "")
        close_body(body)
        return values
    text = read_body(body).decode("utf-8", "replace")
    values["Response Body"] = _REASONS.get(int(status[:3]), text)
    return values


def _compare(
    segment: WantedSegment, status: int, headers: Headers, *, may_be_empty: bool
) -> tuple[Entry | None, list[str]]:
    """Return the entry for a segment, or its errors."""
    if not 200 <= status < 300:
        return None, [STATUS_LINES.get(status, str(status))]
    size, etag = int(headers.get("content-length", "0")), headers.get("etag", "").strip('"')
    wanted = segment.range_within(size)
    problems = []
    if segment.size is not None and segment.size != size:
        problems.append("Size Mismatch")
    if segment.etag is not None and segment.etag.strip('"') != etag:
        problems.append("Etag Mismatch")
    if wanted is None:
        problems.append("Unsatisfiable Range")
    elif wanted.length < 1 and not may_be_empty:
        problems.append("Too small; each segment must be at least 1 byte.")
    if problems or wanted is None:
        return None, problems
    content_type = clean_content_type(headers.get("content-type", ""))
    modified = _iso_date(headers.get("last-modified"))
    large = is_slo(headers)
    entry = Entry(segment.name, etag, size, wanted, large, None, content_type, modified, headers)
    return entry, []


def _iso_date(http_date: str | None) -> str:
    if not http_date:
        return ""
    return parsedate_to_datetime(http_date).strftime("%Y-%m-%dT%H:%M:%S.000000")


def _make_manifest_put(environ: Environ, entries: list[Entry], etag: str) -> None:
    """Turn the client's request into the PUT of the stored manifest."""
    text = json.dumps([entry.as_stored() for entry in entries]).encode("ascii")
    manifest_etag = hashlib.md5(text, usedforsecurity=False).hexdigest()
    size = large_size(entries)
    environ["wsgi.input"] = BytesIO(text)
    environ["CONTENT_LENGTH"] = str(len(text))
    headers = RequestHeaders(environ)
    content_type: str = environ.get("CONTENT_TYPE") or ""
    if not content_type or is_true(headers.get("X-Detect-Content-Type")):
        guessed, _ = mimetypes.guess_type(environ["PATH_INFO"])
        content_type = guessed or "application/octet-stream"
    for name in ("X-Detect-Content-Type", "Transfer-Encoding", "Expect"):
        if name in headers:
            del headers[name]
    headers["Content-Type"] = f"{clean_content_type(content_type)};swift_bytes={size}"
    headers["Etag"] = manifest_etag
    headers[IS_SLO] = "True"
    headers[SLO_ETAG] = etag
    headers[SLO_SIZE] = str(size)
    # Another filter may have its own ETag for the row, after the MD5 of the body.
    _, others = split_row_etag(headers.get(OVERRIDE_ETAG, ""))
    headers[OVERRIDE_ETAG] = join_row_etag(manifest_etag, {"slo_etag": etag, **others})

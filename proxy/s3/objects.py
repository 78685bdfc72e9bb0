# SPDX-License-Identifier: Apache-2.0
"""Reads of objects: GetObject and HeadObject, with versions, ranges, parts and conditions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from martlet.conf.options import is_true
from martlet.http.environ import Environ
from martlet.http.headers import Headers
from martlet.http.response import Response, http_date
from martlet.words.delete_markers import MARKER_TYPE
from martlet.words.timestamp import Timestamp
from proxy.middleware.backend_hints import etag_is_at
from proxy.middleware.large_objects.byte_ranges import parse_ranges
from proxy.middleware.subrequest import Answered, close_body, read_body
from proxy.s3.call import Call
from proxy.s3.customer_keys import Place, check_key, customer_key, opened
from proxy.s3.encryption import shown_of_stored
from proxy.s3.lifecycle import expiration
from proxy.s3.lock_headers import shown_lock
from proxy.s3.null_version import pipeline_version
from proxy.s3.object_headers import (
    CHECKSUM,
    CHECKSUM_TYPE,
    ETAG,
    TAGGING,
    checked_overrides,
    shown_checksum,
    shown_headers,
)
from proxy.s3.stored_parts import checksum_of_part, parts_of_object
from proxy.s3.wire import addressing
from proxy.s3.wire.customer_key import CustomerKey
from proxy.s3.wire.errors import S3Error, invalid_argument
from proxy.s3.wire.lifecycle import Facts
from proxy.s3.wire.part_checksums import type_of
from proxy.s3.wire.tags import tags_of_stored
from proxy.s3.wire.times import parse_http_date

_CONDITIONS = {
    name: name for name in ("if-match", "if-none-match", "if-modified-since", "if-unmodified-since")
}
#: ETags of large objects that Swift's API wrote are shown with this end.
_UNKNOWN_COUNT = "-N"


def read_object(call: Call) -> Response:
    """GetObject and HeadObject."""
    addressing.check_key(call.key)
    overrides = checked_overrides(call.params)
    number = part_number(call)
    environ = _request(call, number)
    status, headers, chunks = call.send(environ)
    if status not in (200, 206, 304):
        if call.method == "HEAD":
            close_body(chunks)
            body = b""
        else:
            body = read_body(chunks)
        raise _refusal(call, Answered(status, headers, body))
    key, chunks = _open(call, status, headers, chunks)
    shown = shown_headers(headers)
    more = shown_of_stored(key, headers) | shown_lock(headers)
    more |= expiration(call, lambda: facts_of(call, headers)) | overrides
    if is_true_mode(call):
        more |= _shown_checksum(call, status, headers, number)
    for name, value in more.items():
        shown[name] = value
    if number is not None and not is_true(headers.get("x-static-large-object")) and status == 200:
        if number != 1:
            close_body(chunks)
            raise S3Error("InvalidPartNumber")
        status = _as_first_part(shown)
    elif call.method == "HEAD" and status == 200:
        status = _as_range(call, shown)
    response = Response(status, app_iter=chunks)
    response.headers = shown
    return response


def _shown_checksum(call: Call, status: int, stored: Headers, number: int | None) -> dict[str, str]:
    """The checksum of what is read: the whole, or a part. That of a range is not known."""
    if status == 200:
        return shown_checksum(stored)
    if number is None or status != 206 or not stored.get(CHECKSUM):
        return {}
    try:
        now, parts = parts_of_object(call, version_query(call))
    except S3Error:  # the body is there; clients do not insist on a checksum
        return {}
    if now.get(ETAG) != stored.get(ETAG):
        return {}  # the object was overwritten since
    shown = shown_checksum(Headers({CHECKSUM: checksum_of_part(call, parts[number - 1])}))
    return {**shown, CHECKSUM_TYPE: type_of(stored[CHECKSUM])} if shown else {}


def _open(
    call: Call, status: int, stored: Headers, chunks: Iterable[bytes]
) -> tuple[CustomerKey | None, Iterable[bytes]]:
    """The key of the client that encrypts the object, if one does, and the plain body.

    :raises S3Error: it is not the key of the request.
    """
    if status == 304:
        return None, chunks
    try:
        key = check_key(call, stored)
        if key is None:
            return None, chunks
        at = Place(call.bucket, call.key, version_query(call))
        is_read = call.method == "GET"
        return key, opened(call, at, key, stored, chunks) if is_read else chunks
    except S3Error:
        close_body(chunks)
        raise


def facts_of(call: Call, stored: Headers) -> Facts | None:
    """The current version for rules; None if it is another version, or has a time of its own."""
    written = stored.get("x-backend-data-timestamp") or stored.get("x-timestamp")
    if "versionId" in call.params or "x-delete-at" in stored or not written:
        return None
    whole = stored.get("content-range", "").rpartition("/")[2] or stored.get("content-length", "")
    size = int(whole) if whole.isdecimal() else 0
    tags = tags_of_stored(stored.get(TAGGING))
    return Facts(call.key, size, tags, float(Timestamp(written)))


def head_version(call: Call) -> Headers:
    """The stored headers of the object, or of the version that the request names.

    :raises S3Error: there is none, or the client may not read it.
    """
    query, newest = version_query(call), {"x-newest": "true"}
    environ = call.request("HEAD", call.bucket, call.key, query=query, headers=newest)
    status, headers, chunks = call.send(environ)
    close_body(chunks)
    if status != 200:
        raise _refusal(call, Answered(status, headers, b""))
    return headers


def is_true_mode(call: Call) -> bool:
    """Whether the client wants checksums."""
    return call.headers.get("x-amz-checksum-mode", "").upper() == "ENABLED"


def part_number(call: Call) -> int | None:
    """The parameter partNumber.

    :raises S3Error: it is not a number in the allowed range.
    """
    text = call.params.get("partNumber")
    if text is None:
        return None
    if "range" in call.headers:
        raise S3Error("InvalidRequest", "Cannot specify both Range header and partNumber query "
                      "parameter")  # fmt: skip
    most = call.options.max_upload_part_num
    is_number = text.isascii() and text.isdigit() and len(text) < 10
    if not is_number or not 1 <= int(text) <= most:
        reason = f"Part number must be an integer between 1 and {most}, inclusive"
        raise invalid_argument("partNumber", text, reason)
    return int(text)


def version_query(call: Call) -> dict[str, str]:
    """The query that selects the version of the parameter versionId.

    :raises S3Error: it is malformed; or as `pipeline_version`.
    """
    version = call.params.get("versionId")
    if version is None:
        return {}
    check_version(version)
    call.params["versionId"] = named = pipeline_version(call, call.bucket, call.key, version)
    return {"version-id": named}


def check_version(version: str) -> None:
    """:raises S3Error: it is not the id of a version."""
    try:
        if version != "null":
            Timestamp(version)
    except ValueError:
        raise invalid_argument("versionId", version, "Invalid version id specified") from None


def _request(call: Call, number: int | None) -> Environ:
    query = version_query(call)
    if number is not None:
        query["part-number"] = str(number)
    headers = conditions(call, _CONDITIONS)
    for name in ("if-match", "if-none-match"):
        if _UNKNOWN_COUNT in headers.get(name, ""):
            headers[name] += f", {headers[name].replace(_UNKNOWN_COUNT, '')}"
    if "range" in call.headers and not ("," in call.headers["range"] and customer_key(call)):
        headers["range"] = call.headers["range"]
    environ = call.request(call.method, call.bucket, call.key, query=query, headers=headers)
    etag_is_at(environ, ETAG)
    return environ


def conditions(call: Call, names: Mapping[str, str]) -> dict[str, str]:
    """Conditions of the request; ``names`` has the name of each in the pipeline.

    Dates get their usual form: clients of S3 send any that RFC 5322 allows.
    """
    given = call.headers
    found = {name: given[header] for header, name in names.items() if header in given}
    for name in ("if-modified-since", "if-unmodified-since"):
        seconds = parse_http_date(found[name]) if name in found else None
        if seconds is not None:
            found[name] = http_date(int(seconds))
    return found


def _refusal(call: Call, answered: Answered) -> S3Error:
    headers = answered.headers
    version = call.params.get("versionId")
    is_marker = headers.get("content-type", "").replace(" ", "") == MARKER_TYPE
    if answered.status == 404 and version is not None:
        # Amazon has another status for a version that is there, but is a delete marker.
        error = S3Error("MethodNotAllowed") if is_marker else _no_version(call, version, answered)
        if is_marker:
            error.headers |= {"x-amz-delete-marker": "true", "x-amz-version-id": version}
        return error
    if answered.status == 400 and version is not None:
        return _no_version(call, version, answered)
    if answered.status == 416 and "partNumber" in call.params:
        return S3Error("InvalidPartNumber")
    error = call.refusal(answered, call.method, call.bucket, call.key)
    if error.code == "NoSuchKey" and headers.get("x-backend-version-marker"):
        error.headers["x-amz-delete-marker"] = "true"
        version = headers.get("x-backend-version-id")
        if version:
            error.headers["x-amz-version-id"] = version
    return error


def _no_version(call: Call, version: str, answered: Answered) -> S3Error:
    error = call.refusal(answered, call.method, call.bucket, call.key)
    if error.code not in ("NoSuchKey", "InvalidRequest"):
        return error
    if version == "null":
        return S3Error("NoSuchKey", fields={"Key": call.key})
    return S3Error("NoSuchVersion", fields={"Key": call.key, "VersionId": version})


def _as_range(call: Call, shown: Headers) -> int:
    """Make the answer of a HEAD that of a range of the object; return its status.

    :raises S3Error: the range is not within the object.
    """
    size = int(shown.get("content-length", "0"))
    ranges = parse_ranges(call.headers.get("range"), size)
    if ranges is None or len(ranges) > 1:
        return 200
    if not ranges:
        raise S3Error("InvalidRange", fields={"ActualObjectSize": str(size)})
    shown["Content-Range"] = ranges[0].content_range(size)
    shown["Content-Length"] = ranges[0].length
    return 206


def _as_first_part(shown: Headers) -> int:
    """Make the answer that of part 1 of an object without parts; return its status."""
    size = int(shown.get("content-length", "0"))
    if size:
        shown["Content-Range"] = f"bytes 0-{size - 1}/{size}"
    return 206

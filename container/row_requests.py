# SPDX-License-Identifier: Apache-2.0
"""Object rows in requests: PUT and DELETE of one row, UPDATE with a list of rows."""

from __future__ import annotations

import json
from typing import Any

from container.record import InvalidRecord, Record, parse_record
from martlet.http.request import Request
from martlet.http.response import http_error
from martlet.words.names import wsgi_to_str


def row_of_put(req: Request, name: str, policy_index: int) -> Record:
    """The row that a PUT of an object writes.

    :raises HTTPException: 400 if a header is missing or malformed.
    """
    headers = req.headers
    try:
        row = {
            "name": name,
            "created_at": req.timestamp.internal,
            "size": int(headers["x-size"]),
            "content_type": wsgi_to_str(headers["x-content-type"]),
            "etag": wsgi_to_str(headers["x-etag"]),
            "storage_policy_index": policy_index,
            "ctype_timestamp": headers.get("x-content-type-timestamp"),
            "meta_timestamp": headers.get("x-meta-timestamp"),
            "version_id": headers.get("x-backend-version-id"),
        }
    except KeyError as error:
        raise http_error(400, f"Missing header {error}") from None
    except ValueError as error:
        raise http_error(400, f"Bad header: {error}") from None
    return _record(row)


def row_of_delete(req: Request, name: str, policy_index: int) -> Record:
    """The tombstone that a DELETE of an object writes.

    :raises HTTPException: 400 if a header is malformed.
    """
    return _record(
        {
            "name": name,
            "created_at": req.timestamp.internal,
            "size": 0,
            "content_type": "application/deleted",
            "etag": "noetag",
            "deleted": 1,
            "storage_policy_index": policy_index,
            "version_id": req.headers.get("x-backend-version-id"),
        }
    )


def rows_of_update(req: Request, bytes_max: int) -> list[Record]:
    """The rows in the body of an UPDATE, a JSON list.

    :raises HTTPException: 400 if the body is not such a list, 413 if it is above ``bytes_max``.
    """
    length = req.content_length
    if length is None or length <= bytes_max:
        body = req.body_file.read(bytes_max + 1 if length is None else length)
    if (length or len(body)) > bytes_max:
        raise http_error(413, f"An UPDATE may have {bytes_max} bytes")
    if length is not None and len(body) < length:
        raise http_error(400, "The body is shorter than its Content-Length")
    try:
        items = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise http_error(400, f"The body is not JSON: {error}") from None
    if not isinstance(items, list):
        raise http_error(400, "The body is not a list of rows")
    return [_record(item) for item in items]


def _record(item: Any) -> Record:
    try:
        return parse_record(item)
    except InvalidRecord as error:
        raise http_error(400, str(error)) from None

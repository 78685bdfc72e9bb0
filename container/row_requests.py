# SPDX-License-Identifier: Apache-2.0
"""Object rows in requests: PUT and DELETE of one row, UPDATE with a list of rows."""

from __future__ import annotations

from typing import Any

from container.record import InvalidRecord, Record, parse_record
from martlet.http.request import Request
from martlet.http.response import http_error
from martlet.words.names import wsgi_to_str
from storage.json_body import json_list


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
    return [_record(item) for item in json_list(req, bytes_max)]


def _record(item: Any) -> Record:
    try:
        return parse_record(item)
    except InvalidRecord as error:
        raise http_error(400, str(error)) from None

# SPDX-License-Identifier: Apache-2.0
"""Object rows in requests: PUT and DELETE of one row, UPDATE with a list of rows.

GET with the record type ``version`` returns the rows of one name's versions, as for an UPDATE.
"""

from __future__ import annotations

import json
from typing import Any

from container.database import ContainerDatabase
from container.misplaced_rows import versions_of_name
from container.record import InvalidRecord, Record, parse_record
from container.state_headers import state_headers
from martlet.http.request import Request
from martlet.http.response import Response, http_error
from martlet.words.names import wsgi_to_str
from storage.json_body import json_list
from storage.storage_server import listing_response

#: Most rows of versions that one request may ask for.
_LIMIT_MAX = 10_000


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


def version_rows(req: Request, database: ContainerDatabase, policy_index: int | None) -> Response:
    """Answer 200 with the rows, in a policy, of the versions of the name that the request names.

    The answer is null if the name has no versions, in any policy. A deleted container answers, too.

    Without the parameter ``limit`` the answer has all rows. With it, a header tells whether and
    where the next page begins.

    :raises HTTPException: 400 if the request names no object, or no policy, or the limit is none.
    :raises DatabaseError: as for every read.
    """
    name = req.params.get("name", "")
    if not name or policy_index is None:
        raise http_error(400, "Rows of versions are those of a name and a storage policy")
    info = database.info()
    limit = req.params.get("limit", "")
    if limit and not (limit.isascii() and limit.isdigit() and 0 < int(limit) <= _LIMIT_MAX):
        raise http_error(400, f"The limit must be a number from 1 to {_LIMIT_MAX}")
    marker = req.params.get("marker", "")
    page = versions_of_name(database, name, policy_index, marker, int(limit or -1))
    headers = state_headers(info)
    if page is not None and page.after is not None:
        headers.append(("X-Backend-Next-Version", page.after))
    body = json.dumps(None if page is None else [row._asdict() for row in page.rows]).encode()
    return listing_response(headers, body, "application/json")

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

    :raises HTTPException: 400 if the request names no object, or no policy.
    :raises DatabaseError: as for every read.
    """
    name = req.params.get("name", "")
    if not name or policy_index is None:
        raise http_error(400, "Rows of versions are those of a name and a storage policy")
    info = database.info()
    rows = versions_of_name(database, name, policy_index)
    body = json.dumps(None if rows is None else [row._asdict() for row in rows]).encode()
    return listing_response(state_headers(info), body, "application/json")

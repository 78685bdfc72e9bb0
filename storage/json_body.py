# SPDX-License-Identifier: Apache-2.0
"""The JSON list in the body of a request."""

from __future__ import annotations

import json
from typing import Any

from martlet.http.request import Request
from martlet.http.response import http_error


def json_list(req: Request, bytes_max: int) -> list[Any]:
    """The list in the body of a request.

    :raises HTTPException: 400 if the body is not such a list, 413 if it is above ``bytes_max``.
    """
    length = req.content_length
    if length is None or length <= bytes_max:
        body = req.body_file.read(bytes_max + 1 if length is None else length)
    if (length or len(body)) > bytes_max:
        raise http_error(413, f"The body may have {bytes_max} bytes")
    if length is not None and len(body) < length:
        raise http_error(400, "The body is shorter than its Content-Length")
    try:
        items = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise http_error(400, f"The body is not JSON: {error}") from None
    if not isinstance(items, list):
        raise http_error(400, "The body is not a list")
    return items

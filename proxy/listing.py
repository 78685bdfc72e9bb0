# SPDX-License-Identifier: Apache-2.0
"""The check of a listing's parameters, before they go to a storage server."""

from __future__ import annotations

from urllib.parse import urlencode

from martlet.http.request import Request
from martlet.http.response import http_error
from martlet.words.names import BadNameError


def json_query(req: Request, limit_max: int) -> str:
    """The query for the storage server, with its question mark. It always asks for JSON.

    A marker may contain a NUL: ``name + NUL`` comes directly after ``name``.

    :raises HTTPException: (400) a parameter that is not UTF-8; (412) a limit above ``limit_max``.
    """
    try:
        params = dict(req.params)
    except BadNameError as error:
        raise http_error(400, f"A parameter is not valid UTF-8: {error}") from None
    limit = params.get("limit", "")
    # int() refuses very long texts. Leading zeros are allowed.
    if limit.isascii() and limit.isdigit() and (len(limit) > 18 or int(limit) > limit_max):
        raise http_error(412, f"Maximum limit is {limit_max}")
    params["format"] = "json"
    return f"?{urlencode(params)}"

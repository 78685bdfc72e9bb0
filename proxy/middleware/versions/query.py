# SPDX-License-Identifier: Apache-2.0
"""The query parameters of object versioning."""

from __future__ import annotations

from typing import NamedTuple

from martlet.http.environ import LISTING_IS_JSON, Environ
from martlet.http.listing import JSON, accepts
from martlet.http.request import Request
from martlet.http.response import http_error
from martlet.words.timestamp import Timestamp
from proxy.replicas.versions import NULL


class RequestedObject(NamedTuple):
    """The object of a request: its account and container as text, and ``version_parameter``."""

    account: str
    container: str
    version: str


def version_parameter(environ: Environ) -> str:
    """The version id in the query, in the form in which it is stored; "" if the query has none.

    :raises HTTPException: 400 if it is malformed, or the query is not UTF-8.
    """
    if not environ.get("QUERY_STRING"):
        return ""
    try:
        text = Request(environ).params.get("version-id", "")
        if text in ("", NULL) or environ["REQUEST_METHOD"] == "POST":
            return text
        return Timestamp(text).internal
    except ValueError:
        raise http_error(400, "Invalid version parameter") from None


def check_listing(environ: Environ) -> None:
    """Check a listing, and make one of versions JSON, its only format.

    :raises HTTPException: 400 for a bad version_marker, 406 if another format is wanted.
    """
    request = Request(environ)
    params = request.params
    if "versions" not in params:
        return
    wanted = params.get("format")
    accept = None if wanted else request.headers.get("Accept")
    if (wanted and wanted.lower() != "json") or not accepts(JSON, accept):
        raise http_error(406, "A listing of versions is in application/json.")
    marker = params.get("version_marker")
    if marker is not None:
        if "marker" not in params:
            raise http_error(400, "version_marker param requires marker")
        try:
            if marker != NULL:
                Timestamp(marker)
        except ValueError:
            raise http_error(400, "invalid version_marker param") from None
    environ[LISTING_IS_JSON] = True

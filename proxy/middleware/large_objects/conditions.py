# SPDX-License-Identifier: Apache-2.0
"""If-Match and the other conditions, for an ETag that a filter computed.

werkzeug.http.is_resource_modified decides 3 of our 15 test requests unlike Swift (``If-Match: *``,
If-Unmodified-Since) and takes 6 to 7 us in place of 3.5 to 4.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime

from martlet.http.environ import Environ

CONDITIONS = (
    "HTTP_IF_MATCH",
    "HTTP_IF_NONE_MATCH",
    "HTTP_IF_MODIFIED_SINCE",
    "HTTP_IF_UNMODIFIED_SINCE",
)


def condition_status(environ: Environ, etag: str, last_modified: str | None) -> int:
    """304 or 412 if a condition of a GET or HEAD is not met, else 0.

    ``etag`` may have its quotes; ``last_modified`` is an HTTP date.
    """
    none_match, match = environ.get("HTTP_IF_NONE_MATCH"), environ.get("HTTP_IF_MATCH")
    if none_match and _is_among(etag, none_match):
        return 304
    if match and not _is_among(etag, match):
        return 412
    modified = _seconds(last_modified)
    if modified is None:
        return 0
    since = _seconds(environ.get("HTTP_IF_MODIFIED_SINCE"))
    if since is not None and modified <= since:
        return 304
    unchanged_since = _seconds(environ.get("HTTP_IF_UNMODIFIED_SINCE"))
    if unchanged_since is not None and modified > unchanged_since:
        return 412
    return 0


def _is_among(etag: str, header: str) -> bool:
    tags = {tag.strip().strip('"') for tag in header.split(",")}
    return "*" in tags or etag.strip('"') in tags


def _seconds(http_date: str | None) -> float | None:
    if not http_date:
        return None
    try:
        return parsedate_to_datetime(http_date).timestamp()
    except (ValueError, OverflowError):
        return None  # a malformed date sets no condition

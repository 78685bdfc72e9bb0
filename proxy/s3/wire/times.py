# SPDX-License-Identifier: Apache-2.0
"""Times as requests state them and as answers show them; all are UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache

#: The sentence about a request without a time.
NO_DATE = "AWS authentication requires a valid Date or x-amz-date header"
_AMZ = re.compile(r"(\d{8})T(\d{6})Z", re.ASCII)


@lru_cache(1024)  # bounded: clients choose the texts; many requests of a second have the same
def parse_amz_date(text: str) -> float | None:
    """Seconds since 1970 of ``20150830T123600Z``; None if it is malformed."""
    if not _AMZ.fullmatch(text):
        return None
    try:
        return datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def parse_http_date(text: str) -> float | None:
    """Seconds since 1970 of an HTTP date; None if it is malformed."""
    try:
        found = parsedate_to_datetime(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def amz_date(seconds: float) -> str:
    """``20150830T123600Z``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%dT%H%M%SZ")


def xml_time(seconds: float) -> str:
    """``2015-08-30T12:36:00.000Z``."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def xml_time_of_row(last_modified: str) -> str:
    """The same for the time of a listing's row, ``2015-08-30T12:36:00.123450``.

    It is rounded up to seconds, as the Last-Modified header of the object is.
    """
    second, _, fraction = last_modified.partition(".")
    return _end_of(second, bool(fraction.strip("0"))) or last_modified


@lru_cache(1024)  # bounded; neighbours in a listing were often written in the same second
def _end_of(second: str, is_within: bool) -> str:
    """The time of a second or, within it, of the next one; empty if it is none."""
    try:
        moment = datetime.fromisoformat(second).replace(tzinfo=UTC)
    except ValueError:
        return ""
    return xml_time(moment.timestamp() + is_within)

# SPDX-License-Identifier: Apache-2.0
"""X-Delete-At and X-Delete-After of a client's request."""

from __future__ import annotations

from martlet.http.request import Request
from martlet.http.response import http_error

# Ten digits, like the names in the expirer's queue.
DELETE_AT_MAX = 9_999_999_999


def delete_at(req: Request) -> int | None:
    """The time to delete the object, Unix seconds; X-Delete-After overrides X-Delete-At.

    :raises HTTPException: (400) not a whole number, or not in the future.
    """
    after = req.headers.get("X-Delete-After")
    at = req.headers.get("X-Delete-At")
    if after is None and at is None:
        return None
    now = float(req.timestamp)
    if after is not None:
        moment = int(now + _whole_number("X-Delete-After", after))
        return _in_future("X-Delete-After", moment, now)
    return _in_future("X-Delete-At", _whole_number("X-Delete-At", at), now)


def _whole_number(name: str, text: str) -> int:
    digits = text.strip()
    if not digits.removeprefix("-").isdigit() or not digits.isascii():
        raise http_error(400, f"Non-integer {name}")
    # A number with more digits is above DELETE_AT_MAX; int() refuses very long texts.
    return int(digits[:20])


def _in_future(name: str, moment: int, now: float) -> int:
    moment = min(moment, DELETE_AT_MAX)
    if moment <= now:
        raise http_error(400, f"{name} in past")
    return moment

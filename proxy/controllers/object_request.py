# SPDX-License-Identifier: Apache-2.0
"""A client's request about an object: its checks, and the headers that it gives object servers."""

from __future__ import annotations

import mimetypes

from martlet.conf.constraints import ConstraintError, Constraints
from martlet.conf.options import is_true
from martlet.http.environ import TELL_POLICY
from martlet.http.request import Request
from martlet.http.response import http_error
from proxy.headers import object_headers
from proxy.lookup.info import Info
from proxy.replicas.versions import VersionRequest

# Ten digits, like the names in the expirer's queue.
DELETE_AT_MAX = 9_999_999_999


def policy_index(req: Request, info: Info) -> int:
    """The storage policy of the object, which is usually that of its container.

    Our own tools may name another one. The gatekeeper removes this header from requests of clients.
    The counts of requests get the policy, too.
    """
    named = req.headers.get("X-Backend-Storage-Policy-Index", "")
    index: int = int(named) if named.isdigit() else info["storage_policy"]
    tell_policy = req.environ.get(TELL_POLICY)
    if tell_policy is not None:
        tell_policy(str(index))
    return index


def check_body_length(req: Request, limits: Constraints) -> None:
    """Check the length of the body of a PUT, if the request tells it.

    :raises HTTPException: 400, 411 or 413.
    """
    if req.is_chunked:
        return
    length = req.content_length
    if length is None:
        raise http_error(411, "Missing Content-Length header.")
    if length > limits.max_file_size:
        raise http_error(413, "The object is too large for one PUT.")


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


def request_headers(req: Request, version: VersionRequest) -> dict[str, str]:
    """The headers of every request to the object servers, by wire name."""
    return {**object_headers(req), **version.headers}


def read_headers(
    req: Request, version: VersionRequest, *, allow_open_expired: bool
) -> dict[str, str]:
    """The headers of a GET or HEAD.

    :param allow_open_expired: the client may ask for an expired object.
    """
    headers = request_headers(req, version)
    if allow_open_expired and is_true(req.headers.get("X-Open-Expired")):
        headers["X-Backend-Open-Expired"] = "true"
    return headers


def put_headers(
    req: Request, version: VersionRequest, name: str, limits: Constraints
) -> dict[str, str]:
    """The headers of a PUT of the object ``name``.

    :raises HTTPException: 400 or 412.
    """
    content_type = _content_type(req, name)
    headers = request_headers(req, version)
    headers["Content-Type"] = content_type
    _check_limits(name, headers, limits)
    return headers


def post_headers(
    req: Request,
    version: VersionRequest,
    name: str,
    limits: Constraints,
    *,
    allow_open_expired: bool,
) -> dict[str, str]:
    """The headers of a POST to the object ``name``.

    :raises HTTPException: 400 or 412.
    """
    headers = read_headers(req, version, allow_open_expired=allow_open_expired)
    if content_type := req.environ.get("CONTENT_TYPE"):
        headers["Content-Type"] = content_type
    _check_limits(name, headers, limits)
    return headers


def _check_limits(name: str, headers: dict[str, str], limits: Constraints) -> None:
    try:
        limits.check_object_name(name)
        limits.check_metadata("object", headers.items())
    except ConstraintError as error:
        raise http_error(error.status, str(error)) from None


def _content_type(req: Request, name: str) -> str:
    given: str = req.environ.get("CONTENT_TYPE") or ""
    if not given or is_true(req.headers.get("X-Detect-Content-Type")):
        guessed = mimetypes.guess_type(name)[0] if _may_have_type(name) else None
        return guessed or "application/octet-stream"
    if not given.isascii():
        try:
            given.encode("latin-1").decode("utf-8")
        except UnicodeError:
            raise http_error(400, "Invalid Content-Type") from None
    return given


def _may_have_type(name: str) -> bool:
    """Whether the type may be guessed from the name: it has a suffix, or looks like a URL."""
    return "." in name or ":" in name


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

# SPDX-License-Identifier: Apache-2.0
"""Conditions of writes and deletes: If-Match and If-None-Match.

The ETag for S3 is known in the proxy alone: parts, encryption and large objects have others on
disk. So the proxy compares ETags, and makes the write depend on the timestamp of what it has seen.
The object servers compare that timestamp. Of two writes at once, one is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote

from martlet.http.headers import Headers
from proxy.headers import IF_TIMESTAMP
from proxy.middleware.subrequest import Answered
from proxy.s3.call import Call
from proxy.s3.object_headers import s3_etag
from proxy.s3.wire.errors import S3Error

_IF_TIMESTAMP = IF_TIMESTAMP.lower()
_NOT_SUPPORTED = (
    "if-modified-since",
    "if-unmodified-since",
    "x-amz-if-match-last-modified-time",
    "x-amz-if-match-size",
    "x-amz-if-match-initiated-time",
)


class Condition(NamedTuple):
    """The condition of a request, empty strings without one."""

    if_match: str = ""
    if_none_match: str = ""

    def headers_for(self, call: Call, key: str) -> dict[str, str]:
        """The headers that make a write to the pipeline depend on what is stored now.

        :raises S3Error: the condition does not hold.
        """
        if self == _NONE:
            return {}
        if not self.if_match and self.if_none_match == "*":
            return {"if-none-match": "*"}
        found = call.ask("HEAD", call.bucket, key, headers={"x-newest": "true"}, allowed=(404,))
        if found.status == 404:
            if self.if_match:
                call.info(call.bucket)
                raise S3Error("NoSuchKey", fields={"Key": key})
            return {"if-none-match": "*"}
        self.check(found.headers)
        since = found.headers.get("x-backend-data-timestamp")
        location = found.headers.get("content-location", "").partition("?")[0]
        is_link = unquote(location, encoding="latin-1") not in ("", call.path(call.bucket, key))
        if since is None or is_link:
            raise S3Error("NotImplemented", "Conditions on symbolic links are not implemented.")
        return {_IF_TIMESTAMP: since}

    def check(self, stored: Headers) -> None:
        """:raises S3Error: the object with these headers does not fulfil the condition."""
        etag = s3_etag(stored)
        if self.if_match and not _is_among(etag, self.if_match):
            raise S3Error("PreconditionFailed", fields={"Condition": "If-Match"})
        if self.if_none_match and _is_among(etag, self.if_none_match):
            raise S3Error("PreconditionFailed", fields={"Condition": "If-None-Match"})


_NONE = Condition()


def condition_of(call: Call) -> Condition:
    """The condition of a write or delete.

    :raises S3Error: it has another one than ETags.
    """
    if any(name in call.headers for name in _NOT_SUPPORTED):
        raise S3Error("NotImplemented", "Conditions of writes are If-Match and If-None-Match.")
    return Condition(
        call.headers.get("if-match", "").strip(), call.headers.get("if-none-match", "").strip()
    )


def check_done(answer: Answered, headers: Mapping[str, str]) -> None:
    """Check the answer to a write of an object.

    :param headers: of the write, with those of ``Condition.headers_for``.
    :raises S3Error: another write came at the same time, or an object exists.
    """
    if answer.status == 412 and "if-none-match" in headers:
        raise S3Error("PreconditionFailed", fields={"Condition": "If-None-Match"})
    if is_conditional(headers) and answer.status in (202, 409, 412):
        raise S3Error("ConditionalRequestConflict")
    if answer.status == 202:
        raise S3Error("ServiceUnavailable", "A newer object was written meanwhile. Try again.")


def is_conditional(headers: Mapping[str, str]) -> bool:
    """Whether a write with these headers depends on what is stored."""
    return _IF_TIMESTAMP in headers or "if-none-match" in headers


def _is_among(etag: str, stated: str) -> bool:
    return any(part.strip().strip('"') in (etag, "*") for part in stated.split(","))

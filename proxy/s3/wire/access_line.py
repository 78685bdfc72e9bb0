# SPDX-License-Identifier: Apache-2.0
"""A line of a server access log, in the format that Amazon S3 documents."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import quote

#: Sub-resource -> its name in operations, where it is not the sub-resource in capitals.
_RESOURCES = {
    "acl": "ACL",
    "delete": "MULTI_OBJECT_DELETE",
    "encryption": "ENCRYPTION",
    "legal-hold": "OBJECT_LOCK_LEGALHOLD",
    "logging": "LOGGING_STATUS",
    "object-lock": "OBJECT_LOCK_CONFIGURATION",
    "ownershipControls": "OWNERSHIP_CONTROLS",
    "policy": "BUCKETPOLICY",
    "policyStatus": "BUCKETPOLICYSTATUS",
    "publicAccessBlock": "PUBLIC_ACCESS_BLOCK",
    "requestPayment": "REQUEST_PAYMENT",
    "retention": "OBJECT_LOCK_RETENTION",
    "uploadId": "UPLOAD",
    "versions": "BUCKETVERSIONS",
}


class Access(NamedTuple):
    """A request and its answer; text. An empty text, None and 0 seconds are unknown.

    :param received: seconds since 1970.
    :param seconds: from the head of the request to the end of the answer.
    :param turn_around: seconds to the head of the answer.
    """

    owner: str
    bucket: str
    received: float
    address: str
    requester: str
    request_id: str
    operation: str
    key: str
    request_line: str
    status: int
    error_code: str
    bytes_sent: int
    object_size: int | None
    seconds: float
    turn_around: float
    referer: str
    user_agent: str
    version: str
    signature_version: str
    authentication: str
    host: str


def operation_name(method: str, subresource: str, has_key: bool, is_copy: bool) -> str:
    """The name of an operation, e.g. ``REST.GET.OBJECT``."""
    if is_copy:
        return "REST.COPY.PART" if subresource == "uploadId" else "REST.COPY.OBJECT"
    if not subresource:
        return f"REST.{method}.{'OBJECT' if has_key else 'BUCKET'}"
    if subresource == "uploadId" and method == "PUT":
        return "REST.PUT.PART"
    if subresource == "tagging":
        return f"REST.{method}.{'OBJECT' if has_key else 'BUCKET'}_TAGGING"
    return f"REST.{method}.{_RESOURCES.get(subresource, subresource.upper())}"


def line_of(access: Access) -> str:
    """The line, without its end. Texts of clients cannot break out of their fields."""
    at = datetime.fromtimestamp(access.received, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
    fields = [
        _word(access.owner),
        _word(access.bucket),
        f"[{at}]",
        _word(access.address),
        _word(access.requester),
        _word(access.request_id),
        access.operation,
        _word(quote(access.key, safe="/")),
        _quoted(access.request_line),
        str(access.status),
        _word(access.error_code),
        str(access.bytes_sent) if access.bytes_sent else "-",
        "-" if access.object_size is None else str(access.object_size),
        str(round(access.seconds * 1000)),
        str(round(access.turn_around * 1000)),
        _quoted(access.referer),
        _quoted(access.user_agent),
        _word(access.version),
        _word(access.request_id),
        _word(access.signature_version),
        "-",  # the cipher suite: TLS ends before the proxy
        _word(access.authentication),
        _word(access.host),
        "-",  # the version of TLS
        "-",  # the access point
        "-",  # whether an ACL was needed
    ]
    return " ".join(fields)


def _word(text: str) -> str:
    return quote(text, safe="!#$&'()*+,-./:;<=>?@[]^_`{|}~%") or "-"


def _quoted(text: str) -> str:
    return f'"{quote(text, safe=_SAFE_IN_QUOTES)}"' if text else '"-"'


_SAFE_IN_QUOTES = " !#$%&'()*+,-./:;<=>?@[]^_`{|}~"

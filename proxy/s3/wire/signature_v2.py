# SPDX-License-Identifier: Apache-2.0
"""Signature version 2: HMAC-SHA1 over method, a few headers and the resource. Old clients use it.

It does not cover the body, except by Content-MD5.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

from proxy.s3.wire.credentials import Claim, Message
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.times import NO_DATE, amz_date, parse_amz_date, parse_http_date

_SCHEME = "AWS "
_SECONDS_MAX = 2**31 - 1
#: The parameters that are part of the signed resource.
_SIGNED = frozenset(
    [
        "accelerate",
        "acl",
        "analytics",
        "cors",
        "defaultObjectAcl",
        "delete",
        "encryption",
        "inventory",
        "legal-hold",
        "lifecycle",
        "location",
        "logging",
        "metrics",
        "notification",
        "object-lock",
        "partNumber",
        "policy",
        "replication",
        "requestPayment",
        "restore",
        "retention",
        "tagging",
        "torrent",
        "uploadId",
        "uploads",
        "versionId",
        "versioning",
        "versions",
        "website",
        "response-cache-control",
        "response-content-disposition",
        "response-content-encoding",
        "response-content-language",
        "response-content-type",
        "response-expires",
    ]
)


def is_header_v2(authorization: str) -> bool:
    """Whether an Authorization header is of this version."""
    return authorization.startswith(_SCHEME)


def is_query_v2(message: Message) -> bool:
    """Whether the query has a signature of this version."""
    names = {name for name, _ in message.query}
    return "AWSAccessKeyId" in names and "Signature" in names


def claim_of_header_v2(message: Message, now: float, skew_max: int) -> Claim:
    """The claim of a request with an Authorization header.

    :raises S3Error: the header is malformed, or the time is wrong.
    """
    text = message.headers.get("authorization", "").removeprefix(_SCHEME)
    access_key, colon, signature = text.strip().rpartition(":")
    if not colon or not access_key:
        raise S3Error("InvalidArgument", 'The Authorization header needs "AWS key:signature".')
    stated = message.headers.get("x-amz-date") or message.headers.get("date", "")
    seconds = parse_http_date(stated)
    if seconds is None:
        seconds = parse_amz_date(stated)
    if seconds is None:
        raise S3Error("AccessDenied", NO_DATE)
    if abs(now - seconds) > skew_max:
        fields = {
            "RequestTime": stated,
            "ServerTime": amz_date(now),
            "MaxAllowedSkewMilliseconds": str(skew_max * 1000),
        }
        raise S3Error("RequestTimeTooSkewed", fields=fields)
    date = "" if "x-amz-date" in message.headers else message.headers.get("date", "")
    return _claim(message, access_key, signature, date)


def claim_of_query_v2(message: Message, now: float) -> Claim:
    """The claim of a presigned URL.

    :raises S3Error: a parameter is missing or malformed, or the URL has expired.
    """
    access_key = message.parameter("AWSAccessKeyId") or ""
    signature, expires = message.parameter("Signature") or "", message.parameter("Expires")
    if not access_key or not signature or expires is None:
        text = "A signed URL needs the parameters Signature, Expires and AWSAccessKeyId."
        raise S3Error("AccessDenied", text)
    if not (expires.isascii() and expires.isdigit()) or int(expires[:20]) > _SECONDS_MAX:
        raise S3Error("AccessDenied", f"Invalid date (should be seconds since epoch): {expires}")
    if now > int(expires):
        fields = {"Expires": amz_date(int(expires))}
        raise S3Error("AccessDenied", "Request has expired", fields=fields)
    return _claim(message, access_key, signature, expires, is_presigned=True)


def _claim(
    message: Message, access_key: str, signature: str, date: str, *, is_presigned: bool = False
) -> Claim:
    text = string_to_sign_v2(message, date)
    other = b""
    if message.resource.count("/") == 1 and message.resource != "/":
        # Some clients sign /bucket/ for a request of /bucket.
        other = string_to_sign_v2(message._replace(resource=f"{message.resource}/"), date)

    return Claim(
        access_key=access_key,
        signature=signature,
        string_to_sign=text,
        sign=lambda secret: _signature(secret, text),
        other_string=other,
        sign_other=lambda secret: _signature(secret, other),
        is_presigned=is_presigned,
        content_sha256=message.headers.get("x-amz-content-sha256", ""),
    )


def string_to_sign_v2(message: Message, date: str) -> bytes:
    """The text whose keyed hash is the signature."""
    headers = message.headers
    amz = sorted((n, v.strip()) for n, v in headers.items() if n.startswith("x-amz-"))
    signed = sorted((name, value) for name, value in message.query if name in _SIGNED)
    query = "&".join(f"{name}={value}" if value else name for name, value in signed)
    resource = f"{message.resource}?{query}" if query else message.resource
    lines = [
        message.method,
        headers.get("content-md5", ""),
        headers.get("content-type", ""),
        date,
        *(f"{name}:{value}" for name, value in amz),
        resource,
    ]
    return "\n".join(lines).encode("latin-1", "replace")


def claim_of_policy_v2(policy: str, access_key: str, signature: str) -> Claim:
    """The claim of a form whose policy, in Base64, is signed."""
    text = policy.encode("utf-8")
    return Claim(access_key, signature, text, sign=lambda secret: _signature(secret, text))


def _signature(secret: str, text: bytes) -> str:
    key = secret.encode("utf-8", "surrogatepass")
    return base64.b64encode(hmac.new(key, text, hashlib.sha1).digest()).decode("ascii")

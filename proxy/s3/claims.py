# SPDX-License-Identifier: Apache-2.0
"""Whether a request is one of the S3 API, and the signature that it claims to have."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import quote

from martlet.http.environ import UNDERSCORED_HEADERS, Environ
from martlet.words.names import str_to_wsgi
from proxy.s3.options import S3Options
from proxy.s3.wire.addressing import Address, bucket_in_host, is_bucket_name
from proxy.s3.wire.credentials import ANONYMOUS, Claim, Message, parse_query
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.payload import STREAMING_UNSIGNED_TRAILER
from proxy.s3.wire.signature_v2 import (
    claim_of_header_v2,
    claim_of_query_v2,
    is_header_v2,
    is_query_v2,
)
from proxy.s3.wire.signature_v4 import (
    claim_of_header,
    claim_of_query,
    is_header_v4,
    is_query_v4,
)

_MARKS = ("X-Amz-", "AWSAccessKeyId")


def is_for_s3(environ: Environ, domains: Sequence[str]) -> bool:
    """Whether the request has a signature, or a bucket in its host."""
    authorization = environ.get("HTTP_AUTHORIZATION", "")
    if authorization and (is_header_v4(authorization) or is_header_v2(authorization)):
        return True
    query = environ.get("QUERY_STRING", "")
    if query and any(mark in query for mark in _MARKS):  # nearly no request of Swift's API
        message = Message("", "", parse_query(query), {})
        if is_query_v4(message) or is_query_v2(message):
            return True
    host = environ.get("HTTP_HOST", "")
    return bool(domains) and _is_for_bucket(host, environ["PATH_INFO"], domains)


def bucket_of_path(environ: Environ) -> str:
    """The bucket that the path of an unsigned request may name, empty if it cannot be one."""
    name: str = environ["PATH_INFO"].removeprefix("/").partition("/")[0]
    has_token = environ.get("HTTP_X_AUTH_TOKEN") or environ.get("HTTP_X_STORAGE_TOKEN")
    return "" if has_token or not is_bucket_name(name, True) else name


def _is_for_bucket(host: str, path: str, domains: Sequence[str]) -> bool:
    """Whether the host names a bucket, and the path is not one of Swift's API."""
    return bool(bucket_in_host(host, domains)) and not path.startswith("/v1/")


def message_of(environ: Environ, address: Address) -> Message:
    """The request as its signature covers it."""
    headers = {
        _header_name(key): value for key, value in environ.items() if key.startswith("HTTP_")
    }
    headers |= environ.get(UNDERSCORED_HEADERS, {})
    for key in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(key):
            headers[key.replace("_", "-").lower()] = environ[key]
    path = environ["PATH_INFO"]
    is_v4 = is_header_v4(headers.get("authorization", ""))
    return Message(
        method=environ["REQUEST_METHOD"],
        path=path,
        query=parse_query(environ.get("QUERY_STRING", "")),
        headers=headers,
        resource="" if is_v4 else _resource(path, address),
    )


@lru_cache(1024)  # bounded: clients choose some of the names
def _header_name(key: str) -> str:
    """The name in lower case of the header with this key in the environ."""
    return key.removeprefix("HTTP_").replace("_", "-").lower()


def _resource(path: str, address: Address) -> str:
    """The path with the bucket, as signatures of version 2 cover it."""
    prefix = f"/{str_to_wsgi(address.bucket)}" if address.is_in_host else ""
    return quote(prefix + path, safe="/-_.~", encoding="latin-1")


def claim_of(message: Message, options: S3Options, now: float) -> Claim:
    """The claim of a request.

    :raises S3Error: it has none, or two, or a malformed or outdated one.
    """
    authorization = message.headers.get("authorization", "")
    has_header = is_header_v4(authorization) or is_header_v2(authorization)
    skew_max = options.allowable_clock_skew
    if "x-amz-security-token" in message.headers or message.parameter("X-Amz-Security-Token"):
        raise S3Error("InvalidToken")
    has_query = bool(message.query) and (is_query_v4(message) or is_query_v2(message))
    if has_header and has_query:
        text = "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, "
        text += "Signature query string parameter or the Authorization header should be specified"
        raise S3Error("InvalidArgument", text)
    if is_header_v4(authorization):
        return claim_of_header(message, options.location, now, skew_max)
    if is_header_v2(authorization):
        return claim_of_header_v2(message, now, skew_max)
    if is_query_v4(message):
        return claim_of_query(message, options.location, now, skew_max)
    if is_query_v2(message):
        return claim_of_query_v2(message, now)
    if options.bucket_namespace != "cluster":
        text = "A request without a signature does not tell the account of the bucket."
        raise S3Error("AccessDenied", text)
    return ANONYMOUS._replace(content_sha256=_unsigned_mode(message))


def _unsigned_mode(message: Message) -> str:
    """Whether the body of a request without a signature is in chunks."""
    mode = message.headers.get("x-amz-content-sha256", "")
    return mode if mode == STREAMING_UNSIGNED_TRAILER else ""

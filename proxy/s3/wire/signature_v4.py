# SPDX-License-Identifier: Apache-2.0
"""Signature version 4: a keyed hash over a canonical form of the request.

The parts are those that Amazon documents: canonical request, string to sign, signing key. The
signature is in the Authorization header, or in the query of a presigned URL.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote

from proxy.s3.wire.credentials import Chunks, Claim, Message
from proxy.s3.wire.errors import S3Error, invalid_argument
from proxy.s3.wire.times import NO_DATE, amz_date, parse_amz_date, parse_http_date

ALGORITHM = "AWS4-HMAC-SHA256"
UNSIGNED = "UNSIGNED-PAYLOAD"
_TERMINATOR = "aws4_request"
_EXPIRES_SECONDS_MAX = 7 * 86400
_SAFE = "-_.~"
_SIGNATURE = "X-Amz-Signature"
_REQUIRED = ("Credential", "Date", "Expires", "SignedHeaders", "Signature")
_HEX = re.compile(r"[0-9a-f]{64}", re.ASCII)
#: A longer part of an Authorization header is not kept.
_KNOWN_CHARACTERS_MAX = 512
_SHA256 = hashlib.sha256()
_SPACES = re.compile(" +")
#: What `quote` leaves as it is.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/_.~-]+")


class Scope(NamedTuple):
    """The scope of a signing key."""

    access_key: str
    date: str
    region: str
    service: str

    def __str__(self) -> str:
        return f"{self.date}/{self.region}/{self.service}/{_TERMINATOR}"


class Stated(NamedTuple):
    """The parts of an Authorization header, or of the query of a presigned URL."""

    scope: Scope
    signed_headers: tuple[str, ...]
    signature: str


def is_header_v4(authorization: str) -> bool:
    """Whether an Authorization header is of this version."""
    return authorization.startswith(ALGORITHM)


def is_query_v4(message: Message) -> bool:
    """Whether the query has a signature of this version."""
    names = {name for name, _ in message.query}
    return "X-Amz-Algorithm" in names or "X-Amz-Credential" in names


def claim_of_header(message: Message, region: str, now: float, skew_max: int) -> Claim:
    """The claim of a request with an Authorization header.

    :param skew_max: seconds by which the time of the request may differ from ``now``.
    :raises S3Error: the header is malformed, or the time or the region is wrong.
    """
    stated = parse_authorization(message.headers.get("authorization", ""))
    _check_scope(stated.scope, region, "AuthorizationHeaderMalformed")
    timestamp = _time_of_headers(message)
    seconds = parse_amz_date(timestamp) or 0.0
    if abs(now - seconds) > skew_max:
        raise _skewed(timestamp, now, skew_max)
    if stated.scope.date != timestamp[:8]:
        raise S3Error(
            "AuthorizationHeaderMalformed",
            f"The date of the credential, {stated.scope.date}, is not that of the request.",
        )
    payload = message.headers.get("x-amz-content-sha256")
    if payload is None:
        raise S3Error("InvalidRequest", "Missing required header for this request: "
                      "x-amz-content-sha256")  # fmt: skip
    _check_signed(message, stated.signed_headers)
    return _claim(message, stated, timestamp, payload, message.query)


def claim_of_query(message: Message, region: str, now: float, skew_max: int) -> Claim:
    """The claim of a presigned URL.

    :raises S3Error: a parameter is missing or malformed, or the URL is not valid yet or any more.
    """
    values = {name: message.parameter(f"X-Amz-{name}") for name in _REQUIRED}
    if message.parameter("X-Amz-Algorithm") != ALGORITHM:
        text = f"X-Amz-Algorithm only supports {ALGORITHM}"
        raise S3Error("AuthorizationQueryParametersError", text)
    if not all(values.values()):
        names = ", ".join(f"X-Amz-{name}" for name in ("Algorithm", *_REQUIRED))
        text = f"Query-string authentication version 4 requires the parameters {names}."
        raise S3Error("AuthorizationQueryParametersError", text)
    scope = _parse_scope(values["Credential"] or "", "AuthorizationQueryParametersError")
    _check_scope(scope, region, "AuthorizationQueryParametersError")
    timestamp = values["Date"] or ""
    _check_expiry(timestamp, values["Expires"] or "", now, skew_max)
    if scope.date != timestamp[:8]:
        text = f"The date of the credential, {scope.date}, is not that of X-Amz-Date."
        raise S3Error("AuthorizationQueryParametersError", text)
    names_signed = tuple((values["SignedHeaders"] or "").split(";"))
    stated = Stated(scope, names_signed, values["Signature"] or "")
    _check_signed(message, stated.signed_headers, unless=("x-amz-content-sha256",))
    payload = (
        message.headers.get("x-amz-content-sha256")
        if "x-amz-content-sha256" in stated.signed_headers
        else message.parameter("X-Amz-Content-Sha256")
    ) or UNSIGNED
    query = [pair for pair in message.query if pair[0] != _SIGNATURE]
    return _claim(message, stated, timestamp, payload, query, is_presigned=True)


def parse_authorization(header: str) -> Stated:
    """:raises S3Error: the header is not of the form that Amazon documents."""
    # Nearly all clients send the signature last. What precedes it is the same for a day.
    rest, _, last = header.rpartition(",")
    name, equals, signature = last.strip().partition("=")
    if name != "Signature" or not equals or not 0 < len(rest) <= _KNOWN_CHARACTERS_MAX:
        return _parse_fields(header)
    scope, signed_headers, _ = _known_fields(f"{rest},Signature=")
    return Stated(scope, signed_headers, signature)


def _parse_fields(header: str) -> Stated:
    fields = {}
    for part in header.removeprefix(ALGORITHM).split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or name in fields:
            raise S3Error("AuthorizationHeaderMalformed")
        fields[name] = value
    if fields.keys() != {"Credential", "SignedHeaders", "Signature"}:
        text = "The Authorization header needs Credential, SignedHeaders and Signature."
        raise S3Error("AuthorizationHeaderMalformed", text)
    scope = _parse_scope(fields["Credential"], "AuthorizationHeaderMalformed")
    return Stated(scope, tuple(fields["SignedHeaders"].split(";")), fields["Signature"])


_known_fields = lru_cache(1024)(_parse_fields)  # bounded: clients choose the texts


def _parse_scope(text: str, code: str) -> Scope:
    parts = text.rsplit("/", 4)
    if len(parts) != 5 or not parts[0]:
        text = 'The credential is malformed; expected "<access key>/YYYYMMDD/REGION/SERVICE/'
        raise S3Error(code, f'{text}{_TERMINATOR}".')
    access_key, date, region, service, terminator = parts
    if terminator != _TERMINATOR or service != "s3":
        raise S3Error(code, f'The credential must end with "/s3/{_TERMINATOR}".')
    return Scope(access_key, date, region, service)


def _check_scope(scope: Scope, region: str, code: str) -> None:
    if scope.region.lower() != region.lower():
        text = f"The region '{scope.region}' is wrong; expecting '{region}'"
        raise S3Error(code, text, fields={"Region": region})


def _time_of_headers(message: Message) -> str:
    """The time of a request as ``20150830T123600Z``.

    :raises S3Error: the request has no valid time.
    """
    stated = message.headers.get("x-amz-date")
    if stated is not None:
        if parse_amz_date(stated) is not None:
            return stated
        seconds = parse_http_date(stated)
    else:
        seconds = parse_http_date(message.headers.get("date", ""))
    if seconds is None:
        raise S3Error("AccessDenied", NO_DATE)
    return amz_date(seconds)


def _check_expiry(timestamp: str, expires: str, now: float, skew_max: int) -> None:
    start = parse_amz_date(timestamp)
    code = "AuthorizationQueryParametersError"
    if start is None:
        raise S3Error(code, 'X-Amz-Date must have the form "yyyyMMddTHHmmssZ"')
    if not re.fullmatch(r"-?[0-9]{1,20}", expires) or int(expires) >= 2**63:
        raise S3Error(code, "X-Amz-Expires should be a number")
    if int(expires) < 0:
        raise S3Error(code, "X-Amz-Expires must be non-negative")
    if int(expires) > _EXPIRES_SECONDS_MAX:
        text = "X-Amz-Expires must be less than a week (in seconds); "
        raise S3Error(code, f"{text}that is, the given X-Amz-Expires must be less than "
                      f"{_EXPIRES_SECONDS_MAX} seconds")  # fmt: skip
    if start > now + skew_max:
        raise S3Error("AccessDenied", "Request is not yet valid")
    if now > start + int(expires):
        fields = {"X-Amz-Expires": expires, "ServerTime": amz_date(now)}
        raise S3Error("AccessDenied", "Request has expired", fields=fields)


def _skewed(timestamp: str, now: float, skew_max: int) -> S3Error:
    fields = {
        "RequestTime": timestamp,
        "ServerTime": amz_date(now),
        "MaxAllowedSkewMilliseconds": str(skew_max * 1000),
    }
    return S3Error("RequestTimeTooSkewed", fields=fields)


def _check_signed(message: Message, signed: Iterable[str], unless: Iterable[str] = ()) -> None:
    """:raises S3Error: a header that must be covered is not."""
    must = {"host", *[name for name in message.headers if name.startswith("x-amz-")]}
    if missing := sorted(must.difference(signed, unless)):
        text = "There were headers present in the request which were not signed"
        raise S3Error("AccessDenied", text, fields={"HeadersNotSigned": ", ".join(missing)})


def _claim(
    message: Message,
    stated: Stated,
    timestamp: str,
    payload: str,
    query: list[tuple[str, str]],
    *,
    is_presigned: bool = False,
) -> Claim:
    request = canonical_request(message, stated.signed_headers, payload, query)
    text = string_to_sign(timestamp, stated.scope, request)

    def signing_key(secret: str) -> bytes:
        return signing_key_of(secret, stated.scope.date, stated.scope.region)

    def sign(secret: str) -> str:
        keyed = _keyed(secret, stated.scope.date, stated.scope.region).copy()
        keyed.update(text)
        return keyed.hexdigest()

    return Claim(
        access_key=stated.scope.access_key,
        signature=stated.signature,
        string_to_sign=text,
        sign=sign,
        is_presigned=is_presigned,
        signing_key=signing_key,
        content_sha256=payload,
        chunks=Chunks(timestamp, str(stated.scope), stated.signature),
        canonical_request=request,
    )


def claim_of_policy(policy: str, fields: Mapping[str, str], region: str) -> Claim:
    """The claim of a form whose policy, in Base64, is signed; names of fields in lower case.

    :raises S3Error: a field is malformed, or the region is wrong.
    """
    if fields.get("x-amz-algorithm") != ALGORITHM:
        text = f"X-Amz-Algorithm only supports {ALGORITHM}"
        raise invalid_argument("x-amz-algorithm", fields.get("x-amz-algorithm", ""), text)
    scope = _parse_scope(fields.get("x-amz-credential", ""), "InvalidArgument")
    _check_scope(scope, region, "InvalidArgument")
    timestamp = fields.get("x-amz-date", "")
    if parse_amz_date(timestamp) is None or timestamp[:8] != scope.date:
        reason = 'X-Amz-Date must have the form "yyyyMMddTHHmmssZ" and the date of the credential.'
        raise invalid_argument("x-amz-date", timestamp, reason)
    signed = policy.encode("utf-8")

    def sign(secret: str) -> str:
        key = signing_key_of(secret, scope.date, scope.region)
        return hmac.new(key, signed, hashlib.sha256).hexdigest()

    signature = fields.get("x-amz-signature", "")
    return Claim(scope.access_key, signature, signed, sign=sign, needs_secret=True)


def canonical_request(
    message: Message, signed_headers: Iterable[str], payload: str, query: list[tuple[str, str]]
) -> bytes:
    """The form of a request that is hashed."""
    pairs = sorted([(_encode(name), _encode(value)) for name, value in query])
    names, headers, path = list(signed_headers), message.headers, message.path
    lines = [
        message.method,
        path if _PLAIN_PATH.fullmatch(path) else _encode(path, f"/{_SAFE}") or "/",
        "&".join([f"{name}={value}" for name, value in pairs]),
        *[f"{name}:{_trimmed(headers.get(name, ''))}" for name in names],
        "",
        ";".join(names),
        payload,
    ]
    return "\n".join(lines).encode("latin-1", "replace")


def _encode(text: str, safe: str = _SAFE) -> str:
    return quote(text, safe=safe, encoding="latin-1", errors="replace")


def _trimmed(value: str) -> str:
    value = value.strip()
    return _SPACES.sub(" ", value) if "  " in value else value


def string_to_sign(timestamp: str, scope: Scope, request: bytes) -> bytes:
    """The text whose keyed hash is the signature."""
    digest = _sha256(request).hexdigest()
    return f"{ALGORITHM}\n{timestamp}\n{scope}\n{digest}".encode("latin-1", "replace")


@lru_cache(1024)  # bounded: users, days
def signing_key_of(secret: str, date: str, region: str) -> bytes:
    """The key of one day and region, derived from a user's secret."""
    key = f"AWS4{secret}".encode("utf-8", "surrogatepass")
    for word in (date, region, "s3", _TERMINATOR):
        key = hmac.digest(key, word.encode("utf-8", "surrogatepass"), "sha256")
    return key


@lru_cache(1024)  # as above
def _keyed(secret: str, date: str, region: str) -> hmac.HMAC:
    """An HMAC with the signing key, to be copied; with `_sha256`, Python copies two hashes then."""
    return hmac.new(signing_key_of(secret, date, region), digestmod=_sha256)


def _sha256(data: bytes = b"") -> Any:
    """A SHA-256. A new one of hashlib, and ``hmac.digest``, look it up in OpenSSL: up to 20 us."""
    copied = _SHA256.copy()
    copied.update(data)
    return copied


def is_sha256(text: str) -> bool:
    """Whether it is a SHA-256 in hexadecimal digits."""
    return _HEX.fullmatch(text.lower()) is not None

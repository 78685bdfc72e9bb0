# SPDX-License-Identifier: Apache-2.0
"""The headers of objects, as S3 clients send and get them and as they are stored.

Metadata of S3 is stored as metadata of Swift's API, so both APIs show it. The ETag of a multipart
upload and checksums are system metadata, with the names that OpenStack Swift's s3api uses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from martlet.conf.options import is_true
from martlet.http.headers import Headers
from martlet.http.response import http_date
from proxy.middleware.large_objects.row_etag import OVERRIDE_ETAG
from proxy.s3.wire.checksums import PREFIX as CHECKSUM_PREFIX
from proxy.s3.wire.errors import S3Error, invalid_argument
from proxy.s3.wire.part_checksums import type_of
from proxy.s3.wire.tags import OBJECT_TAGS, tags_of_stored
from proxy.s3.wire.website import check_location

META = "x-amz-meta-"
SYSMETA = "X-Object-Sysmeta-S3Api-"
ETAG = f"{SYSMETA}Etag"
CHECKSUM = f"{SYSMETA}Checksum"
#: The header that tells whether a checksum is made of those of parts.
CHECKSUM_TYPE = f"{CHECKSUM_PREFIX}type"
#: Of the object that begins an upload: what checksum the whole will have.
CHECKSUM_KIND = f"{SYSMETA}Checksum-Kind"
#: Where the website of the bucket redirects to in place of showing the object.
REDIRECT = f"{SYSMETA}Redirect"
_REDIRECT = "x-amz-website-redirect-location"
#: The class that the client named, unless it is the default.
STORAGE_CLASS = f"{SYSMETA}Storage-Class"
_CLASS = "x-amz-storage-class"
DEFAULT_CLASS = "STANDARD"
#: The parameter of a row's ETag that names the class; the prefix is that of all of S3's.
ROW_CLASS = "s3_class"
#: Amazon's classes that may be read at once. All of them are stored alike.
_CLASSES = frozenset(
    (DEFAULT_CLASS, "REDUCED_REDUNDANCY", "STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING",
     "GLACIER_IR")
)  # fmt: skip
TAGGING = OBJECT_TAGS
#: What older versions of Swift's s3api wrote.
_OLD_ETAG = "X-Object-Sysmeta-Swift3-Etag"
_STORED_META = "x-object-meta-"
#: Headers other than metadata that are stored with an object.
STORED = (
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "expires",
    "x-robots-tag",
)
_SHOWN = frozenset(
    {*STORED, "content-type", "content-length", "content-range", "last-modified", "accept-ranges"}
)
#: An underscore cannot be in the name of a stored header; Swift's s3api writes ``=5F`` for it.
_ESCAPED = re.compile(r"[%=](25|3d|5f)", re.IGNORECASE)
_METADATA_BYTES_MAX = 4096
#: As in Swift's s3api, for the expiry of a single object.
_EXPIRY_RULE = "swift-object-expiration"
_REFUSED = {
    "x-amz-mfa": "MFA delete",
    "x-amz-write-offset-bytes": "Appending",
}


def check_unsupported(headers: Mapping[str, str]) -> None:
    """
    :raises S3Error: NotImplemented for a header whose effect would be missed, or there is no such
        storage class.
    """
    for name, subject in _REFUSED.items():
        if name in headers and headers[name].lower() not in ("", "false"):
            raise S3Error("NotImplemented", f"{subject} is not implemented.")
    if headers.get(_CLASS, DEFAULT_CLASS) not in _CLASSES:
        raise S3Error("InvalidStorageClass")


def stored_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of a write for those that a client sent.

    :raises S3Error: the metadata is too large.
    """
    stored = {name: headers[name] for name in STORED if headers.get(name)}
    if headers.get("x-amz-content-sha256", "").startswith("STREAMING-"):
        encoding = _without_chunked(stored.pop("content-encoding", ""))
        if encoding:
            stored["content-encoding"] = encoding
    size = 0
    for name, value in headers.items():
        if name.startswith(META):
            stored[_STORED_META + _escape(name.removeprefix(META))] = value
            size += len(name) - len(META) + len(value)
    if size > _METADATA_BYTES_MAX:
        fields = {"Size": str(size), "MaxSizeAllowed": str(_METADATA_BYTES_MAX)}
        raise S3Error("MetadataTooLarge", fields=fields)
    if headers.get("content-type"):
        stored["content-type"] = headers["content-type"]
    stored |= redirect_header(headers) | class_header(headers)
    for name in ("x-delete-at", "x-delete-after"):  # as in Swift's s3api
        if name in headers:
            stored[name] = headers[name]
    return stored


def redirect_header(headers: Mapping[str, str]) -> dict[str, str]:
    """The stored header for x-amz-website-redirect-location; empty without it.

    :raises S3Error: it is malformed.
    """
    location = headers.get(_REDIRECT)
    if not location:
        return {}
    check_location(location)
    return {REDIRECT: location}


def class_header(headers: Mapping[str, str]) -> dict[str, str]:
    """The stored header for x-amz-storage-class; empty for the default."""
    name = headers.get(_CLASS, DEFAULT_CLASS)
    return {} if name == DEFAULT_CLASS else {STORAGE_CLASS: name}


def row_class(headers: Mapping[str, str]) -> dict[str, str]:
    """The header that puts the class into the row of the listing; empty for the default.

    Its value has no ETag, which is not known yet: the parameter follows the object's own.
    """
    name = headers.get(STORAGE_CLASS)
    return {OVERRIDE_ETAG: f"; {ROW_CLASS}={name}"} if name else {}


def class_of(stored: Headers) -> str:
    """The storage class of an object or upload."""
    return str(stored.get(STORAGE_CLASS) or DEFAULT_CLASS)


def _without_chunked(encoding: str) -> str:
    """The content encoding without that of the transfer."""
    parts = [part.strip() for part in encoding.split(",")]
    return ", ".join(part for part in parts if part and part.lower() != "aws-chunked")


def _escape(name: str) -> str:
    return name.replace("%", "%25").replace("_", "%5F")


def _unescape(name: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), name)


@lru_cache(1024)  # bounded: clients choose some of the names
def _shown_name(name: str) -> str:
    """The name under which a client sees a stored header, empty if it does not see it as it is."""
    lowered = name.lower()
    if lowered.startswith(_STORED_META):
        return META + _unescape(lowered.removeprefix(_STORED_META))
    return name if lowered in _SHOWN else ""


def shown_headers(stored: Headers) -> Headers:
    """The headers for a client, for those of the pipeline's answer."""
    named = [(_shown_name(name), value) for name, value in stored.as_list()]
    shown = Headers([pair for pair in named if pair[0]])
    if stored.get(REDIRECT):
        shown[_REDIRECT] = stored[REDIRECT]
    if stored.get(STORAGE_CLASS):
        shown[_CLASS] = stored[STORAGE_CLASS]
    if "etag" in stored:
        shown["ETag"] = quoted(s3_etag(stored))
    if "x-object-version-id" in stored:
        shown["x-amz-version-id"] = stored["x-object-version-id"]
    if stored.get("x-delete-at", "").isdecimal():
        expiry = http_date(int(stored["x-delete-at"]))
        shown["x-amz-expiration"] = f'expiry-date="{expiry}", rule-id="{_EXPIRY_RULE}"'
    count = len(tags_of_stored(stored.get(TAGGING)))
    if count:
        shown["x-amz-tagging-count"] = str(count)
    if "x-parts-count" in stored and stored.get(ETAG):
        shown["x-amz-mp-parts-count"] = stored["x-parts-count"]
    return shown


def s3_etag(stored: Headers) -> str:
    """The ETag for clients, without quotes."""
    given = stored.get(ETAG) or stored.get(_OLD_ETAG)
    if given:
        return str(given).strip('"')
    etag = str(stored.get("etag", "")).strip('"')
    # Clients compare an ETag with their MD5 unless it has a dash.
    return f"{etag}-N" if is_true(stored.get("x-static-large-object")) else etag


def quoted(etag: str) -> str:
    """The ETag with quotes."""
    return f'"{etag}"'


def shown_checksum(stored: Headers) -> dict[str, str]:
    """The headers about the checksum with which an object was written."""
    algorithm, _, value = str(stored.get(CHECKSUM, "")).partition("=")
    if not value:
        return {}
    return {CHECKSUM_PREFIX + algorithm: value, CHECKSUM_TYPE: type_of(value)}


def response_overrides(params: Mapping[str, str]) -> dict[str, str]:
    """The headers that the parameters ``response-…`` of a GET or HEAD set."""
    names = (*STORED, "content-type") if params else ()
    return {name: params[f"response-{name}"] for name in names if f"response-{name}" in params}


def checked_overrides(params: Mapping[str, str]) -> dict[str, str]:
    """The same.

    :raises S3Error: a value cannot be in a header.
    """
    found = response_overrides(params)
    for name, value in found.items():
        if not (value.isascii() and value.isprintable()):
            raise invalid_argument(f"response-{name}", value)
    return found

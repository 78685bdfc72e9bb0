# SPDX-License-Identifier: Apache-2.0
"""Listings of a bucket: ListObjects, ListObjectsV2 and ListObjectVersions.

Each is one listing of the container, in the order of UTF-8 bytes, with one row more than wanted:
that row tells whether there is another page.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from urllib.parse import quote

from martlet.http.listing import escape_xml
from martlet.http.response import Response
from martlet.words.delete_markers import MARKER_TYPE
from martlet.words.names import BadNameError, check_text
from martlet.words.timestamp import Timestamp
from proxy.middleware.large_objects.row_etag import Row
from proxy.s3.call import Call, xml
from proxy.s3.object_headers import DEFAULT_CLASS
from proxy.s3.rows import class_of_row, etag_of_row, split_row
from proxy.s3.wire.errors import invalid_argument
from proxy.s3.wire.times import xml_time_of_row
from proxy.s3.wire.xml_out import Document

_STANDARD = f"<StorageClass>{DEFAULT_CLASS}</StorageClass>"


class _Page:
    """A listing: its rows, and whether more follow."""

    def __init__(self, call: Call, query: Mapping[str, str]) -> None:
        self.call = call
        self.encoding = call.encoding_type()
        self.stated_max = call.number("max-keys", call.options.max_bucket_listing)
        most = min(self.stated_max, call.options.max_bucket_listing)
        asked = {"limit": str(most + 1), **query}
        for name in ("prefix", "delimiter"):
            if call.params.get(name):
                asked[name] = checked_text(call, name)
        rows = call.listing(call.bucket, asked)
        self.is_truncated = 0 < most < len(rows)
        self.rows: list[Row] = list(rows[:most])
        for row in self.rows:
            if "hash" in row:
                split_row(row)

    def encoded(self, text: str) -> str:
        """A key as the listing shows it."""
        return quote(text) if self.encoding == "url" else text

    def shown(self, name: str) -> str:
        """A key as the listing shows it, escaped for XML."""
        return quote(name) if self.encoding == "url" else escape_xml(name)

    @property
    def last(self) -> str:
        """The name or common prefix of the last row."""
        row = self.rows[-1]
        return str(row["subdir"] if "subdir" in row else row["name"])

    def write_head(self, document: Document) -> None:
        """Write the elements that all listings start with."""
        params = self.call.params
        document.text("Name", self.call.bucket)
        document.text("Prefix", self.encoded(params.get("prefix", "")))

    def write_parameters(self, document: Document) -> None:
        """Write the elements about the parameters."""
        document.text("MaxKeys", self.stated_max)
        if self.call.params.get("delimiter"):
            document.text("Delimiter", self.encoded(self.call.params["delimiter"]))
        if self.encoding:
            document.text("EncodingType", self.encoding)
        document.text("IsTruncated", self.is_truncated)

    def write_prefixes(self, document: Document) -> None:
        """Write the common prefixes."""
        for row in self.rows:
            if "subdir" in row:
                with document.inside("CommonPrefixes"):
                    document.text("Prefix", self.encoded(row["subdir"]))


def checked_text(call: Call, name: str) -> str:
    """A parameter that is a part of a key.

    :raises S3Error: it cannot be one.
    """
    value = call.params.get(name, "")
    try:
        check_text(value)
    except BadNameError:
        raise invalid_argument(name, value.replace("\x00", "")) from None
    if "\ufffd" in value:  # bytes that are not UTF-8
        raise invalid_argument(name, value)
    return value


def list_objects(call: Call) -> Response:
    """ListObjects and ListObjectsV2, by the parameter list-type."""
    kind = call.number("list-type", 1)
    if "list-type" in call.params and kind != 2:
        raise invalid_argument("list-type", call.params["list-type"], "Invalid List Type")
    return _list_v2(call) if kind == 2 else _list_v1(call)


def _list_v1(call: Call) -> Response:
    marker = checked_text(call, "marker")
    page = _Page(call, {"marker": marker} if marker else {})
    document = Document("ListBucketResult")
    page.write_head(document)
    document.text("Marker", page.encoded(marker))
    if page.is_truncated and call.params.get("delimiter"):
        document.text("NextMarker", page.encoded(page.last))
    page.write_parameters(document)
    _write_objects(document, page, with_owner=True)
    return xml(document.finish())


def _list_v2(call: Call) -> Response:
    start, token = checked_text(call, "start-after"), call.params.get("continuation-token")
    marker = start if token is None else _decode_token(token)
    page = _Page(call, {"marker": marker} if marker else {})
    document = Document("ListBucketResult")
    page.write_head(document)
    if page.is_truncated:
        document.text("NextContinuationToken", _encode_token(page.last))
    if token is not None:
        document.text("ContinuationToken", token)
    if "start-after" in call.params:
        document.text("StartAfter", page.encoded(start))
    document.text("KeyCount", len(page.rows))
    page.write_parameters(document)
    _write_objects(document, page, with_owner=call.params.get("fetch-owner", "") == "true")
    return xml(document.finish())


def _encode_token(name: str) -> str:
    return base64.b64encode(name.encode("utf-8")).decode("ascii")


def _decode_token(token: str) -> str:
    try:
        return check_text(base64.b64decode(token.encode("ascii"), validate=True).decode("utf-8"))
    except (binascii.Error, ValueError):
        reason = "The continuation token provided is incorrect"
        raise invalid_argument("continuation-token", token, reason) from None


def _write_objects(document: Document, page: _Page, *, with_owner: bool) -> None:
    owner = _owner_of(page) if with_owner else ""
    for row in page.rows:
        if "subdir" not in row:
            document.add(f"<Contents><Key>{page.shown(row['name'])}</Key>{_time_and_size(row)}"
                         f"{owner}{_class(row)}</Contents>")  # fmt: skip
    page.write_prefixes(document)


def _owner_of(page: _Page) -> str:
    """The element about the owner of each object or version."""
    name = escape_xml(page.call.owner_id)
    return f"<Owner><ID>{name}</ID><DisplayName>{name}</DisplayName></Owner>"


def _time_and_size(row: Row) -> str:
    """The elements about what an object or a version holds."""
    etag = etag_of_row(row)
    digits = etag[1:-1]
    etag = f"&quot;{digits}&quot;" if digits.isalnum() else escape_xml(etag)
    time = escape_xml(xml_time_of_row(row["last_modified"]))
    return f"<LastModified>{time}</LastModified><ETag>{etag}</ETag><Size>{row['bytes']}</Size>"


def _class(row: Row) -> str:
    name = class_of_row(row)
    if name == DEFAULT_CLASS:
        return _STANDARD
    return f"<StorageClass>{escape_xml(name)}</StorageClass>"


def list_object_versions(call: Call) -> Response:
    """ListObjectVersions."""
    key_marker, version_marker = checked_text(call, "key-marker"), _version_marker(call)
    query = {"versions": "true"}
    if key_marker:
        query["marker"] = key_marker
        if version_marker:
            query["version_marker"] = version_marker
    page = _Page(call, query)
    document = Document("ListVersionsResult")
    page.write_head(document)
    document.text("KeyMarker", page.encoded(key_marker))
    document.text("VersionIdMarker", version_marker)
    if call.params.get("delimiter") == "":  # in this listing only, Amazon repeats an empty one
        document.text("Delimiter", "")
    if page.is_truncated:
        row = page.rows[-1]
        document.text("NextKeyMarker", page.encoded(page.last))
        if "subdir" not in row:
            document.text("NextVersionIdMarker", row.get("version_id") or "null")
    page.write_parameters(document)
    owner = _owner_of(page)
    for row in page.rows:
        if "subdir" not in row:
            document.add(_version_of(page, row, owner))
    page.write_prefixes(document)
    return xml(document.finish())


def _version_marker(call: Call) -> str:
    marker = call.params.get("version-id-marker", "")
    if "version-id-marker" in call.params and "key-marker" not in call.params:
        reason = "A version-id marker cannot be specified without a key marker."
        raise invalid_argument("version-id-marker", marker, reason)
    if marker not in ("", "null"):
        try:
            Timestamp(marker)
        except ValueError:
            reason = "Invalid version id specified"
            raise invalid_argument("version-id-marker", marker, reason) from None
    return marker


def _version_of(page: _Page, row: Row, owner: str) -> str:
    """The element about a version or a delete marker."""
    version = escape_xml(row.get("version_id") or "null")
    is_latest = "true" if row.get("is_latest", True) else "false"
    about = (
        f"<Key>{page.shown(row['name'])}</Key><VersionId>{version}</VersionId>"
        f"<IsLatest>{is_latest}</IsLatest>"
    )
    if is_delete_marker(row):
        time = escape_xml(xml_time_of_row(row["last_modified"]))
        about += f"<LastModified>{time}</LastModified>{owner}"
        return f"<DeleteMarker>{about}</DeleteMarker>"
    return f"<Version>{about}{_time_and_size(row)}{owner}{_class(row)}</Version>"


def is_delete_marker(row: Row) -> bool:
    """Whether a row of a listing of versions is a delete marker."""
    return bool(row["content_type"] == MARKER_TYPE)

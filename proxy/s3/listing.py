# SPDX-License-Identifier: Apache-2.0
"""Listings of a bucket: ListObjects, ListObjectsV2 and ListObjectVersions.

Each is one listing of the container, in the order of UTF-8 bytes, with one row more than wanted:
that row tells whether there is another page.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote

from martlet.http.listing import escape_xml, is_plain_xml
from martlet.http.response import Response
from martlet.words.delete_markers import MARKER_TYPE
from martlet.words.names import BadNameError, check_text
from martlet.words.timestamp import Timestamp
from proxy.middleware.large_objects.row_etag import Row
from proxy.s3.call import Call, xml
from proxy.s3.object_headers import DEFAULT_CLASS, ROW_CLASS
from proxy.s3.rows import class_of_row, etag_of_row, split_row
from proxy.s3.wire.errors import invalid_argument
from proxy.s3.wire.times import xml_time_of_row
from proxy.s3.wire.xml_out import Document

#: What `quote` leaves as it is.
_PLAIN = re.compile(r"[A-Za-z0-9/_.~-]*")
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
            if ";" in row.get("hash", ""):
                split_row(row)

    def encoded(self, text: str) -> str:
        """A key as the listing shows it."""
        return quote(text) if self.encoding == "url" else text

    def entries(self) -> Iterator[tuple[Row, str, str, str]]:
        """The objects or versions: each one's row, and its key, time and ETag for XML."""
        rows = [row for row in self.rows if "subdir" not in row]
        names = [row["name"] for row in rows]
        keys = _quoted(names) if self.encoding == "url" else _escaped(names)
        times = _escaped([xml_time_of_row(row["last_modified"]) for row in rows])
        etags = _escaped([etag_of_row(row)[1:-1] for row in rows])
        return zip(rows, keys, times, etags, strict=True)

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


def _escaped(texts: list[str]) -> list[str]:
    """Texts escaped for XML. One look at all of them tells, nearly always, that none changes."""
    return texts if is_plain_xml("".join(texts)) else [escape_xml(text) for text in texts]


def _quoted(texts: list[str]) -> list[str]:
    """Texts percent-encoded, in the same way."""
    return texts if _PLAIN.fullmatch("".join(texts)) else [quote(text) for text in texts]


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
    objects = [
        f"<Contents><Key>{key}</Key><LastModified>{time}</LastModified>"
        f"<ETag>&quot;{etag}&quot;</ETag><Size>{row['bytes']}</Size>"
        f"{owner}{_STANDARD if ROW_CLASS not in row else _class(row)}</Contents>"
        for row, key, time, etag in page.entries()
    ]
    document.add("".join(objects))
    page.write_prefixes(document)


def _owner_of(page: _Page) -> str:
    """The element about the owner of each object or version."""
    name = escape_xml(page.call.owner_id)
    return f"<Owner><ID>{name}</ID><DisplayName>{name}</DisplayName></Owner>"


def _class(row: Row) -> str:
    return f"<StorageClass>{escape_xml(class_of_row(row))}</StorageClass>"


def list_object_versions(call: Call) -> Response:
    """ListObjectVersions."""
    key_marker, version_marker = checked_text(call, "key-marker"), _version_marker(call)
    query = {"versions": "null"}
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
    for row, key, time, etag in page.entries():
        version = escape_xml(row.get("version_id") or "null")
        is_latest = "true" if row.get("is_latest", True) else "false"
        about = (
            f"<Key>{key}</Key><VersionId>{version}</VersionId><IsLatest>{is_latest}</IsLatest>"
            f"<LastModified>{time}</LastModified>"
        )
        if is_delete_marker(row):
            document.add(f"<DeleteMarker>{about}{owner}</DeleteMarker>")
        else:
            document.add(
                f"<Version>{about}<ETag>&quot;{etag}&quot;</ETag><Size>{row['bytes']}</Size>"
                f"{owner}{_STANDARD if ROW_CLASS not in row else _class(row)}</Version>"
            )
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


def is_delete_marker(row: Row) -> bool:
    """Whether a row of a listing of versions is a delete marker."""
    return bool(row["content_type"] == MARKER_TYPE)

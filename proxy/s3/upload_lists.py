# SPDX-License-Identifier: Apache-2.0
"""ListMultipartUploads and ListParts."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from martlet.http.response import Response
from proxy.s3.bucket import SEGMENTS
from proxy.s3.call import Call, xml
from proxy.s3.listing import checked_text
from proxy.s3.object_headers import CHECKSUM, class_of
from proxy.s3.rows import etag_of_row, split_row
from proxy.s3.uploads import Upload, find_upload, parts_of, rows_of
from proxy.s3.wire.times import xml_time_of_row
from proxy.s3.wire.xml_out import Document

_UPLOADS_MAX = 1000
_PART = re.compile(r".*/[0-9]+", re.DOTALL)
#: Sorts after all characters of an upload's id, and the slash after it.
_AFTER_IDS = "\U0010ffff"


class _Uploads:
    """A page of uploads: those whose keys have no delimiter, and the common prefixes."""

    def __init__(self, call: Call, most: int) -> None:
        self.uploads: list[tuple[str, str, dict[str, Any]]] = []
        self.prefixes: list[str] = []
        self.is_truncated = False
        self._prefix, self._delimiter = checked_text(call, "prefix"), call.params.get("delimiter")
        key_marker = checked_text(call, "key-marker")
        id_marker = checked_text(call, "upload-id-marker") if key_marker else ""
        marker = f"{key_marker}/{id_marker or _AFTER_IDS}" if key_marker else ""
        for row in rows_of(call, f"{call.bucket}{SEGMENTS}", self._prefix, marker):
            key, _, upload_id = str(row["name"]).rpartition("/")
            if _PART.fullmatch(row["name"]) or key.startswith(f"{key_marker}/{id_marker}/"):
                continue
            if not self._takes(key, upload_id, row, most):
                self.is_truncated = True
                return

    def _takes(self, key: str, upload_id: str, row: dict[str, Any], most: int) -> bool:
        """Add an upload; False if the page is full."""
        prefix = self._common_prefix(key)
        if prefix and prefix in self.prefixes:
            return True
        if len(self.uploads) + len(self.prefixes) >= most:
            return False
        if prefix:
            self.prefixes.append(prefix)
        else:
            self.uploads.append((key, upload_id, row))
        return True

    def _common_prefix(self, key: str) -> str:
        if not self._delimiter:
            return ""
        end = key.find(self._delimiter, len(self._prefix))
        return key[: end + len(self._delimiter)] if end >= 0 else ""


def list_uploads(call: Call) -> Response:
    """ListMultipartUploads."""
    encoding = call.encoding_type()
    most = call.number("max-uploads", _UPLOADS_MAX, _UPLOADS_MAX)
    call.require_bucket()
    page = _Uploads(call, most)

    def encoded(text: str) -> str:
        return quote(text) if encoding else text

    document = Document("ListMultipartUploadsResult")
    document.text("Bucket", call.bucket)
    document.text("KeyMarker", encoded(call.params.get("key-marker", "")))
    document.text("UploadIdMarker", call.params.get("upload-id-marker", ""))
    has_next = page.is_truncated or len(page.uploads) > 1
    last_key, last_id, _ = page.uploads[-1] if page.uploads and has_next else ("", "", {})
    document.text("NextKeyMarker", encoded(last_key))
    document.text("NextUploadIdMarker", last_id)
    for name in ("Delimiter", "Prefix"):
        if name.lower() in call.params:
            document.text(name, encoded(call.params[name.lower()]))
    document.text("MaxUploads", most)
    if encoding:
        document.text("EncodingType", encoding)
    document.text("IsTruncated", page.is_truncated)
    for key, upload_id, row in page.uploads:
        with document.inside("Upload"):
            document.text("Key", encoded(key))
            document.text("UploadId", upload_id)
            document.owner("Initiator", call.owner_id)
            document.owner("Owner", call.owner_id)
            document.text("StorageClass", "STANDARD")
            document.text("Initiated", xml_time_of_row(row["last_modified"]))
    for prefix in page.prefixes:
        with document.inside("CommonPrefixes"):
            document.text("Prefix", encoded(prefix))
    return xml(document.finish())


def list_parts(call: Call) -> Response:
    """ListParts."""
    encoding = call.encoding_type()
    most = call.number("max-parts", call.options.max_parts_listing, call.options.max_parts_listing)
    marker = call.number("part-number-marker", 0)
    upload = find_upload(call)
    parts = [part for part in parts_of(call, upload) if part[0] > marker]
    page = parts[:most]
    document = Document("ListPartsResult")
    document.text("Bucket", call.bucket)
    document.text("Key", quote(call.key) if encoding else call.key)
    document.text("UploadId", upload.upload_id)
    document.owner("Initiator", call.owner_id)
    document.owner("Owner", call.owner_id)
    document.text("StorageClass", class_of(upload.headers))
    kind = upload.checksum_kind
    if kind is not None:
        document.text("ChecksumAlgorithm", kind.algorithm.upper())
        document.text("ChecksumType", kind.type)
    document.text("PartNumberMarker", marker)
    document.text("NextPartNumberMarker", page[-1][0] if page else 0)
    document.text("MaxParts", most)
    if encoding:
        document.text("EncodingType", encoding)
    document.text("IsTruncated", len(parts) > len(page))
    for number, row in page:
        with document.inside("Part"):
            document.text("PartNumber", number)
            document.text("LastModified", xml_time_of_row(row["last_modified"]))
            split_row(row)
            document.text("ETag", etag_of_row(row))
            document.text("Size", row["bytes"])
            if kind is not None:
                _write_checksum(document, call, upload, number)
    return xml(document.finish())


def _write_checksum(document: Document, call: Call, upload: Upload, number: int) -> None:
    """Write the checksum of a part; rows of listings have none, so the part is looked at."""
    found = call.ask("HEAD", upload.container, upload.part(number), allowed=(404,))
    algorithm, _, value = str(found.headers.get(CHECKSUM, "")).partition("=")
    if value:
        document.text(f"Checksum{algorithm.upper()}", value)

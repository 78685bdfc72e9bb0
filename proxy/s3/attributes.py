# SPDX-License-Identifier: Apache-2.0
"""GetObjectAttributes: a choice of what is known of an object, without its body."""

from __future__ import annotations

from martlet.conf.options import is_true
from martlet.http.headers import Headers
from martlet.http.response import Response
from proxy.s3 import customer_keys
from proxy.s3.call import Call, xml
from proxy.s3.object_headers import CHECKSUM, ETAG, class_of, s3_etag
from proxy.s3.objects import head_version, version_query
from proxy.s3.stored_parts import checksum_of_part, parts_of_object
from proxy.s3.wire.addressing import check_key
from proxy.s3.wire.errors import S3Error, invalid_argument
from proxy.s3.wire.part_checksums import type_of
from proxy.s3.wire.xml_out import Document

_HEADER = "x-amz-object-attributes"
_ATTRIBUTES = frozenset({"ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"})
_PARTS_MAX = 1000


def get_attributes(call: Call) -> Response:
    """GetObjectAttributes."""
    check_key(call.key)
    text = call.headers.get(_HEADER, "")
    wanted = {name.strip() for name in text.split(",") if name.strip()}
    if not wanted or not wanted <= _ATTRIBUTES:
        raise invalid_argument(_HEADER, text, "Invalid attribute name specified.")
    most = _number(call, "x-amz-max-parts", _PARTS_MAX)
    marker = _number(call, "x-amz-part-number-marker", 0)
    stored = head_version(call)
    customer_keys.check_key(call, stored)
    document = Document("GetObjectAttributesResponse")
    if "ETag" in wanted:
        document.text("ETag", s3_etag(stored))
    algorithm, _, value = str(stored.get(CHECKSUM, "")).partition("=")
    if "Checksum" in wanted and value:
        with document.inside("Checksum"):
            sum_only, _, _ = value.partition("-")  # as at Amazon, without the number of parts
            document.text(f"Checksum{algorithm.upper()}", sum_only)
            document.text("ChecksumType", type_of(value))
    is_upload = is_true(stored.get("x-static-large-object")) and stored.get(ETAG)
    if "ObjectParts" in wanted and is_upload:
        _write_parts(document, call, min(most, _PARTS_MAX), marker)
    if "StorageClass" in wanted:
        document.text("StorageClass", class_of(stored))
    if "ObjectSize" in wanted:
        document.text("ObjectSize", stored.get("content-length", "0"))
    return xml(document.finish(), _shown(stored))


def _shown(stored: Headers) -> dict[str, str]:
    shown = {"Last-Modified": str(stored.get("last-modified", ""))}
    if "x-object-version-id" in stored:
        shown["x-amz-version-id"] = str(stored["x-object-version-id"])
    return shown


def _write_parts(document: Document, call: Call, most: int, marker: int) -> None:
    """Write the parts: their number, and the parts themselves if they have checksums."""
    _, parts = parts_of_object(call, version_query(call))
    page = list(enumerate(parts, 1))[marker:][:most]
    found = [(number, part, checksum_of_part(call, part)) for number, part in page]
    with document.inside("ObjectParts"):
        document.text("PartsCount", len(parts))
        if not any(checksum for _, _, checksum in found):
            return
        document.text("PartNumberMarker", marker)
        document.text("NextPartNumberMarker", page[-1][0])
        document.text("MaxParts", most)
        document.text("IsTruncated", marker + len(page) < len(parts))
        for number, part, checksum in found:
            with document.inside("Part"):
                document.text("PartNumber", number)
                document.text("Size", part["bytes"])
                algorithm, _, value = checksum.partition("=")
                if value:
                    document.text(f"Checksum{algorithm.upper()}", value)


def _number(call: Call, name: str, default: int) -> int:
    text = call.headers.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise S3Error("InvalidArgument", f"{name} must be a number.")
    return int(text)

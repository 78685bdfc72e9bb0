# SPDX-License-Identifier: Apache-2.0
"""Tags of objects and buckets.

Those of an object are system metadata that a POST replaces, so tags change without a new object.
"""

from __future__ import annotations

from collections.abc import Mapping

from martlet.http.headers import Headers
from martlet.http.response import Response
from proxy.s3.bodies import read_document
from proxy.s3.call import Call, empty, xml
from proxy.s3.object_headers import TAGGING
from proxy.s3.objects import head_version
from proxy.s3.replaced import replace_metadata, version_of
from proxy.s3.wire.addressing import check_key
from proxy.s3.wire.errors import S3Error, invalid_argument
from proxy.s3.wire.tags import (
    BUCKET_TAGS_MAX,
    OBJECT_TAGS_MAX,
    stored_text,
    tagging_document,
    tags_of_header,
    tags_of_stored,
    tags_of_xml,
)
from proxy.s3.wire.xml_in import parse_xml

_BUCKET_TAGGING = "X-Container-Sysmeta-S3Api-Tagging"
_DOCUMENT_BYTES_MAX = 128 * 1024


def tagging_header(headers: Mapping[str, str]) -> dict[str, str]:
    """The stored header for x-amz-tagging; empty without it.

    :raises S3Error: it is malformed.
    """
    value = headers.get("x-amz-tagging")
    return {} if value is None else {TAGGING: stored_text(tags_of_header(value))}


def tagging_of_copy(headers: Mapping[str, str], source: Headers) -> dict[str, str]:
    """The stored header of a copy, by x-amz-tagging-directive.

    :raises S3Error: the directive or the tags are malformed.
    """
    directive = headers.get("x-amz-tagging-directive", "COPY")
    if directive not in ("COPY", "REPLACE"):
        reason = "Unknown tagging directive."
        raise invalid_argument("x-amz-tagging-directive", directive, reason)
    if directive == "COPY":
        return {TAGGING: str(source.get(TAGGING, ""))}
    return {TAGGING: "", **tagging_header(headers)}


def get_object_tagging(call: Call) -> Response:
    """GetObjectTagging."""
    check_key(call.key)
    stored = head_version(call)
    document = tagging_document(tags_of_stored(stored.get(TAGGING)))
    return xml(document, version_of(stored))


def put_object_tagging(call: Call) -> Response:
    """PutObjectTagging."""
    check_key(call.key)
    root = parse_xml(read_document(call, _DOCUMENT_BYTES_MAX), "Tagging")
    tags = tags_of_xml(root, OBJECT_TAGS_MAX)
    if call.access is not None:
        call.access.tags = tags  # a policy may look at them
    return empty(200, replace_metadata(call, {TAGGING: stored_text(tags)}))


def delete_object_tagging(call: Call) -> Response:
    """DeleteObjectTagging."""
    check_key(call.key)
    return empty(204, replace_metadata(call, {TAGGING: ""}))


def get_bucket_tagging(call: Call) -> Response:
    """GetBucketTagging."""
    text = call.require_bucket().get(_BUCKET_TAGGING)
    if not text:
        raise S3Error("NoSuchTagSet", fields={"BucketName": call.bucket})
    return xml(tagging_document(tags_of_stored(text)))


def put_bucket_tagging(call: Call) -> Response:
    """PutBucketTagging."""
    call.require_bucket()
    root = parse_xml(read_document(call, _DOCUMENT_BYTES_MAX), "Tagging")
    tags = tags_of_xml(root, BUCKET_TAGS_MAX)
    call.ask("POST", call.bucket, headers={_BUCKET_TAGGING: stored_text(tags)})
    return empty(204)


def delete_bucket_tagging(call: Call) -> Response:
    """DeleteBucketTagging."""
    call.ask("POST", call.bucket, headers={_BUCKET_TAGGING: ""})
    return empty(204)

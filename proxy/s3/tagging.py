# SPDX-License-Identifier: Apache-2.0
"""Tags of objects and buckets.

Those of an object are system metadata that a POST replaces, so tags change without a new object. A
POST replaces all metadata. So the others are sent again, on the condition that the object is still
the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from martlet.http.headers import Headers
from martlet.http.response import Response
from proxy.headers import IF_TIMESTAMP
from proxy.s3.bodies import read_document
from proxy.s3.call import Call, empty, xml
from proxy.s3.object_headers import STORED, TAGGING
from proxy.s3.objects import head_version
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
#: What a POST replaces beside metadata.
_REPLACED = frozenset({*STORED, "x-delete-at"})
_REPLACED_PREFIXES = ("x-object-meta-", "x-object-transient-sysmeta-")


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
    return xml(document, _version_of(stored))


def put_object_tagging(call: Call) -> Response:
    """PutObjectTagging."""
    check_key(call.key)
    root = parse_xml(read_document(call, _DOCUMENT_BYTES_MAX), "Tagging")
    tags = tags_of_xml(root, OBJECT_TAGS_MAX)
    if call.access is not None:
        call.access.tags = tags  # a policy may look at them
    return _change(call, stored_text(tags), 200)


def delete_object_tagging(call: Call) -> Response:
    """DeleteObjectTagging."""
    check_key(call.key)
    return _change(call, "", 204)


def _change(call: Call, tagging: str, status: int) -> Response:
    stored = head_version(call)
    headers = {
        name: value
        for name, value in stored.items()
        if name.lower() in _REPLACED or name.lower().startswith(_REPLACED_PREFIXES)
    }
    headers[TAGGING] = tagging
    since = stored.get("x-backend-data-timestamp")
    if since is not None:
        headers[IF_TIMESTAMP] = since
    if call.params.get("versionId") is not None:
        _check_current(call, since)
    answer = call.ask("POST", call.bucket, call.key, headers=headers, allowed=(412,))
    if answer.status == 412:
        raise S3Error("OperationAborted")
    return empty(status, _version_of(stored))


def _check_current(call: Call, since: str | None) -> None:
    """:raises S3Error: the version that the request names is not the current one."""
    current = call.ask("HEAD", call.bucket, call.key, headers={"x-newest": "true"}, allowed=(404,))
    if since is None or current.headers.get("x-backend-data-timestamp") != since:
        text = "Only the tags of the current version can be changed."
        raise S3Error("NotImplemented", text)


def _version_of(stored: Headers) -> dict[str, str]:
    version = stored.get("x-object-version-id")
    return {"x-amz-version-id": version} if version else {}


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

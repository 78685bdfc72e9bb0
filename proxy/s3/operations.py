# SPDX-License-Identifier: Apache-2.0
"""The table of operations: a method, what it is for, and a sub-resource name one of them.

A sub-resource is a parameter of the query, e.g. ``?versioning``. What the table does not have is
answered with NotImplemented.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from martlet.http.response import Response
from proxy.s3 import (
    acl,
    attributes,
    bucket,
    bucket_logging,
    copy_object,
    cors,
    encryption,
    fixed,
    lifecycle,
    listing,
    multi_delete,
    multipart,
    notification,
    object_lock,
    object_writes,
    objects,
    policy,
    public_access,
    snowball,
    tagging,
    upload_lists,
    versioning,
    website,
)
from proxy.s3.call import Call
from proxy.s3.wire.errors import S3Error

Operation = Callable[[Call], Response]

_SERVICE: Mapping[tuple[str, str], Operation] = {("GET", ""): bucket.list_buckets}
_BUCKET: Mapping[tuple[str, str], Operation] = {
    **fixed.OPERATIONS,
    **policy.OPERATIONS,
    **public_access.OPERATIONS,
    ("GET", ""): listing.list_objects,
    ("HEAD", ""): bucket.head_bucket,
    ("PUT", ""): bucket.create_bucket,
    ("DELETE", ""): bucket.delete_bucket,
    ("GET", "acl"): acl.get_acl,
    ("PUT", "acl"): acl.put_bucket_acl,
    ("GET", "cors"): cors.get_cors,
    ("PUT", "cors"): cors.put_cors,
    ("DELETE", "cors"): cors.delete_cors,
    ("POST", "delete"): multi_delete.delete_objects,
    ("GET", "lifecycle"): lifecycle.get_lifecycle,
    ("PUT", "lifecycle"): lifecycle.put_lifecycle,
    ("DELETE", "lifecycle"): lifecycle.delete_lifecycle,
    ("GET", "encryption"): encryption.get_encryption,
    ("PUT", "encryption"): encryption.put_encryption,
    ("DELETE", "encryption"): encryption.delete_encryption,
    ("GET", "location"): bucket.get_location,
    ("GET", "logging"): bucket_logging.get_logging,
    ("PUT", "logging"): bucket_logging.put_logging,
    ("GET", "notification"): notification.get_notification,
    ("PUT", "notification"): notification.put_notification,
    ("GET", "object-lock"): object_lock.get_configuration,
    ("PUT", "object-lock"): object_lock.put_configuration,
    ("GET", "tagging"): tagging.get_bucket_tagging,
    ("PUT", "tagging"): tagging.put_bucket_tagging,
    ("DELETE", "tagging"): tagging.delete_bucket_tagging,
    ("GET", "uploads"): upload_lists.list_uploads,
    ("GET", "versioning"): versioning.get_versioning,
    ("PUT", "versioning"): versioning.put_versioning,
    ("GET", "website"): website.get_website,
    ("PUT", "website"): website.put_website,
    ("DELETE", "website"): website.delete_website,
    ("GET", "versions"): listing.list_object_versions,
}
_OBJECT: Mapping[tuple[str, str], Operation] = {
    ("GET", ""): objects.read_object,
    ("HEAD", ""): objects.read_object,
    ("PUT", ""): object_writes.put_object,
    ("DELETE", ""): object_writes.delete_object,
    ("GET", "acl"): acl.get_acl,
    ("PUT", "acl"): acl.put_object_acl,
    ("GET", "attributes"): attributes.get_attributes,
    ("GET", "legal-hold"): object_lock.get_legal_hold,
    ("PUT", "legal-hold"): object_lock.put_legal_hold,
    ("GET", "retention"): object_lock.get_retention,
    ("PUT", "retention"): object_lock.put_retention,
    ("GET", "tagging"): tagging.get_object_tagging,
    ("PUT", "tagging"): tagging.put_object_tagging,
    ("DELETE", "tagging"): tagging.delete_object_tagging,
    ("POST", "uploads"): multipart.create_upload,
    ("PUT", "uploadId"): multipart.upload_part,
    ("GET", "uploadId"): upload_lists.list_parts,
    ("POST", "uploadId"): multipart.complete_upload,
    ("DELETE", "uploadId"): multipart.abort_upload,
}
#: With a source, these are copies.
_COPIES: Mapping[Operation, Operation] = {
    object_writes.put_object: copy_object.copy_object,
    multipart.upload_part: multipart.copy_part,
}
#: Those that write as much as the client names, without a body of that size.
SLOW: frozenset[Operation] = frozenset(
    {copy_object.copy_object, multipart.copy_part, multipart.complete_upload}
)
_MULTIPART = frozenset({"uploads", "uploadId"})
_METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE"})
#: All sub-resources of Amazon S3; the order decides if a query has several.
_SUBRESOURCES = [
    "uploadId",
    "uploads",
    "versions",
    "versioning",
    "delete",
    "location",
    "acl",
    "tagging",
    "logging",
    "object-lock",
    "accelerate",
    "analytics",
    "attributes",
    "cors",
    "encryption",
    "intelligent-tiering",
    "inventory",
    "legal-hold",
    "lifecycle",
    "metadataConfiguration",
    "metadataTable",
    "metrics",
    "notification",
    "ownershipControls",
    "policy",
    "policyStatus",
    "publicAccessBlock",
    "renameObject",
    "replication",
    "requestPayment",
    "restore",
    "retention",
    "select",
    "session",
    "torrent",
    "website",
]


def subresource_of(params: Mapping[str, str]) -> str:
    """The sub-resource in a query, empty without one."""
    return next((name for name in _SUBRESOURCES if name in params), "") if params else ""


def operation_of(call: Call) -> Operation:
    """The operation that a request names.

    :raises S3Error: NotImplemented or MethodNotAllowed.
    """
    method, name = call.method, subresource_of(call.params)
    if method not in _METHODS:
        raise S3Error("MethodNotAllowed", fields={"Method": method})
    table = _OBJECT if call.key else _BUCKET if call.bucket else _SERVICE
    if not call.bucket and method != "GET":
        raise S3Error("MethodNotAllowed", fields={"Method": method, "ResourceType": "SERVICE"})
    operation = table.get((method, name))
    is_refused = name in _MULTIPART and not call.options.allow_multipart_uploads
    if operation is None or is_refused:
        raise S3Error("NotImplemented")
    if is_copy(call):
        return _COPIES.get(operation, operation)
    if operation is object_writes.put_object and snowball.is_archive(call):
        return snowball.put_archive
    return operation


def is_copy(call: Call) -> bool:
    """Whether the request names the source of a copy."""
    return "x-amz-copy-source" in call.headers

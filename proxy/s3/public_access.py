# SPDX-License-Identifier: Apache-2.0
"""The public-access block and the ownership controls of buckets: Put, Get and Delete of both.

`policies.guard` enforces the block. Ownership controls decide whether there are ACLs at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from martlet.http.response import Response
from proxy.s3 import settings
from proxy.s3.bodies import read_document
from proxy.s3.call import Call, empty, xml
from proxy.s3.policies.guard import ACL, PUBLIC_ACCESS_BLOCK
from proxy.s3.wire.acl import OWNERS_CANNED
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.public_access import (
    ENFORCED,
    check_ownership,
    ownership_document,
    parse_block,
    parse_ownership,
)

OWNERSHIP = "Ownership"
_DOCUMENT_BYTES_MAX = 10240
_ACLS = ("x-container-read", "x-container-write")


def get_block(call: Call) -> Response:
    """GetPublicAccessBlock."""
    found = settings.read_now(call, PUBLIC_ACCESS_BLOCK)
    if not found:
        fields = {"BucketName": call.bucket}
        raise S3Error("NoSuchPublicAccessBlockConfiguration", fields=fields)
    return xml(found)


def put_block(call: Call) -> Response:
    """PutPublicAccessBlock."""
    call.require_bucket()
    block = parse_block(read_document(call, _DOCUMENT_BYTES_MAX))
    settings.write(call, PUBLIC_ACCESS_BLOCK, block.document())
    return empty(200)


def delete_block(call: Call) -> Response:
    """DeletePublicAccessBlock."""
    call.require_bucket()
    settings.remove(call, PUBLIC_ACCESS_BLOCK)
    return empty(204)


def get_ownership(call: Call) -> Response:
    """GetBucketOwnershipControls."""
    found = settings.read_now(call, OWNERSHIP)
    if not found:
        raise S3Error("OwnershipControlsNotFoundError", fields={"BucketName": call.bucket})
    return xml(ownership_document(found.decode("ascii")))


def put_ownership(call: Call) -> Response:
    """PutBucketOwnershipControls. Without ACLs, none may let others in."""
    headers = call.require_bucket()
    ownership = parse_ownership(read_document(call, _DOCUMENT_BYTES_MAX))
    has_acl = any(headers.get(name, ".") not in ("", ".") for name in _ACLS)
    if ownership == ENFORCED and (has_acl or settings.read_now(call, ACL)):
        raise S3Error("InvalidBucketAclWithObjectOwnership")
    settings.write(call, OWNERSHIP, ownership.encode("ascii"))
    return empty(200)


def delete_ownership(call: Call) -> Response:
    """DeleteBucketOwnershipControls."""
    call.require_bucket()
    settings.remove(call, OWNERSHIP)
    return empty(204)


def ownership_of_header(call: Call) -> dict[str, str]:
    """The headers of a new container for ``x-amz-object-ownership``, empty without it.

    :raises S3Error: it is unknown, or an ACL contradicts it.
    """
    value = call.headers.get("x-amz-object-ownership")
    if value is None:
        return {}
    canned = call.headers.get("x-amz-acl", "private")
    if check_ownership(value) == ENFORCED and canned not in ("private", OWNERS_CANNED):
        raise S3Error("InvalidBucketAclWithObjectOwnership")
    return settings.headers_of(OWNERSHIP, value.encode("ascii"))


def has_acls(call: Call, bucket: str = "") -> bool:
    """Whether ACLs count in the bucket. The client must have been authorized."""
    return settings.read(call, OWNERSHIP, bucket) != ENFORCED.encode("ascii")


def check_acls(call: Call) -> None:
    """:raises S3Error: AccessControlListNotSupported, if ACLs do not count in the bucket."""
    if not has_acls(call):
        raise S3Error("AccessControlListNotSupported")


def check_object_acl(call: Call) -> None:
    """Check that ACLs count, for the ACL in the headers of a write.

    :raises S3Error: AccessControlListNotSupported.
    """
    if call.headers.get("x-amz-acl") != OWNERS_CANNED:
        call.may_see_bucket()  # from now on the account of the bucket is known
        check_acls(call)


OPERATIONS: Mapping[tuple[str, str], Callable[[Call], Response]] = {
    ("GET", "publicAccessBlock"): get_block,
    ("PUT", "publicAccessBlock"): put_block,
    ("DELETE", "publicAccessBlock"): delete_block,
    ("GET", "ownershipControls"): get_ownership,
    ("PUT", "ownershipControls"): put_ownership,
    ("DELETE", "ownershipControls"): delete_ownership,
}

# SPDX-License-Identifier: Apache-2.0
"""Bucket policies: PutBucketPolicy, GetBucketPolicy, DeleteBucketPolicy, GetBucketPolicyStatus.

`guard` enforces them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from martlet.http.response import Response
from proxy.s3 import settings
from proxy.s3.bodies import read_document
from proxy.s3.call import Call, empty, xml
from proxy.s3.policies.guard import POLICY, PUBLIC_ACCESS_BLOCK
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.policy_text import BYTES_MAX, PolicyError, parse_policy
from proxy.s3.wire.public_access import parse_block
from proxy.s3.wire.xml_out import Document


def put_policy(call: Call) -> Response:
    """PutBucketPolicy."""
    call.require_bucket()
    if call.access is None or call.access.client is None:
        text = "The auth filter of this service does not look at policies."
        raise S3Error("NotImplemented", text)
    # One byte more than allowed, so that the error is that of a policy that is too large.
    body = read_document(call, BYTES_MAX + 1)
    if not body:
        raise S3Error("MissingRequestBodyError")
    try:
        policy = parse_policy(body, call.bucket)
    except PolicyError as error:
        raise S3Error("MalformedPolicy", str(error)) from None
    block = settings.read_now(call, PUBLIC_ACCESS_BLOCK)
    if policy.is_public and block and parse_block(block).block_public_policy:
        raise S3Error("AccessDenied", "The public-access block of the bucket forbids this policy.")
    settings.write(call, POLICY, body)
    return empty(204)


def get_policy(call: Call) -> Response:
    """GetBucketPolicy: the text as it was put."""
    return Response(200, {"Content-Type": "application/json"}, _required(call))


def delete_policy(call: Call) -> Response:
    """DeleteBucketPolicy; it is no error if there is none."""
    call.require_bucket()
    settings.remove(call, POLICY)
    return empty(204)


def get_policy_status(call: Call) -> Response:
    """GetBucketPolicyStatus."""
    try:
        is_public = parse_policy(_required(call), call.bucket).is_public
    except PolicyError:
        raise S3Error("InternalError", "The policy of the bucket is damaged.") from None
    document = Document("PolicyStatus")
    document.text("IsPublic", is_public)
    return xml(document.finish())


def _required(call: Call) -> bytes:
    """:raises S3Error: the bucket has no policy."""
    found = settings.read_now(call, POLICY)
    if not found:
        raise S3Error("NoSuchBucketPolicy", fields={"BucketName": call.bucket})
    return found


OPERATIONS: Mapping[tuple[str, str], Callable[[Call], Response]] = {
    ("GET", "policy"): get_policy,
    ("PUT", "policy"): put_policy,
    ("DELETE", "policy"): delete_policy,
    ("GET", "policyStatus"): get_policy_status,
}

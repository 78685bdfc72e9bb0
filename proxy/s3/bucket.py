# SPDX-License-Identifier: Apache-2.0
"""The service and buckets: ListBuckets, CreateBucket, HeadBucket, DeleteBucket, GetBucketLocation.

A bucket is a container of the client's account. The containers of parts, ``<bucket>+segments``,
are not listed, since no bucket may have such a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from martlet.http.headers import Headers
from martlet.http.response import Response
from proxy.crew import for_each
from proxy.middleware.subrequest import Answered
from proxy.replicas.locks import ENABLED_SYSMETA, WITHOUT_RULE
from proxy.s3.acl import container_acl_of_header
from proxy.s3.bodies import read_document
from proxy.s3.call import Call, empty, xml
from proxy.s3.namespace import claim_bucket, release_bucket
from proxy.s3.public_access import ownership_of_header
from proxy.s3.wire.addressing import is_bucket_name
from proxy.s3.wire.errors import S3Error, invalid_argument
from proxy.s3.wire.times import xml_time_of_row
from proxy.s3.wire.xml_in import child_text, parse_xml
from proxy.s3.wire.xml_out import Document

SEGMENTS = "+segments"
_CONFIGURATION_BYTES_MAX = 10240
_LOCK_HEADER = "x-amz-bucket-object-lock-enabled"
_BUCKETS_MAX = 10000


def list_buckets(call: Call) -> Response:
    """ListBuckets."""
    if call.claim.is_anonymous:
        raise S3Error("AccessDenied")
    most = call.number("max-buckets", _BUCKETS_MAX)
    if not 1 <= most <= _BUCKETS_MAX:
        text = f"max-buckets must be between 1 and {_BUCKETS_MAX}"
        raise invalid_argument("max-buckets", str(most), text)
    prefix, token = call.params.get("prefix", ""), call.params.get("continuation-token", "")
    found: list[dict[str, Any]] = []
    last = ""
    for row in _rows_of_account(call, prefix, token):
        if len(found) == most:
            last = str(found[-1]["name"])
            break
        if is_bucket_name(row["name"], call.options.dns_compliant_bucket_names):
            found.append(row)
    document = Document("ListAllMyBucketsResult")
    document.owner("Owner", call.owner_id)
    with document.inside("Buckets"):
        for row in found:
            with document.inside("Bucket"):
                document.text("Name", row["name"])
                document.text("CreationDate", xml_time_of_row(row["last_modified"]))
    if last:
        document.text("ContinuationToken", last)
    if prefix:
        document.text("Prefix", prefix)
    return xml(document.finish())


def _rows_of_account(call: Call, prefix: str, marker: str) -> Iterable[dict[str, Any]]:
    """All rows after ``marker``, page by page."""
    while True:
        query = {"marker": marker} if marker else {}
        rows = call.listing("", {**query, "prefix": prefix} if prefix else query)
        yield from rows
        if not rows:
            return
        marker = rows[-1]["name"]


def create_bucket(call: Call) -> Response:
    """CreateBucket."""
    acl = container_acl_of_header(call)
    body = read_document(call, _CONFIGURATION_BYTES_MAX)
    if body:
        _check_location(call, body)
    answered = _put_container(call, {**acl, **ownership_of_header(call), **_object_lock(call)})
    if answered.status == 202:
        raise S3Error("BucketAlreadyOwnedByYou", fields={"BucketName": call.bucket})
    return empty(200, {"Location": f"/{call.bucket}"})


def _object_lock(call: Call) -> Mapping[str, str]:
    """The headers of a bucket with object lock. It has versioning, for good.

    :raises S3Error: the header is malformed.
    """
    value = call.headers.get(_LOCK_HEADER, "false").lower()
    if value not in ("true", "false"):
        raise invalid_argument(_LOCK_HEADER, value)
    if value == "false":
        return {}
    return {"x-versions-enabled": "true", ENABLED_SYSMETA: WITHOUT_RULE}


def _put_container(call: Call, acl: Mapping[str, str]) -> Answered:
    """Make the bucket. In one namespace for the cluster, its name is claimed first."""
    if call.owner_of is None:
        return _put(call, acl)
    is_new = claim_bucket(call, call.bucket)
    call.forget_owners()
    try:
        return _put(call, acl)
    except S3Error:
        if is_new:
            release_bucket(call, call.bucket)
        raise


def _put(call: Call, acl: Mapping[str, str]) -> Answered:
    """PUT of the container, unless it is there: the headers would change it."""
    if acl and call.ask("HEAD", call.bucket, allowed=(404,)).is_success:
        return Answered(202, Headers(), b"")
    return call.ask("PUT", call.bucket, headers=acl)


def _check_location(call: Call, body: bytes) -> None:
    location = child_text(parse_xml(body, "CreateBucketConfiguration"), "LocationConstraint")
    if location is not None and location.lower() != call.options.location.lower():
        fields = {"LocationConstraint": location}
        raise S3Error("InvalidLocationConstraint", fields=fields)


def head_bucket(call: Call) -> Response:
    """HeadBucket."""
    call.require_bucket()
    return empty(200, {"x-amz-bucket-region": call.options.location,
                       "Content-Type": "application/xml"})  # fmt: skip


def delete_bucket(call: Call) -> Response:
    """DeleteBucket. What is left of uploads that were neither completed nor aborted goes with it.

    The bucket is deleted before its parts: a bucket that is not empty keeps its uploads.
    """
    call.ask("DELETE", call.bucket)
    _delete_all_parts(call)
    if call.owner_of is not None:
        release_bucket(call, call.bucket)
    return empty(204)


def _delete_all_parts(call: Call) -> None:
    parts = f"{call.bucket}{SEGMENTS}"
    marker = ""
    while True:
        try:
            rows = call.listing(parts, {"marker": marker} if marker else {})
        except S3Error as error:
            if error.code == "NoSuchBucket":
                return
            raise
        if not rows:
            break
        delete_parts(call, parts, [str(row["name"]) for row in rows])
        marker = rows[-1]["name"]
    call.ask("DELETE", parts, allowed=(404, 409))


def delete_parts(
    call: Call,
    container: str,
    names: Sequence[str],
    headers: Mapping[str, str] | None = None,
) -> None:
    """Delete objects of a container of parts, several at a time.

    :raises S3Error: one was not deleted. The others may be.
    """

    def delete_one(name: str) -> None:
        call.ask("DELETE", container, name, headers=headers, allowed=(404,))

    for_each(delete_one, names, call.options.multi_delete_concurrency)


def get_location(call: Call) -> Response:
    """GetBucketLocation. The first region of Amazon is an empty text, as there."""
    call.require_bucket()
    location = call.options.location
    document = Document("LocationConstraint")
    document.content("" if location == "us-east-1" else location)
    return xml(document.finish())

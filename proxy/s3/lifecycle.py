# SPDX-License-Identifier: Apache-2.0
"""The lifecycle rules of buckets; a job of the object servers carries them out."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache

from martlet.http.response import Response
from proxy.s3 import settings
from proxy.s3.bodies import read_document
from proxy.s3.call import Call, empty, xml
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.lifecycle import Facts, Rule, document_of, expiry_of, rules_of
from proxy.s3.wire.lifecycle_xml import rules_of_xml, xml_of_rules
from proxy.s3.wire.tags import tags_of_stored

_NAME = "Lifecycle"
#: 1,000 rules with long names and ten tags each.
_DOCUMENT_BYTES_MAX = 4 * 1024 * 1024
_HEADER = "x-amz-expiration"


def get_lifecycle(call: Call) -> Response:
    """GetBucketLifecycleConfiguration."""
    document = settings.read_now(call, _NAME)
    if document is None:
        raise S3Error("NoSuchLifecycleConfiguration", fields={"BucketName": call.bucket})
    return xml(xml_of_rules(_rules(document)))


def put_lifecycle(call: Call) -> Response:
    """PutBucketLifecycleConfiguration."""
    call.require_bucket()
    rules = rules_of_xml(read_document(call, _DOCUMENT_BYTES_MAX))
    settings.write(call, _NAME, document_of(rules))
    return empty(200)


def delete_lifecycle(call: Call) -> Response:
    """DeleteBucketLifecycle."""
    settings.remove(call, _NAME)
    return empty(204)


def expiration(call: Call, facts: Callable[[], Facts | None]) -> dict[str, str]:
    """The header that tells when the object of the request expires; empty if it does not.

    The client must have been authorized before.

    :param facts: the current version, asked for if the bucket has rules; None if no rule holds.
    """
    try:
        document = settings.read(call, _NAME)
        rules = () if document is None else _rules(document)
    except S3Error:  # GetBucketLifecycleConfiguration tells it; the object was served
        return {}
    known = facts() if rules else None
    expiry = None if known is None else expiry_of(rules, known)
    return {} if expiry is None else {_HEADER: expiry.header()}


def expiration_of_new(call: Call, size: int, tags: str | None) -> dict[str, str]:
    """The same header after a write of the object.

    :param size: in bytes.
    :param tags: as they are stored.
    """
    return expiration(call, lambda: Facts(call.key, size, tags_of_stored(tags), time.time()))


@lru_cache(maxsize=64)
def _rules(document: bytes) -> tuple[Rule, ...]:
    try:
        return tuple(rules_of(document))
    except ValueError:
        text = "The lifecycle rules of the bucket are damaged. Write them again."
        raise S3Error("InternalError", text) from None

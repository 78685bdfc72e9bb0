# SPDX-License-Identifier: Apache-2.0
"""Settings of buckets that are documents: a policy, rules of a lifecycle, rules for CORS.

A document is system metadata of the container, so it is replicated with it, goes with it, and is in
the cached information about it. ``doc/formats/s3-settings.md`` has the form. One request writes all
pieces of a document. So replicas that merge two writes keep all of one or all of the other.
"""

from __future__ import annotations

from proxy.s3.call import Call
from proxy.s3.wire.stored_documents import SYSMETA, document_of, headers_of

__all__ = ["document_of", "headers_of", "read", "read_now", "remove", "write"]


def read(call: Call, name: str, bucket: str = "") -> bytes | None:
    """The document of a bucket, from the cached information; None if it has none.

    The client must have been authorized before, or the caller decides about its rights.

    :param name: letters of ASCII, e.g. ``Policy``.
    :param bucket: the one of the request if it is empty.
    :raises S3Error: the bucket does not exist, or the document cannot be read.
    """
    return document_of(call.info(bucket or call.bucket)["sysmeta"], name)


def read_now(call: Call, name: str) -> bytes | None:
    """The document of the bucket, from the servers, for the answer to a GET of a setting.

    :raises S3Error: the bucket does not exist, the client may not see it, or the document cannot be
        read.
    """
    headers = call.require_bucket().items()
    start = len(SYSMETA)
    sysmeta = {
        key.lower()[start:]: str(value)
        for key, value in headers
        if key.lower().startswith(SYSMETA.lower())
    }
    return document_of(sysmeta, name)


def write(call: Call, name: str, document: bytes) -> None:
    """Store the document of the bucket, as the client.

    :raises S3Error: the client may not, or the document is too large.
    """
    call.ask("POST", call.bucket, headers=headers_of(name, document))


def remove(call: Call, name: str) -> None:
    """Remove the document of the bucket, as the client; it is no error if there is none.

    :raises S3Error: the client may not.
    """
    call.ask("POST", call.bucket, headers=headers_of(name, b""))

# SPDX-License-Identifier: Apache-2.0
"""Settings of buckets that cannot be changed: what a GET tells of them.

Nothing here can be set, so a GET answers as Amazon does for a bucket without the setting. A PUT is
accepted if it asks for what is the case anyway. Else it is refused, and so is a DELETE.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from martlet.http.response import Response
from proxy.s3.bodies import read_document
from proxy.s3.call import Call, empty, xml
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.xml_in import child_text, parse_xml
from proxy.s3.wire.xml_out import Document

_DOCUMENT_BYTES_MAX = 10240
_PAYER = "BucketOwner"
#: Sub-resource -> the error that says that there is none.
_NONE: Mapping[str, str] = {
    "replication": "ReplicationConfigurationNotFoundError",
}
#: Sub-resource -> the root of the empty document that says that there is none.
_EMPTY: Mapping[str, str] = {
    "accelerate": "AccelerateConfiguration",
}


def _absent(code: str) -> Callable[[Call], Response]:
    def get(call: Call) -> Response:
        call.require_bucket()
        raise S3Error(code, fields={"BucketName": call.bucket})

    return get


def _empty(root: str) -> Callable[[Call], Response]:
    def get(call: Call) -> Response:
        call.require_bucket()
        return xml(Document(root).finish())

    return get


def get_request_payment(call: Call) -> Response:
    """GetBucketRequestPayment: requests cost nothing."""
    call.require_bucket()
    document = Document("RequestPaymentConfiguration")
    document.text("Payer", _PAYER)
    return xml(document.finish())


def put_request_payment(call: Call) -> Response:
    """PutBucketRequestPayment, with the owner as the payer."""
    call.require_bucket()
    root = parse_xml(read_document(call, _DOCUMENT_BYTES_MAX), "RequestPaymentConfiguration")
    payer = child_text(root, "Payer")
    if payer == "Requester":
        raise S3Error("NotImplemented", "Requester pays is not implemented.")
    if payer != _PAYER:
        raise S3Error("MalformedXML")
    return empty(200)


OPERATIONS: Mapping[tuple[str, str], Callable[[Call], Response]] = {
    **{("GET", name): _absent(code) for name, code in _NONE.items()},
    **{("GET", name): _empty(root) for name, root in _EMPTY.items()},
    ("GET", "requestPayment"): get_request_payment,
    ("PUT", "requestPayment"): put_request_payment,
}

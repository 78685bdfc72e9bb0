# SPDX-License-Identifier: Apache-2.0
"""Encryption by the server (SSE-S3), as far as the filter ``encryption`` does it.

The filter encrypts all new objects or none, so requests and buckets cannot choose. What asks for
the case anyway is accepted, and anything else is refused: nothing is stored without what was asked.
"""

from __future__ import annotations

from collections.abc import Mapping

from martlet.http.headers import Headers
from martlet.http.response import Response
from proxy.info_registry import admin_info
from proxy.s3.bodies import read_document
from proxy.s3.call import Call, empty, xml
from proxy.s3.customer_keys import Sealing
from proxy.s3.wire.customer_key import ALGORITHM, CustomerKey
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.xml_in import child_text, children, parse_xml
from proxy.s3.wire.xml_out import Document

_HEADER = "x-amz-server-side-encryption"
_ROOT = "ServerSideEncryptionConfiguration"
_DEFAULT = "ApplyServerSideEncryptionByDefault"
_DOCUMENT_BYTES_MAX = 10240
_KMS = ("aws:kms", "aws:kms:dsse")
#: Of an answer about an object whose body the filter has decrypted.
_DECRYPTED = "x-backend-crypto-cipher"


def encrypts() -> bool:
    """Whether the filter encrypts new objects."""
    return bool(admin_info("encryption").get("enabled"))


def _check(algorithm: str) -> None:
    """:raises S3Error: new objects are not encrypted in this way."""
    if algorithm in _KMS:
        raise S3Error("NotImplemented", "Encryption with keys of a KMS is not implemented.")
    if algorithm != ALGORITHM:
        raise S3Error("InvalidEncryptionAlgorithmError")
    if not encrypts():
        text = "Encryption is not switched on here, so objects would be stored in the clear."
        raise S3Error("NotImplemented", text)


def check_encryption(headers: Mapping[str, str]) -> None:
    """:raises S3Error: a request asks for an encryption that it would not get."""
    if headers.get(_HEADER):
        _check(headers[_HEADER])


def is_decrypted(stored: Headers) -> bool:
    """Whether the filter has decrypted the object with these headers."""
    return _DECRYPTED in stored


def shown_encryption(sealing: Sealing | None) -> dict[str, str]:
    """The headers of the answer to a write."""
    if sealing is not None:
        return sealing.shown
    return {_HEADER: ALGORITHM} if encrypts() else {}


def shown_of_stored(key: CustomerKey | None, stored: Headers) -> dict[str, str]:
    """The headers of an answer about an object; ``key`` is the client's that encrypts it."""
    if key is not None:
        return key.shown()
    return {_HEADER: ALGORITHM} if is_decrypted(stored) else {}


def get_encryption(call: Call) -> Response:
    """GetBucketEncryption."""
    call.require_bucket()
    if not encrypts():
        code = "ServerSideEncryptionConfigurationNotFoundError"
        raise S3Error(code, fields={"BucketName": call.bucket})
    document = Document(_ROOT)
    with document.inside("Rule"):
        with document.inside(_DEFAULT):
            document.text("SSEAlgorithm", ALGORITHM)
        document.text("BucketKeyEnabled", False)
    return xml(document.finish())


def put_encryption(call: Call) -> Response:
    """PutBucketEncryption, with what is the case anyway."""
    call.require_bucket()
    root = parse_xml(read_document(call, _DOCUMENT_BYTES_MAX), _ROOT)
    rules = list(children(root, "Rule"))
    defaults = [found for rule in rules for found in children(rule, _DEFAULT)]
    algorithm = child_text(defaults[0], "SSEAlgorithm") if len(defaults) == 1 else None
    if len(rules) != 1 or algorithm not in (ALGORITHM, *_KMS):
        raise S3Error("MalformedXML")
    if child_text(defaults[0], "KMSMasterKeyID") and algorithm == ALGORITHM:
        text = "a KMSMasterKeyID is not applicable if the default sse algorithm is not aws:kms"
        raise S3Error("InvalidArgument", text)
    _check(algorithm)
    return empty(200)


def delete_encryption(call: Call) -> Response:
    """DeleteBucketEncryption: the default of the cluster is what is left."""
    call.require_bucket()
    return empty(204)

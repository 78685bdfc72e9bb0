# SPDX-License-Identifier: Apache-2.0
"""GetBucketVersioning and PutBucketVersioning, onto the native versions of objects."""

from __future__ import annotations

from martlet.conf.options import is_true
from martlet.http.response import Response
from proxy.replicas.locks import ENABLED_SYSMETA
from proxy.s3.bodies import read_document
from proxy.s3.call import Call, empty, xml
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.xml_in import child_text, parse_xml
from proxy.s3.wire.xml_out import Document

_BODY_BYTES_MAX = 10240
_LOCKED = (
    "An Object Lock configuration is present on this bucket, so the versioning state cannot be "
    "changed."
)


def get_versioning(call: Call) -> Response:
    """GetBucketVersioning; without a status if the bucket never had versioning."""
    enabled = call.require_bucket().get("x-versions-enabled")
    document = Document("VersioningConfiguration")
    if enabled:
        document.text("Status", "Enabled" if is_true(enabled) else "Suspended")
    return xml(document.finish())


def put_versioning(call: Call) -> Response:
    """PutBucketVersioning."""
    bucket = call.require_bucket()
    root = parse_xml(read_document(call, _BODY_BYTES_MAX), "VersioningConfiguration")
    status = child_text(root, "Status")
    if child_text(root, "MfaDelete") == "Enabled":
        raise S3Error("NotImplemented", "MFA delete is not implemented.")
    if status is None:
        raise S3Error("IllegalVersioningConfigurationException")
    if status not in ("Enabled", "Suspended"):
        raise S3Error("MalformedXML")
    if status == "Suspended" and bucket.get(ENABLED_SYSMETA):
        raise S3Error("InvalidBucketState", _LOCKED)
    enabled = "true" if status == "Enabled" else "false"
    call.ask("POST", call.bucket, headers={"x-versions-enabled": enabled})
    return empty(200)

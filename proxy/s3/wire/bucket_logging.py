# SPDX-License-Identifier: Apache-2.0
"""The logging of a bucket: where the lines about its requests go."""

from __future__ import annotations

from typing import NamedTuple

from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.xml_in import child_text, children, local_name, parse_xml
from proxy.s3.wire.xml_out import Document

#: The name of the setting of a bucket.
SETTING = "Logging"
_ROOT = "BucketLoggingStatus"
_PREFIX_BYTES_MAX = 800
_KNOWN = frozenset({"TargetBucket", "TargetPrefix", "TargetObjectKeyFormat"})


class LogTarget(NamedTuple):
    """A bucket, and the beginning of the keys of its log objects."""

    bucket: str
    prefix: str


def target_of_xml(body: bytes) -> LogTarget | None:
    """The target in a document ``BucketLoggingStatus``; None if it ends the logging.

    :raises S3Error: MalformedXML, InvalidArgument or NotImplemented.
    """
    root = parse_xml(body, _ROOT)
    enabled = next(children(root, "LoggingEnabled"), None)
    if enabled is None:
        if len(root):
            raise S3Error("MalformedXML")
        return None
    for child in enabled:
        name = local_name(child)
        is_simple = all(local_name(form) == "SimplePrefix" for form in child)
        if name not in _KNOWN or (name == "TargetObjectKeyFormat" and not is_simple):
            raise S3Error("NotImplemented", f"{name} of this form is not implemented.")
    bucket = child_text(enabled, "TargetBucket") or ""
    prefix = next((child.text or "" for child in children(enabled, "TargetPrefix")), None)
    if not bucket or prefix is None:
        raise S3Error("MalformedXML")
    if len(prefix.encode("utf-8")) > _PREFIX_BYTES_MAX:
        text = f"A TargetPrefix may have {_PREFIX_BYTES_MAX} bytes."
        raise S3Error("InvalidArgument", text)
    return LogTarget(bucket, prefix)


def xml_of_target(target: LogTarget | None) -> bytes:
    """The document about a target."""
    document = Document(_ROOT)
    if target is not None:
        with document.inside("LoggingEnabled"):
            document.text("TargetBucket", target.bucket)
            document.text("TargetPrefix", target.prefix)
    return document.finish()

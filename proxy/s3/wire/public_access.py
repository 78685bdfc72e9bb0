# SPDX-License-Identifier: Apache-2.0
"""The public-access block and the ownership controls of a bucket: their documents."""

from __future__ import annotations

from typing import NamedTuple

from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.xml_in import child_text, children, parse_xml
from proxy.s3.wire.xml_out import Document

ENFORCED = "BucketOwnerEnforced"
_OWNERSHIPS = (ENFORCED, "BucketOwnerPreferred", "ObjectWriter")
_FLAGS = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
_BLOCK_ROOT, _OWNERSHIP_ROOT = "PublicAccessBlockConfiguration", "OwnershipControls"


class PublicAccessBlock(NamedTuple):
    """A public-access block; the names of the fields are Amazon's."""

    block_public_acls: bool = False
    ignore_public_acls: bool = False
    block_public_policy: bool = False
    restrict_public_buckets: bool = False

    def document(self) -> bytes:
        """The XML, which is also what is stored."""
        document = Document(_BLOCK_ROOT)
        for name, value in zip(_FLAGS, self, strict=True):
            document.text(name, value)
        return document.finish()


def parse_block(body: bytes) -> PublicAccessBlock:
    """Read a public-access block.

    :raises S3Error: MalformedXML.
    """
    root = parse_xml(body, _BLOCK_ROOT)
    values = [(child_text(root, name) or "false").lower() for name in _FLAGS]
    if any(value not in ("true", "false") for value in values):
        raise S3Error("MalformedXML")
    return PublicAccessBlock(*(value == "true" for value in values))


def parse_ownership(body: bytes) -> str:
    """Read ownership controls.

    :raises S3Error: MalformedXML.
    """
    rules = list(children(parse_xml(body, _OWNERSHIP_ROOT), "Rule"))
    if len(rules) != 1:
        raise S3Error("MalformedXML")
    return check_ownership(child_text(rules[0], "ObjectOwnership") or "", "MalformedXML")


def check_ownership(value: str, code: str = "InvalidArgument") -> str:
    """The value itself.

    :raises S3Error: with the code, if there is no such ownership.
    """
    if value not in _OWNERSHIPS:
        raise S3Error(code)
    return value


def ownership_document(value: str) -> bytes:
    """The XML of ownership controls."""
    document = Document(_OWNERSHIP_ROOT)
    with document.inside("Rule"):
        document.text("ObjectOwnership", value)
    return document.finish()

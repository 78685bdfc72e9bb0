# SPDX-License-Identifier: Apache-2.0
"""ACLs: canned ones, as ACLs of the container. Objects have those of their bucket.

The mapping is that of OpenStack Swift's s3api without ``s3_acl``.
"""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree.ElementTree import Element

from martlet.http.response import Response
from proxy.middleware.auth.acl import parse_acl, referrer_allowed
from proxy.s3.bodies import read_document
from proxy.s3.call import Call, empty, xml
from proxy.s3.public_access import check_acls
from proxy.s3.wire.errors import S3Error, invalid_argument
from proxy.s3.wire.xml_in import child_text, children, parse_xml
from proxy.s3.wire.xml_out import Document

_ALL_USERS = "http://acs.amazonaws.com/groups/global/AllUsers"
_DOCUMENT_BYTES_MAX = 200 * 1024
_READ, _WRITE = "X-Container-Read", "X-Container-Write"
_PRIVATE = {_READ: ".", _WRITE: "."}
_CANNED: Mapping[str, Mapping[str, str]] = {
    "private": _PRIVATE,
    "bucket-owner-full-control": _PRIVATE,
    "bucket-owner-read": _PRIVATE,
    "public-read": {_READ: ".r:*,.rlistings"},
    "public-read-write": {_READ: ".r:*,.rlistings", _WRITE: ".r:*"},
}
_UNSUPPORTED = ("authenticated-read", "log-delivery-write", "aws-exec-read")


def container_acl_of_header(call: Call) -> Mapping[str, str]:
    """The headers of a container for ``x-amz-acl``, empty without it.

    :raises S3Error: it is unknown or not supported.
    """
    canned = call.headers.get("x-amz-acl")
    if canned is None:
        return {}
    if canned in _UNSUPPORTED:
        raise S3Error("NotImplemented", f"The canned ACL {canned} is not implemented.")
    if canned not in _CANNED:
        raise invalid_argument("x-amz-acl", canned)
    return _CANNED[canned]


def get_acl(call: Call) -> Response:
    """GetBucketAcl and GetObjectAcl."""
    headers = call.require_bucket()
    if call.key:
        call.ask("HEAD", call.bucket, call.key)
    document = Document("AccessControlPolicy")
    document.owner("Owner", call.owner_id)
    with document.inside("AccessControlList"):
        with document.inside("Grant"):
            with document.inside("Grantee", document.grantee("CanonicalUser")):
                document.text("ID", call.owner_id)
                document.text("DisplayName", call.owner_id)
            document.text("Permission", "FULL_CONTROL")
        for name, permission in ((_READ, "READ"), (_WRITE, "WRITE")):
            if referrer_allowed("unknown", parse_acl(headers.get(name)).referrers):
                with document.inside("Grant"):
                    with document.inside("Grantee", document.grantee("Group")):
                        document.text("URI", _ALL_USERS)
                    document.text("Permission", permission)
    return xml(document.finish())


def put_bucket_acl(call: Call) -> Response:
    """PutBucketAcl, by x-amz-acl or by a document that says the same as a canned ACL."""
    from_header = container_acl_of_header(call)
    call.require_bucket()
    body = read_document(call, _DOCUMENT_BYTES_MAX)
    check_acls(call)
    if body and from_header:
        raise S3Error("UnexpectedContent")
    if not body and not from_header:
        raise S3Error("MissingSecurityHeader", fields={"MissingHeaderName": "x-amz-acl"})
    headers = from_header or _CANNED[_canned_of(parse_xml(body, "AccessControlPolicy",
                                                          "MalformedACLError"))]  # fmt: skip
    call.ask("POST", call.bucket, headers={_READ: "", _WRITE: "", **headers})
    return empty(200)


def put_object_acl(call: Call) -> Response:
    """PutObjectAcl: an object has no ACL of its own, so only what changes nothing is accepted."""
    raise S3Error("NotImplemented", "ACLs of single objects are not implemented.")


def _canned_of(policy: Element) -> str:
    """The canned ACL with the same grants.

    :raises S3Error: there is none.
    """
    canned = ""
    for control in children(policy, "AccessControlList"):
        for grant in children(control, "Grant"):
            kind = _kind_of(next(children(grant, "Grantee"), None))
            permission = child_text(grant, "Permission")
            if permission == "FULL_CONTROL" and kind == "CanonicalUser":
                canned = canned or "private"
            elif permission == "READ" and kind == "Group":
                canned = "public-read" if canned != "public-read-write" else canned
            elif permission == "WRITE" and kind == "Group":
                canned = "public-read-write"
            else:
                raise S3Error("NotImplemented", "Such grants are not implemented.")
    if not canned:
        raise S3Error("MalformedACLError")
    return canned


def _kind_of(grantee: Element | None) -> str:
    if grantee is None:
        raise S3Error("MalformedACLError")
    kinds = [value for name, value in grantee.attrib.items() if name.rpartition("}")[2] == "type"]
    if kinds == ["Group"] and child_text(grantee, "URI") not in (None, _ALL_USERS):
        raise S3Error("NotImplemented", "Grants to this group are not implemented.")
    return kinds[0] if kinds else ""

# SPDX-License-Identifier: Apache-2.0
"""ACLs as lists of grants: canned ones, those in headers, their XML, and their stored form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from xml.etree.ElementTree import Element

from proxy.s3.wire.errors import S3Error, invalid_argument
from proxy.s3.wire.policy import Client
from proxy.s3.wire.xml_in import child_text, children
from proxy.s3.wire.xml_out import Document

ALL_USERS, AUTHENTICATED_USERS, LOG_DELIVERY = "*all", "*authenticated", "*logs"
_GROUPS = {
    "http://acs.amazonaws.com/groups/global/AllUsers": ALL_USERS,
    "http://acs.amazonaws.com/groups/global/AuthenticatedUsers": AUTHENTICATED_USERS,
    "http://acs.amazonaws.com/groups/s3/LogDelivery": LOG_DELIVERY,
}
_URIS = {group: uri for uri, group in _GROUPS.items()}
PUBLIC_GROUPS = frozenset([ALL_USERS, AUTHENTICATED_USERS])
PERMISSIONS = ("READ", "WRITE", "READ_ACP", "WRITE_ACP", "FULL_CONTROL")
#: The header that stores those of an object; a POST replaces it.
OBJECT_ACL = "X-Object-Transient-Sysmeta-S3Api-Acl"
#: The canned ACL of an object that only says what is so anyway.
OWNERS_CANNED = "bucket-owner-full-control"
_HEADER = "x-amz-grant-"
_GRANTS_MAX = 100
_STORED_BYTES_MAX = 4096
_GRANTEE = re.compile(r'\s*(id|uri|emailAddress)\s*=\s*"?([^",]+)"?\s*')
#: Of canned ACLs that exist for buckets and objects; the owner's grant is left out.
_READ_ALL = ((ALL_USERS, "READ"),)
CANNED: Mapping[str, tuple[tuple[str, str], ...]] = {
    "private": (),
    "bucket-owner-full-control": (),
    "bucket-owner-read": (),
    "public-read": _READ_ALL,
    "public-read-write": (*_READ_ALL, (ALL_USERS, "WRITE")),
    "authenticated-read": ((AUTHENTICATED_USERS, "READ"),),
    "log-delivery-write": ((LOG_DELIVERY, "WRITE"), (LOG_DELIVERY, "READ_ACP")),
}


class Grant(NamedTuple):
    """A permission for a grantee: a group, or a user by id."""

    grantee: str
    permission: str

    def is_for(self, client: Client) -> bool:
        """Whether the client is meant."""
        if self.grantee == ALL_USERS:
            return True
        if self.grantee == AUTHENTICATED_USERS:
            return bool(client.account)
        return bool(client.grantee) and self.grantee == client.grantee


Grants = tuple[Grant, ...]


def permits(grants: Iterable[Grant], client: Client, permission: str) -> bool:
    """Whether the grants give a permission to a client."""
    wanted = (permission, "FULL_CONTROL")
    return any(grant.permission in wanted and grant.is_for(client) for grant in grants)


def is_public(grants: Iterable[Grant]) -> bool:
    """Whether they give something to all users, or to all that have signed."""
    return any(grant.grantee in PUBLIC_GROUPS for grant in grants)


def without_public(grants: Grants) -> Grants:
    """The grants to others than those."""
    return tuple(grant for grant in grants if grant.grantee not in PUBLIC_GROUPS)


def has_grants(headers: Mapping[str, str]) -> bool:
    """Whether a request has an ACL in its headers."""
    return "x-amz-acl" in headers or any(name.startswith(_HEADER) for name in headers)


def grants_of_headers(headers: Mapping[str, str]) -> Grants | None:
    """The grants in ``x-amz-acl`` or ``x-amz-grant-…``; None without them.

    :raises S3Error: they are malformed, or both are there.
    """
    canned = headers.get("x-amz-acl")
    listed = {name: value for name, value in headers.items() if name.startswith(_HEADER)}
    if canned is not None and listed:
        text = "Specifying both Canned ACLs and Header Grants is not allowed"
        raise S3Error("InvalidRequest", text)
    if canned is not None:
        if canned == "aws-exec-read":
            raise S3Error("NotImplemented", f"The canned ACL {canned} is not implemented.")
        if canned not in CANNED:
            raise invalid_argument("x-amz-acl", canned)
        return tuple(Grant(*grant) for grant in CANNED[canned])
    if not listed:
        return None
    found: list[Grant] = []
    for name, value in listed.items():
        permission = name.removeprefix(_HEADER).upper().replace("-", "_")
        if permission not in PERMISSIONS:
            raise invalid_argument(name, value)
        found += [_listed(name, item, permission) for item in value.split(",")]
    return _checked(found)


def _listed(name: str, text: str, permission: str) -> Grant:
    match = _GRANTEE.fullmatch(text)
    if match is None:
        raise invalid_argument(name, text, "Argument format not recognized")
    return Grant(_grantee(match[1], match[2]), permission)


def _grantee(kind: str, value: str) -> str:
    if kind == "uri":
        if value not in _GROUPS:
            raise S3Error("InvalidArgument", "Invalid group uri")
        return _GROUPS[value]
    if kind != "id":
        text = "Users have no addresses here: name the id of the grantee."
        raise S3Error("NotImplemented", text)
    if not value or value.startswith("*") or len(value) > 256:
        raise S3Error("InvalidArgument", "Invalid id")
    return value


def grants_of_xml(root: Element, owner: str) -> Grants:
    """The grants of an AccessControlPolicy, without those for the owner.

    :raises S3Error: it is malformed.
    """
    lists = list(children(root, "AccessControlList"))
    if len(lists) != 1:
        raise S3Error("MalformedACLError")
    found = []
    for element in children(lists[0], "Grant"):
        grantee = next(children(element, "Grantee"), None)
        permission = child_text(element, "Permission")
        if grantee is None or permission not in PERMISSIONS:
            raise S3Error("MalformedACLError")
        kinds = [v for n, v in grantee.attrib.items() if n.rpartition("}")[2] == "type"]
        fields = {"CanonicalUser": ("id", "ID"), "Group": ("uri", "URI")}
        kind, field = fields.get(kinds[0] if kinds else "", ("email", "EmailAddress"))
        value = child_text(grantee, field)
        if not kinds or not value:
            raise S3Error("MalformedACLError")
        found.append(Grant(_grantee(kind, value), permission))
    return _checked([grant for grant in found if grant.grantee != owner])


def _checked(grants: list[Grant]) -> Grants:
    unique = tuple(dict.fromkeys(grants))
    if len(unique) > _GRANTS_MAX or len(stored_text(unique)) > _STORED_BYTES_MAX:
        raise S3Error("InvalidRequest", f"An ACL may have {_GRANTS_MAX} grants of 4 KiB together.")
    return unique


def stored_text(grants: Grants) -> str:
    """The grants as a header stores them, in ASCII; empty without grants."""
    return json.dumps(grants, separators=(",", ":")) if grants else ""


def grants_of_stored(text: str | None) -> Grants:
    """The grants of such a text; none if it is damaged."""
    try:
        return tuple(Grant(str(grantee), str(right)) for grantee, right in json.loads(text or "[]"))
    except (ValueError, TypeError):
        return ()


def write_grant(document: Document, grant: Grant) -> None:
    """Add the XML of a grant."""
    uri = _URIS.get(grant.grantee)
    with document.inside("Grant"):
        kind = "CanonicalUser" if uri is None else "Group"
        with document.inside("Grantee", document.grantee(kind)):
            if uri is None:
                document.text("ID", grant.grantee)
                document.text("DisplayName", grant.grantee)
            else:
                document.text("URI", uri)
        document.text("Permission", grant.permission)

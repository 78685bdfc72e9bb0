# SPDX-License-Identifier: Apache-2.0
"""ACLs of buckets and of objects: GetBucketAcl, PutBucketAcl, GetObjectAcl, PutObjectAcl.

What lets all clients read a bucket is the ACL of the container, so Swift's API has it too; the
mapping is that of OpenStack Swift's s3api without ``s3_acl``. Other grants of a bucket are a
setting, those of an object are system metadata of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from martlet.http.headers import Headers
from martlet.http.response import Response
from proxy.middleware.auth.acl import parse_acl, referrer_allowed
from proxy.middleware.subrequest import ask_app
from proxy.s3 import settings
from proxy.s3.bodies import read_document
from proxy.s3.call import Call, empty, xml
from proxy.s3.objects import head_version
from proxy.s3.policies.acts import OBJECT_PERMISSIONS, SEGMENTS, is_granted
from proxy.s3.policies.guard import ACL, PUBLIC_ACCESS_BLOCK
from proxy.s3.public_access import check_acls, check_object_acl, has_acls
from proxy.s3.replaced import replace_metadata
from proxy.s3.wire.acl import (
    ALL_USERS,
    OBJECT_ACL,
    Grant,
    Grants,
    grants_of_headers,
    grants_of_stored,
    grants_of_xml,
    has_grants,
    is_public,
    stored_text,
    without_public,
    write_grant,
)
from proxy.s3.wire.addressing import check_key
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.public_access import parse_block
from proxy.s3.wire.xml_in import parse_xml
from proxy.s3.wire.xml_out import Document

_DOCUMENT_BYTES_MAX = 200 * 1024
_READ, _WRITE = "X-Container-Read", "X-Container-Write"
_READ_BY_ALL = Grant(ALL_USERS, "READ")


def container_acl_of_header(call: Call) -> Mapping[str, str]:
    """The headers of a container for the ACL in the headers of a request, empty without one.

    :raises S3Error: it is malformed or not supported.
    """
    grants = grants_of_headers(call.headers)
    return {} if grants is None else _container_headers(grants)


def _container_headers(grants: Grants) -> dict[str, str]:
    others = tuple(grant for grant in grants if grant != _READ_BY_ALL)
    headers = settings.headers_of(ACL, stored_text(others).encode("ascii"))
    headers |= {_READ: ".", _WRITE: "."}
    if _READ_BY_ALL in grants:
        headers[_READ] = ".r:*,.rlistings"
    return headers


def object_acl_of_header(call: Call) -> dict[str, str]:
    """The stored header of a new object for the ACL in the headers of a request.

    :raises S3Error: it is malformed or not supported, or the bucket does not allow it.
    """
    grants = grants_of_headers(call.headers)
    if grants is None:
        return {}
    check_object_acl(call)
    if is_public(grants):
        call.may_see_bucket()  # from now on the account of the bucket is known
        _check_block(call)
    return {OBJECT_ACL: stored_text(grants)} if grants else {}


def _check_block(call: Call) -> None:
    """:raises S3Error: AccessDenied, if the bucket has a block of public ACLs."""
    block = settings.read(call, PUBLIC_ACCESS_BLOCK)
    if block and parse_block(block).block_public_acls:
        text = "The public-access block of the bucket forbids this ACL."
        raise S3Error("AccessDenied", text)


def with_lent(call: Call, operation: Callable[[Call], Response]) -> Response:
    """The response of the operation. What an ACL lends to the client is asked for once more.

    :raises S3Error: the operation fails, or the client has no right to it.
    """
    try:
        return operation(call)
    except S3Error as error:
        if error.code != "AccessDenied" or not _is_lent(call):
            raise
    return operation(call)


def _is_lent(call: Call) -> bool:
    """Whether the ACL of an object allows what was refused; the request can then be repeated."""
    access = call.access
    if access is None or access.client is None or access.refused is None or access.is_denied:
        return False
    act = access.refused
    known = frozenset[str]().union(*OBJECT_PERMISSIONS.values())
    if act.name in access.lent or not act.key or known.isdisjoint(act.actions):
        return False
    query = {"version-id": act.version} if act.version else {}
    request = call.request("HEAD", act.bucket, act.key, query=query, pre_authorized=True)
    grants = grants_of_stored(ask_app(call.app, request).headers.get(OBJECT_ACL))
    if not grants or not has_acls(call, act.bucket):
        return False
    block = settings.read(call, PUBLIC_ACCESS_BLOCK, act.bucket)
    if block and parse_block(block).ignore_public_acls:
        grants = without_public(grants)
    if not is_granted(act, grants, access.client, OBJECT_PERMISSIONS):
        return False
    access.lent.add(act.name)
    return True


def get_acl(call: Call) -> Response:
    """GetBucketAcl and GetObjectAcl."""
    if call.key:
        check_key(call.key)
        stored = head_version(call)
        version = stored.get("x-object-version-id")
        shown = {"x-amz-version-id": version} if version else {}
        return _answer(call, grants_of_stored(stored.get(OBJECT_ACL)), shown)
    return _answer(call, _grants_of_bucket(call, call.require_bucket()), {})


def _grants_of_bucket(call: Call, headers: Headers) -> Grants:
    found = []
    for name, permission in ((_READ, "READ"), (_WRITE, "WRITE")):
        if referrer_allowed("unknown", parse_acl(headers.get(name)).referrers):
            found.append(Grant(ALL_USERS, permission))
    stored = settings.read_now(call, ACL)
    others = grants_of_stored(stored.decode("ascii") if stored else None)
    return tuple(dict.fromkeys([*found, *others]))


def _answer(call: Call, grants: Grants, headers: Mapping[str, str]) -> Response:
    document = Document("AccessControlPolicy")
    document.owner("Owner", call.owner_id)
    with document.inside("AccessControlList"):
        for grant in (Grant(call.owner_id, "FULL_CONTROL"), *grants):
            write_grant(document, grant)
    return xml(document.finish(), headers)


def put_bucket_acl(call: Call) -> Response:
    """PutBucketAcl."""
    from_header = grants_of_headers(call.headers)
    call.require_bucket()
    grants = _wanted(call, from_header)
    check_acls(call)
    if is_public(grants):
        _check_block(call)
    headers = _container_headers(grants)
    call.ask("POST", call.bucket, headers=headers)
    _change_parts(call, headers)
    return empty(200)


def _change_parts(call: Call, headers: Mapping[str, str]) -> None:
    """Give the container of parts the ACL of the bucket: who may read an object reads its parts."""
    container, changes = call.bucket + SEGMENTS, acl_of_parts(headers)
    request = call.request("POST", container, "", headers=changes, pre_authorized=True)
    answered = ask_app(call.app, request)
    if not answered.is_success and answered.status != 404:
        raise call.refusal(answered, "POST", container, "")


def acl_of_parts(headers: Mapping[str, str]) -> dict[str, str]:
    """The ACLs of the container of parts, for those of the bucket: without the right to list.

    The names of parts tell the ids of uploads. Names of headers are in the case of HTTP.
    """
    found = {name: headers[name] for name in (_READ, _WRITE) if headers.get(name)}
    if _READ in found:
        rights = [one for one in found[_READ].split(",") if one.strip() != ".rlistings"]
        found[_READ] = ",".join(rights)
    return found


def put_object_acl(call: Call) -> Response:
    """PutObjectAcl; of versions, the current one's can be changed."""
    check_key(call.key)
    from_header = grants_of_headers(call.headers)
    head_version(call)
    grants = _wanted(call, from_header)
    if grants or from_header is None:
        check_acls(call)
    if is_public(grants):
        _check_block(call)
    return empty(200, replace_metadata(call, {OBJECT_ACL: stored_text(grants)}))


def _wanted(call: Call, from_header: Grants | None) -> Grants:
    """The grants of the headers or of the body.

    :raises S3Error: there are none, or both, or they are malformed.
    """
    body = read_document(call, _DOCUMENT_BYTES_MAX)
    if body and has_grants(call.headers):
        raise S3Error("UnexpectedContent")
    if from_header is not None:
        return from_header
    if not body:
        raise S3Error("MissingSecurityHeader", fields={"MissingHeaderName": "x-amz-acl"})
    root = parse_xml(body, "AccessControlPolicy", "MalformedACLError")
    return grants_of_xml(root, call.owner_id)

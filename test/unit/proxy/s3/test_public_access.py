"""The public-access block and the ownership controls of buckets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from policed_bucket import REFUSED, Cluster, allow, for_box, sysmeta_of

from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.public_access import (
    PublicAccessBlock,
    ownership_document,
    parse_block,
    parse_ownership,
)


def block(**flags: bool) -> dict[str, str]:
    return sysmeta_of("PublicAccessBlock", PublicAccessBlock(**flags).document())


def ownership(value: str) -> dict[str, str]:
    return sysmeta_of("Ownership", value.encode())


def test_documents_in_both_directions() -> None:
    flags = PublicAccessBlock(True, False, True, False)
    assert parse_block(flags.document()) == flags
    assert parse_block(b"<PublicAccessBlockConfiguration/>") == PublicAccessBlock()
    assert parse_ownership(ownership_document("ObjectWriter")) == "ObjectWriter"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<Other/>",
        b"<PublicAccessBlockConfiguration><BlockPublicAcls>x</BlockPublicAcls>"
        b"</PublicAccessBlockConfiguration>",
    ],
)
def test_bad_blocks(body: bytes) -> None:
    with pytest.raises(S3Error) as caught:
        parse_block(body)
    assert caught.value.code == "MalformedXML"
    assert Cluster().ask("blue:ann", "PUT", "/box?publicAccessBlock", body=body)[0] == 400


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<OwnershipControls/>",
        b"<OwnershipControls><Rule><ObjectOwnership>x</ObjectOwnership></Rule></OwnershipControls>",
        b"<OwnershipControls><Rule/><Rule/></OwnershipControls>",
    ],
)
def test_bad_ownerships(body: bytes) -> None:
    with pytest.raises(S3Error) as caught:
        parse_ownership(body)
    assert caught.value.code == "MalformedXML"


@pytest.mark.parametrize(
    ("name", "document", "missing"),
    [
        (
            "publicAccessBlock",
            PublicAccessBlock().document(),
            "NoSuchPublicAccessBlockConfiguration",
        ),
        ("ownershipControls", ownership_document("ObjectWriter"), "OwnershipControlsNotFoundError"),
    ],
)
def test_put_get_and_delete(name: str, document: bytes, missing: str) -> None:
    cluster = Cluster()
    assert cluster.ask("blue:ann", "GET", f"/box?{name}") == (404, missing)
    assert cluster.ask("blue:ann", "PUT", f"/box?{name}", body=document)[0] == 200
    assert "S3API_SETTING_" in str(cluster.storage.environ.keys())
    cluster.sysmeta |= block() | ownership("ObjectWriter")
    assert cluster.ask("blue:ann", "GET", f"/box?{name}")[0] == 200
    assert cluster.ask("blue:ann", "DELETE", f"/box?{name}")[0] == 204
    for method in ("GET", "PUT", "DELETE"):
        assert cluster.ask("red:rob", method, f"/box?{name}", body=document) == REFUSED


def test_public_acls_are_ignored() -> None:
    cluster = Cluster()
    cluster.storage.acl = ".r:*,.rlistings,red:rob"
    assert cluster.swift(None, "GET", "box/k") == 200
    assert cluster.swift(None, "GET", "box") == 200
    cluster.sysmeta |= block(ignore_public_acls=True)
    assert cluster.swift(None, "GET", "box/k") == 401
    assert cluster.swift(None, "GET", "box") == 401
    assert cluster.swift("red:rob", "GET", "box/k") == 200
    assert cluster.ask(None, "GET", "/box/k") == REFUSED


def test_public_acls_are_not_set() -> None:
    cluster = Cluster()
    cluster.sysmeta |= block(block_public_acls=True)
    public = {"x-amz-acl": "public-read"}
    assert cluster.ask("blue:ann", "PUT", "/box?acl", public) == REFUSED
    assert cluster.ask("blue:ann", "PUT", "/box?acl", {"x-amz-acl": "private"})[0] == 200
    for acl in (".r:*", " .referrer : x.com", "red:rob,.rlistings"):
        assert cluster.swift("blue:ann", "POST", "box", X_Container_Read=acl) == 403
    assert cluster.swift("blue:ann", "POST", "box", X_Container_Read="red:rob") == 204


def test_public_policies_are_not_put() -> None:
    cluster = Cluster()
    cluster.sysmeta |= block(block_public_policy=True)

    def put(**changes: Any) -> tuple[int, str]:
        statement = for_box(allow("*", **changes))
        body = json.dumps({"Statement": statement}).encode()
        return cluster.ask("blue:ann", "PUT", "/box?policy", body=body)

    assert put() == REFUSED
    assert put(Principal={"AWS": "AUTH_red"})[0] == 204


def test_public_buckets_are_restricted_to_the_account() -> None:
    cluster = Cluster(allow("GetObject"))
    cluster.sysmeta |= block(restrict_public_buckets=True)
    assert cluster.ask("red:rob", "GET", "/box/k") == REFUSED
    assert cluster.ask(None, "GET", "/box/k") == REFUSED
    assert cluster.ask("blue:bob", "GET", "/box/k")[0] == 200
    cluster = Cluster(allow("GetObject", Principal={"AWS": "AUTH_red"}))
    cluster.sysmeta |= block(restrict_public_buckets=True)
    assert cluster.ask("red:rob", "GET", "/box/k")[0] == 200


def test_without_acls_none_is_accepted() -> None:
    cluster = Cluster()
    cluster.sysmeta |= ownership("BucketOwnerEnforced")
    unsupported = (400, "AccessControlListNotSupported")
    public, owners = {"x-amz-acl": "public-read"}, {"x-amz-acl": "bucket-owner-full-control"}
    assert cluster.ask("blue:ann", "PUT", "/box?acl", public) == unsupported
    for method, path, more in (
        ("PUT", "/box/k", {}),
        ("POST", "/box/k?uploads", {}),
        ("PUT", "/box/k", {"x-amz-copy-source": "box/other"}),
    ):
        assert cluster.ask("blue:ann", method, path, {**public, **more}) == unsupported
        assert cluster.ask("blue:ann", method, path, {**owners, **more})[0] == 200
    cluster.sysmeta |= ownership("BucketOwnerPreferred")
    assert cluster.ask("blue:ann", "PUT", "/box/k", public)[0] == 200


def test_acls_that_let_others_in_keep_them_from_being_disabled() -> None:
    document = ownership_document("BucketOwnerEnforced")
    cluster = Cluster()
    assert cluster.ask("blue:ann", "PUT", "/box?ownershipControls", body=document)[0] == 200
    cluster.read_header = ".r:*"
    answer = cluster.ask("blue:ann", "PUT", "/box?ownershipControls", body=document)
    assert answer == (400, "InvalidBucketAclWithObjectOwnership")


def test_a_bucket_may_be_made_without_acls() -> None:
    cluster = Cluster(namespace="account")
    headers = {"x-amz-object-ownership": "BucketOwnerEnforced"}
    assert cluster.ask("blue:ann", "PUT", "/new", headers)[0] == 200
    assert "HTTP_X_CONTAINER_SYSMETA_S3API_SETTING_OWNERSHIP" in cluster.storage.environ
    conflict = cluster.ask("blue:ann", "PUT", "/new", {**headers, "x-amz-acl": "public-read"})
    assert conflict == (400, "InvalidBucketAclWithObjectOwnership")
    bad = cluster.ask("blue:ann", "PUT", "/new", {"x-amz-object-ownership": "Me"})
    assert bad == (400, "InvalidArgument")


@pytest.mark.parametrize(
    "header",
    [
        {"x-amz-acl": "authenticated-read"},
        {"x-amz-object-ownership": "ObjectWriter"},
        {"x-amz-bucket-object-lock-enabled": "true"},
    ],
)
def test_a_bucket_that_exists_is_not_changed_by_its_creation(header: dict[str, str]) -> None:
    cluster = Cluster()
    refused = (409, "BucketAlreadyOwnedByYou")
    assert cluster.ask("blue:ann", "PUT", "/box", header) == refused
    assert "PUT /v1/AUTH_blue/box" not in cluster.storage.calls

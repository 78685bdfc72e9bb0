"""ACLs of buckets and objects: their forms, and what they let clients do."""

from __future__ import annotations

from xml.etree.ElementTree import fromstring

import pytest
from policed_bucket import REFUSED, Cluster, deny, sysmeta_of

from proxy.s3.wire.acl import (
    ALL_USERS,
    AUTHENTICATED_USERS,
    OBJECT_ACL,
    Grant,
    grants_of_headers,
    grants_of_stored,
    grants_of_xml,
    permits,
    stored_text,
)
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.policy import NOBODY, Client
from proxy.s3.wire.public_access import PublicAccessBlock

ROB = Client("AUTH_red", "rob", "rob", "red:rob")
XSI = "http://www.w3.org/2001/XMLSchema-instance"
GROUPS = "http://acs.amazonaws.com/groups/global"


def policy_xml(*grants: tuple[str, str, str]) -> bytes:
    """A document with grants: the type and value of the grantee, and the permission."""
    names = {"CanonicalUser": "ID", "Group": "URI", "AmazonCustomerByEmail": "EmailAddress"}
    items = "".join(
        f'<Grant><Grantee xmlns:xsi="{XSI}" xsi:type="{kind}"><{names[kind]}>{value}'
        f"</{names[kind]}></Grantee><Permission>{permission}</Permission></Grant>"
        for kind, value, permission in grants
    )
    text = f"<AccessControlPolicy><AccessControlList>{items}</AccessControlList>"
    return f"{text}</AccessControlPolicy>".encode()


def test_grants_in_headers() -> None:
    headers = {
        "x-amz-grant-read": f'uri="{GROUPS}/AllUsers", id="red:rob"',
        "x-amz-grant-write-acp": "id=red:rob",
    }
    assert grants_of_headers(headers) == (
        Grant(ALL_USERS, "READ"),
        Grant("red:rob", "READ"),
        Grant("red:rob", "WRITE_ACP"),
    )
    assert grants_of_headers({"x-amz-acl": "private"}) == ()
    assert grants_of_headers({}) is None


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"x-amz-acl": "nonsense"}, "InvalidArgument"),
        ({"x-amz-acl": "aws-exec-read"}, "NotImplemented"),
        ({"x-amz-acl": "private", "x-amz-grant-read": "id=a"}, "InvalidRequest"),
        ({"x-amz-grant-read": "red:rob"}, "InvalidArgument"),
        ({"x-amz-grant-read": ""}, "InvalidArgument"),
        ({"x-amz-grant-fly": "id=a"}, "InvalidArgument"),
        ({"x-amz-grant-read": "uri=http://other"}, "InvalidArgument"),
        ({"x-amz-grant-read": "id=*all"}, "InvalidArgument"),
        ({"x-amz-grant-read": "emailAddress=a@b.c"}, "NotImplemented"),
        ({"x-amz-grant-read": ",".join(f"id=u{n}" for n in range(101))}, "InvalidRequest"),
    ],
)
def test_bad_grants_in_headers(headers: dict[str, str], code: str) -> None:
    with pytest.raises(S3Error) as caught:
        grants_of_headers(headers)
    assert caught.value.code == code
    assert Cluster().ask("blue:ann", "PUT", "/box/k", headers)[1] == code


def test_grants_in_documents() -> None:
    body = policy_xml(
        ("CanonicalUser", "blue:ann", "FULL_CONTROL"),
        ("CanonicalUser", "red:rob", "READ_ACP"),
        ("Group", f"{GROUPS}/AuthenticatedUsers", "READ"),
    )
    grants = grants_of_xml(fromstring(body), "blue:ann")
    assert grants == (Grant("red:rob", "READ_ACP"), Grant(AUTHENTICATED_USERS, "READ"))
    assert grants_of_stored(stored_text(grants)) == grants
    assert grants_of_stored("damaged") == grants_of_stored("[1]") == ()


@pytest.mark.parametrize(
    "body",
    [
        b"<AccessControlPolicy/>",
        b"<Other/>",
        b"no",
        policy_xml(("CanonicalUser", "red:rob", "FLY")),
        policy_xml(("CanonicalUser", "", "READ")),
        b"<AccessControlPolicy><AccessControlList><Grant><Permission>READ</Permission></Grant>"
        b"</AccessControlList></AccessControlPolicy>",
    ],
)
def test_bad_documents(body: bytes) -> None:
    for path in ("/box?acl", "/box/k?acl"):
        status, code = Cluster().ask("blue:ann", "PUT", path, body=body)
        assert (status, code) == (400, "MalformedACLError")


def test_whom_grants_are_for() -> None:
    for grantee, found in (
        (ALL_USERS, (True, True)),
        (AUTHENTICATED_USERS, (True, False)),
        ("red:rob", (True, False)),
        ("blue:ann", (False, False)),
    ):
        grants = (Grant(grantee, "READ"),)
        assert tuple(permits(grants, client, "READ") for client in (ROB, NOBODY)) == found
        assert not permits(grants, ROB, "READ_ACP")
        full = (Grant(grantee, "FULL_CONTROL"),)
        assert permits(full, ROB, "READ_ACP") is found[0]


def bucket_with(*grants: Grant) -> Cluster:
    cluster = Cluster()
    cluster.sysmeta |= sysmeta_of("Acl", stored_text(grants).encode())
    return cluster


@pytest.mark.parametrize(
    ("permission", "method", "path"),
    [
        ("READ", "GET", "/box"),
        ("READ", "GET", "/box?versions"),
        ("WRITE", "PUT", "/box/k"),
        ("WRITE", "DELETE", "/box/k"),
        ("READ_ACP", "GET", "/box?acl"),
        ("WRITE_ACP", "PUT", "/box?acl"),
    ],
)
def test_grants_of_a_bucket(permission: str, method: str, path: str) -> None:
    headers = {"x-amz-acl": "private"} if path == "/box?acl" and method == "PUT" else {}
    for given in ("READ", "WRITE", "READ_ACP", "WRITE_ACP", "FULL_CONTROL"):
        cluster = bucket_with(Grant("red:rob", given))
        status, _ = cluster.ask("red:rob", method, path, headers)
        assert (status != 403) is (given in (permission, "FULL_CONTROL"))
        assert cluster.ask(None, method, path, headers) == REFUSED
        assert cluster.ask("blue:bob", method, path, headers) == REFUSED


def test_a_policy_denies_what_a_grant_allows() -> None:
    cluster = Cluster(deny("ListBucket"))
    cluster.sysmeta |= sysmeta_of("Acl", stored_text((Grant("red:rob", "READ"),)).encode())
    assert cluster.ask("red:rob", "GET", "/box") == REFUSED


def object_with(*grants: Grant, policy: tuple[dict[str, object], ...] = ()) -> Cluster:
    cluster = Cluster(*policy)
    cluster.head = {OBJECT_ACL: stored_text(grants)}
    return cluster


def test_a_public_object_in_a_private_bucket() -> None:
    cluster = object_with(Grant(ALL_USERS, "READ"))
    for user in ("red:rob", "blue:bob", None):
        assert cluster.ask(user, "GET", "/box/k")[0] == 200
        assert cluster.ask(user, "HEAD", "/box/k")[0] == 200
        assert cluster.ask(user, "GET", "/box/k?versionId=1.00000")[0] == 200
        assert cluster.ask(user, "GET", "/box") == REFUSED
        assert cluster.ask(user, "GET", "/box/k?acl") == REFUSED
        assert cluster.ask(user, "GET", "/box/k?tagging") == REFUSED
        assert cluster.ask(user, "PUT", "/box/k") == REFUSED
        assert cluster.ask(user, "DELETE", "/box/k") == REFUSED
        # Swift's API does not know ACLs of objects.
        assert cluster.swift(user, "GET", "box/k") in (401, 403)


def test_grants_of_an_object() -> None:
    reader = object_with(Grant(AUTHENTICATED_USERS, "READ"))
    assert reader.ask("red:rob", "GET", "/box/k")[0] == 200
    assert reader.ask(None, "GET", "/box/k") == REFUSED
    acps = object_with(Grant("red:rob", "READ_ACP"), Grant("red:rob", "WRITE_ACP"))
    assert acps.ask("red:rob", "GET", "/box/k?acl")[0] == 200
    assert acps.ask("red:rob", "PUT", "/box/k?acl", {"x-amz-acl": "private"})[0] == 200
    assert acps.ask("red:rob", "GET", "/box/k") == REFUSED


def test_a_grant_to_read_is_none_to_write_in_a_copy_of_an_object_onto_itself() -> None:
    cluster = object_with(Grant(ALL_USERS, "READ"))
    headers = {"x-amz-copy-source": "box/k", "x-amz-metadata-directive": "REPLACE"}
    assert cluster.ask("red:rob", "PUT", "/box/k", headers) == REFUSED


def test_what_overrules_the_acl_of_an_object() -> None:
    public = Grant(ALL_USERS, "READ")
    assert (
        object_with(public, policy=(deny("GetObject"),)).ask("red:rob", "GET", "/box/k") == REFUSED
    )
    cluster = object_with(public)
    cluster.sysmeta |= sysmeta_of("Ownership", b"BucketOwnerEnforced")
    assert cluster.ask("red:rob", "GET", "/box/k") == REFUSED
    cluster = object_with(public, Grant("red:rob", "READ"))
    block = PublicAccessBlock(ignore_public_acls=True).document()
    cluster.sysmeta |= sysmeta_of("PublicAccessBlock", block)
    assert cluster.ask("red:rob", "GET", "/box/k")[0] == 200
    assert cluster.ask(None, "GET", "/box/k") == REFUSED


def test_an_acl_is_stored_with_the_object() -> None:
    cluster = Cluster()
    name = f"HTTP_{OBJECT_ACL.upper().replace('-', '_')}"

    def stored(method: str, path: str, **headers: str) -> str | None:
        sent = {key.replace("_", "-"): value for key, value in headers.items()}
        assert cluster.ask("blue:ann", method, path, sent)[0] == 200
        writes = [e for e in cluster.storage.seen if e["REQUEST_METHOD"] in ("PUT", "POST")]
        found: str | None = writes[-1].get(name)
        return found

    public = stored_text((Grant(ALL_USERS, "READ"),))
    assert stored("PUT", "/box/k", x_amz_acl="public-read") == public
    assert stored("PUT", "/box/k") is None
    assert stored("PUT", "/box/k", x_amz_acl="private") is None
    assert stored("POST", "/box/k?uploads", x_amz_acl="public-read") == public
    assert stored("PUT", "/box/k?acl", x_amz_acl="public-read") == public
    assert stored("PUT", "/box/k?acl", x_amz_acl="private") == ""
    copy = {"x_amz_copy_source": "box/other"}
    assert stored("PUT", "/box/k", **copy) == ""
    assert stored("PUT", "/box/k", **copy, x_amz_acl="public-read") == public
    block = PublicAccessBlock(block_public_acls=True).document()
    cluster.sysmeta |= sysmeta_of("PublicAccessBlock", block)
    assert cluster.ask("blue:ann", "PUT", "/box/k", {"x-amz-acl": "public-read"}) == REFUSED
    assert cluster.ask("blue:ann", "PUT", "/box/k?acl", {"x-amz-acl": "public-read"}) == REFUSED


def test_the_acl_of_a_bucket_is_stored() -> None:
    cluster = Cluster()
    for headers, read, has_more in (
        ({"x-amz-acl": "private"}, ".", False),
        ({"x-amz-acl": "public-read"}, ".r:*,.rlistings", False),
        ({"x-amz-acl": "public-read-write"}, ".r:*,.rlistings", True),
        ({"x-amz-acl": "authenticated-read"}, ".", True),
        ({"x-amz-grant-read": "id=red:rob"}, ".", True),
    ):
        assert cluster.ask("blue:ann", "PUT", "/box?acl", headers)[0] == 200
        environ = cluster.storage.seen[-2]  # the last one is about the container of parts
        assert environ["HTTP_X_CONTAINER_READ"] == read
        assert bool(environ["HTTP_X_CONTAINER_SYSMETA_S3API_SETTING_ACL"]) is has_more


def posted(cluster: Cluster, path: str, method: str = "POST") -> dict[str, str]:
    """The ACLs of the last request of this method to a container."""
    found = [e for e in cluster.storage.seen if e["REQUEST_METHOD"] == method]
    last = next(e for e in reversed(found) if e["PATH_INFO"] == f"/v1/AUTH_blue/{path}")
    return {name: last.get(f"HTTP_X_CONTAINER_{name}", "") for name in ("READ", "WRITE")}


def test_the_acl_of_a_bucket_counts_for_parts_too() -> None:
    """Without the right to list them: their names tell the ids of uploads."""
    cluster = Cluster()
    for acl, read in (("public-read", ".r:*"), ("private", ".")):
        assert cluster.ask("blue:ann", "PUT", "/box?acl", {"x-amz-acl": acl})[0] == 200
        assert posted(cluster, "box+segments") == {"READ": read, "WRITE": "."}
    assert posted(cluster, "box")["READ"] == "."


def test_a_bucket_without_parts_has_an_acl() -> None:
    cluster = Cluster()
    cluster.missing.add("/v1/AUTH_blue/box+segments")
    assert cluster.ask("blue:ann", "PUT", "/box?acl", {"x-amz-acl": "private"})[0] == 200


def test_the_container_of_parts_begins_with_the_acl_of_the_bucket() -> None:
    cluster = Cluster()
    cluster.read_header = ".r:*,.rlistings"
    del cluster.storage.infos["/v1/AUTH_blue/box+segments"]
    assert cluster.ask("blue:ann", "POST", "/box/k?uploads")[0] == 200
    assert posted(cluster, "box+segments", "PUT") == {"READ": ".r:*", "WRITE": ""}

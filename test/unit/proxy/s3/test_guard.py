"""Bucket policies at work: both APIs, before tempauth's own rules."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from typing import Any

import pytest
from policed_bucket import REFUSED, Cluster, allow, deny, for_box, sysmeta_of

from martlet.http.environ import OWNER
from proxy.replicas.locks import LOCK_MODE, LOCK_UNTIL
from proxy.s3.wire.acl import ALL_USERS, Grant, stored_text

#: Operations and the actions that they need.
OPERATIONS = [
    ("GET", "/box/k", "GetObject"),
    ("HEAD", "/box/k", "GetObject"),
    ("GET", "/box/k?versionId=1.00000", "GetObjectVersion"),
    ("PUT", "/box/k", "PutObject"),
    ("DELETE", "/box/k", "DeleteObject"),
    ("DELETE", "/box/k?versionId=1.00000", "DeleteObjectVersion"),
    ("GET", "/box/k?tagging", "GetObjectTagging"),
    ("GET", "/box/k?tagging&versionId=1.00000", "GetObjectVersionTagging"),
    ("DELETE", "/box/k?tagging", "DeleteObjectTagging"),
    ("GET", "/box/k?attributes", "GetObject GetObjectAttributes"),
    ("GET", "/box/k?acl", "GetObjectAcl"),
    ("GET", "/box", "ListBucket"),
    ("HEAD", "/box", "ListBucket"),
    ("GET", "/box?list-type=2", "ListBucket"),
    ("GET", "/box?versions", "ListBucketVersions"),
    ("GET", "/box?uploads", "ListBucketMultipartUploads"),
    ("GET", "/box?location", "GetBucketLocation"),
    ("GET", "/box?acl", "GetBucketAcl"),
    ("GET", "/box?versioning", "GetBucketVersioning"),
    ("GET", "/box?policyStatus", "GetBucketPolicyStatus"),
    ("DELETE", "/box?tagging", "PutBucketTagging"),
    ("POST", "/box/k?uploads", "PutObject"),
    ("PUT", "/box/k?partNumber=1&uploadId=abc", "PutObject"),
    ("GET", "/box/k?uploadId=abc", "ListMultipartUploadParts"),
    ("DELETE", "/box/k?uploadId=abc", "AbortMultipartUpload"),
]
HEADERS = {"x-amz-object-attributes": "ETag"}


@pytest.mark.parametrize(("method", "path", "actions"), OPERATIONS)
def test_each_operation_is_judged_by_its_action(method: str, path: str, actions: str) -> None:
    code = "" if method == "HEAD" else "AccessDenied"
    cluster = Cluster(deny(*actions.split()[-1:]))
    assert cluster.ask("blue:ann", method, path, HEADERS) == (403, code)
    cluster = Cluster(allow(*actions.split()))
    status, _ = cluster.ask("red:rob", method, path, HEADERS)
    assert 200 <= status < 300
    others = {"ListBucket", "PutBucketTagging", "GetObject"} - set(actions.split())
    cluster = Cluster(allow(*others))
    assert cluster.ask("red:rob", method, path, HEADERS) == (403, code)


def test_without_a_policy_nothing_changes() -> None:
    cluster = Cluster()
    assert cluster.ask("blue:ann", "GET", "/box/k")[0] == 200
    assert cluster.ask("blue:bob", "GET", "/box/k") == REFUSED
    assert cluster.ask("red:rob", "GET", "/box/k") == REFUSED
    assert cluster.ask(None, "GET", "/box/k") == REFUSED


@pytest.mark.parametrize(
    ("principal", "allowed"),
    [
        ("*", {"blue:bob", "red:rob", None}),
        ({"AWS": "AUTH_red"}, {"red:rob"}),
        ({"AWS": "arn:aws:iam::AUTH_blue:root"}, {"blue:bob"}),
        ({"AWS": "arn:aws:iam::AUTH_blue:user/bob"}, {"blue:bob"}),
        ({"AWS": "arn:aws:iam::AUTH_red:user/bob"}, set()),
    ],
)
def test_who_is_let_in(principal: Any, allowed: set[str | None]) -> None:
    cluster = Cluster(allow("GetObject", Principal=principal))
    users = ("blue:bob", "red:rob", None)
    assert {user for user in users if cluster.ask(user, "GET", "/box/k")[0] == 200} == allowed
    assert {user for user in users if cluster.swift(user, "GET", "box/k") == 200} == allowed
    assert cluster.ask("blue:ann", "GET", "/box/k")[0] == 200


def test_a_denial_holds_for_the_owner_in_both_apis() -> None:
    cluster = Cluster(deny("GetObject", "PutObject", Resource="arn:aws:s3:::box/secret/*"))
    assert cluster.ask("blue:ann", "GET", "/box/secret/k") == REFUSED
    assert cluster.ask("blue:ann", "GET", "/box/k")[0] == 200
    assert cluster.swift("blue:ann", "GET", "box/secret/k") == 403
    assert cluster.swift("blue:ann", "PUT", "box/secret/k") == 403
    assert cluster.swift("blue:ann", "POST", "box/secret/k") == 403
    assert cluster.swift("blue:ann", "DELETE", "box/secret/k") == 204
    assert cluster.swift("blue:ann", "GET", "box/k") == 200
    # The parts of uploads are in another container.
    assert cluster.swift("blue:ann", "GET", "box+segments/secret/k/upload/1") == 403
    assert cluster.swift("blue:ann", "GET", "box+segments/k/upload/1") == 200


def test_the_methods_of_swift_have_actions() -> None:
    cluster = Cluster(deny("ListBucket"))
    assert cluster.swift("blue:ann", "GET", "box") == 403
    assert cluster.swift("blue:ann", "GET", "box?versions") == 200
    cluster = Cluster(deny("ListBucketVersions", "DeleteObjectVersion", "GetObjectVersion"))
    assert cluster.swift("blue:ann", "GET", "box?versions") == 403
    assert cluster.swift("blue:ann", "GET", "box/k?version-id=1.00000") == 403
    assert cluster.swift("blue:ann", "DELETE", "box/k?version-id=1.00000") == 403
    assert cluster.swift("blue:ann", "GET", "box/k") == 200
    cluster = Cluster(deny("DeleteBucket", "PutBucketAcl"))
    assert cluster.swift("blue:ann", "DELETE", "box") == 403
    assert cluster.swift("blue:ann", "POST", "box", X_Container_Read=".r:*") == 403
    assert cluster.swift("blue:ann", "POST", "box", X_Container_Meta_A="b") == 204


@pytest.mark.parametrize(
    ("action", "method", "path"),
    [
        ("ListBucket", "GET", "box?prefix=versions"),
        ("GetObject", "GET", "box/k?a=version-id"),
        ("GetObject", "GET", "box/k?version-id="),
        ("DeleteObject", "DELETE", "box/k?version-id"),
        ("ListBucketVersions", "GET", "box?version%73"),
        ("GetObjectVersion", "GET", "box/k?version%2Did=1.00000"),
        ("DeleteObjectVersion", "DELETE", "box/k?version%2Did=1.00000"),
    ],
)
def test_a_query_is_judged_as_it_is_carried_out(action: str, method: str, path: str) -> None:
    assert Cluster(deny(action)).swift("blue:ann", method, path) == 403


def test_a_list_of_parts_shows_uploads() -> None:
    both = ("ListBucket", "ListBucketMultipartUploads")
    for action in both:
        assert Cluster(allow(action)).swift(None, "GET", "box+segments") == 401
        assert Cluster(deny(action)).swift("blue:ann", "GET", "box+segments") == 403
    assert Cluster(allow(*both)).swift(None, "GET", "box+segments") == 200


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
@pytest.mark.parametrize("is_grant", [False, True])
def test_parts_are_changed_through_s3_only(method: str, is_grant: bool) -> None:
    cluster = Cluster(*([] if is_grant else [allow("*")]))
    if is_grant:
        cluster.sysmeta |= sysmeta_of(
            "Acl", stored_text((Grant("red:rob", "WRITE"), Grant(ALL_USERS, "WRITE"))).encode()
        )
    for user in ("red:rob", None):
        for path in ("box+segments/k/upload/1", "box+segments/k/upload", "box+segments"):
            assert cluster.swift(user, method, path, X_Container_Write="red:rob") in (401, 403)
    assert cluster.swift("blue:ann", method, "box+segments/k/upload/1") < 300
    if not (is_grant and method == "POST"):
        assert cluster.swift("red:rob", method, "box/k") < 300
    assert cluster.ask("red:rob", "PUT", "/box/k?partNumber=1&uploadId=abc")[0] == 200


@pytest.mark.parametrize("part", ["other/id/1", "k/2/id/1", "k/id/x", "k/id/1/2", "kk/id/1"])
@pytest.mark.parametrize("deletes_many", [False, True])
def test_the_right_to_delete_an_object_is_for_its_own_parts(part: str, deletes_many: bool) -> None:
    document = b"<Delete><Object><Key>k</Key><ETag>*</ETag></Object></Delete>"
    digest = base64.b64encode(hashlib.md5(document, usedforsecurity=False).digest()).decode()
    own = ["k/id/1", "k/id/2"]
    for parts in (own, [part]):
        cluster = Cluster(allow("*"))
        cluster.head = {"X-Static-Large-Object": "True", "X-Backend-Data-Timestamp": "1.0"}
        cluster.manifest = [{"name": f"/box+segments/{name}"} for name in parts]
        if deletes_many:
            sent = {"Content-MD5": digest}
            _, code = cluster.ask("red:rob", "POST", "/box?delete", sent, document)
        else:
            _, code = cluster.ask("red:rob", "DELETE", "/box/k", {"If-Match": "*"})
        assert code == ("" if parts == own else "AccessDenied")


def test_a_part_is_no_upload() -> None:
    cluster = Cluster(allow("*"))
    for method, query in (("DELETE", ""), ("PUT", "&partNumber=1"), ("GET", "")):
        path = f"/box/k/upload?uploadId=5{query}"
        assert cluster.ask("red:rob", method, path) == (404, "NoSuchUpload")
    assert not [call for call in cluster.storage.calls if "+segments/" in call]


@pytest.mark.parametrize("path", ["box?a=%ff", "box/k?a=%ff"])
def test_a_query_that_cannot_be_read_is_refused(path: str) -> None:
    assert Cluster(deny("*")).swift("blue:ann", "GET", path) == 400


@pytest.mark.parametrize(
    ("action", "method", "is_owner"),
    [
        ("ListBucket", "GET", False),
        ("ListBucket", "HEAD", False),
        ("DeleteBucket", "DELETE", False),
        ("PutBucketAcl", "POST", True),
    ],
)
def test_a_policy_shows_nobody_the_keys_of_a_container(
    action: str, method: str, is_owner: bool
) -> None:
    cluster = Cluster(allow(action))
    headers = {"X_Container_Read": ".r:*"} if method == "POST" else {}
    assert cluster.swift("red:rob", method, "box", **headers) < 300
    assert bool(cluster.storage.environ.get(OWNER)) is is_owner
    assert cluster.swift("blue:ann", method, "box", **headers) < 300
    assert cluster.storage.environ.get(OWNER)


def test_the_right_to_set_an_acl_is_for_nothing_else() -> None:
    cluster = Cluster(allow("PutBucketAcl"))
    for name in ("X_Container_Meta_Temp_Url_Key", "X_Container_Sync_To", "X_Versions_Enabled"):
        headers = {"X_Container_Read": ".r:*", name: "x"}
        assert cluster.swift("red:rob", "POST", "box", **headers) == 403
        assert cluster.swift("blue:ann", "POST", "box", **headers) == 204


def test_the_owner_cannot_be_locked_out() -> None:
    cluster = Cluster(deny("*"))
    assert cluster.ask("blue:ann", "GET", "/box") == REFUSED
    assert cluster.ask("blue:ann", "GET", "/box?policy")[0] == 200
    assert cluster.ask("blue:ann", "DELETE", "/box?policy")[0] == 204
    body = json.dumps({"Statement": for_box(allow("GetObject", Resource="*"))}).encode()
    assert cluster.ask("blue:ann", "PUT", "/box?policy", body=body)[0] == 204
    assert cluster.ask("blue:bob", "GET", "/box?policy") == REFUSED


def test_a_policy_lets_only_the_account_manage_policies() -> None:
    cluster = Cluster(allow("*"))
    for method in ("GET", "DELETE"):
        assert cluster.ask("red:rob", method, "/box?policy") == REFUSED
        assert cluster.ask(None, method, "/box?policy") == REFUSED
        assert cluster.ask("blue:bob", method, "/box?policy")[0] in (200, 204)


def test_the_container_of_parts_is_made_for_whom_a_policy_allows() -> None:
    cluster = Cluster(allow("PutObject"))
    del cluster.storage.infos["/v1/AUTH_blue/box+segments"]
    assert cluster.ask("red:rob", "POST", "/box/k?uploads")[0] == 200
    assert "PUT /v1/AUTH_blue/box+segments" in cluster.storage.calls


@pytest.mark.parametrize(
    ("method", "path", "action"),
    [
        ("GET", "/box/k?versionId=1.00000", "GetObjectVersion"),
        ("GET", "/box/k?tagging", "GetObjectTagging"),
        ("GET", "/box/k?acl", "GetObjectAcl"),
        ("PUT", "/box/k?tagging", "PutObjectTagging"),
    ],
)
def test_only_a_copy_reads_the_source_of_one(method: str, path: str, action: str) -> None:
    headers = {"x-amz-copy-source": "box/k"}
    body = b"<Tagging><TagSet/></Tagging>" if method == "PUT" else b""
    assert Cluster(allow("GetObject")).ask("red:rob", method, path, headers, body) == REFUSED
    assert Cluster(deny(action)).ask("blue:ann", method, path, headers, body) == REFUSED
    assert Cluster(allow(action)).ask("red:rob", method, path, headers, body)[0] == 200


def test_both_ends_of_a_copy_are_judged() -> None:
    headers = {"x-amz-copy-source": "box/from"}
    both = [
        allow("GetObject", Resource="arn:aws:s3:::box/from"),
        allow("PutObject", Resource="arn:aws:s3:::box/to"),
    ]
    assert Cluster(*both).ask("red:rob", "PUT", "/box/to", headers)[0] == 200
    for statement in both:
        assert Cluster(statement).ask("red:rob", "PUT", "/box/to", headers) == REFUSED
    cluster = Cluster(deny("GetObject", Resource="arn:aws:s3:::box/from"))
    assert cluster.ask("blue:ann", "PUT", "/box/to", headers) == REFUSED
    versioned = {"x-amz-copy-source": "box/from?versionId=1.00000"}
    assert cluster.ask("blue:ann", "PUT", "/box/to", versioned)[0] == 200


def test_each_key_of_a_multiple_delete_is_judged() -> None:
    document = b"<Delete><Object><Key>a/1</Key></Object><Object><Key>b/1</Key></Object></Delete>"
    digest = hashlib.md5(document, usedforsecurity=False).digest()
    headers = {"Content-MD5": base64.b64encode(digest).decode()}
    for user, statement in (
        ("red:rob", allow("DeleteObject", Resource="arn:aws:s3:::box/a/*")),
        (None, allow("DeleteObject", Resource="arn:aws:s3:::box/a/*")),
        ("blue:ann", deny("DeleteObject", Resource="arn:aws:s3:::box/b/*")),
    ):
        cluster = Cluster(statement)
        status, code = cluster.ask(user, "POST", "/box?delete", headers, document)
        assert (status, code) == (200, "AccessDenied")
        deletes = [call for call in cluster.storage.calls if call.startswith("DELETE")]
        assert "DELETE /v1/AUTH_blue/box/a/1" in deletes


def test_a_bypass_of_governance_is_an_action_of_its_own() -> None:
    document = b"<Delete><Object><Key>k</Key></Object></Delete>"
    digest = hashlib.md5(document, usedforsecurity=False).digest()
    headers = {"Content-MD5": base64.b64encode(digest).decode()}
    bypass = {"x-amz-bypass-governance-retention": "true"}
    for more, code in (({}, ""), (bypass, "AccessDenied")):
        cluster = Cluster(deny("BypassGovernanceRetention"))
        sent = {**headers, **more}
        assert cluster.ask("blue:ann", "POST", "/box?delete", sent, document) == (200, code)
        assert cluster.ask("blue:ann", "DELETE", "/box/k", more)[1] == code


@pytest.mark.parametrize("user", ["red:rob", "blue:bob", "blue:ann"])
@pytest.mark.parametrize("deletes_many", [False, True])
def test_a_policy_may_allow_to_bypass_governance(user: str, deletes_many: bool) -> None:
    version = "<VersionId>1.00000</VersionId>"
    document = f"<Delete><Object><Key>k</Key>{version}</Object></Delete>".encode()
    digest = base64.b64encode(hashlib.md5(document, usedforsecurity=False).digest()).decode()
    for allowed in (True, False):
        actions = ["DeleteObjectVersion", *(["BypassGovernanceRetention"] if allowed else [])]
        cluster = Cluster(allow(*actions))
        cluster.head = {LOCK_MODE: "GOVERNANCE", LOCK_UNTIL: f"{time.time() + 9:.5f}"}
        sent = {"x-amz-bypass-governance-retention": "true", "Content-MD5": digest}
        if deletes_many:
            _, code = cluster.ask(user, "POST", "/box?delete", sent, document)
        else:
            _, code = cluster.ask(user, "DELETE", "/box/k?versionId=1.00000", sent)
        assert code == ("" if allowed or user == "blue:ann" else "AccessDenied")


@pytest.mark.parametrize("header", ["x-amz-acl", "x-amz-grant-read"])
def test_a_write_with_an_acl_needs_the_right_to_set_it(header: str) -> None:
    headers = {header: "public-read" if header == "x-amz-acl" else 'id="red:rob"'}
    cluster = Cluster(deny("PutObjectAcl"))
    assert cluster.ask("blue:ann", "PUT", "/box/k", headers) == REFUSED
    assert cluster.ask("blue:ann", "POST", "/box/k?uploads", headers) == REFUSED


def test_conditions_see_the_request() -> None:
    def decide(condition: Any, path: str = "/box/k", method: str = "GET", **headers: str) -> int:
        cluster = Cluster(allow("*", Condition=condition))
        cluster.head = {"X-Object-Transient-Sysmeta-S3Api-Tagging": "team=x"}
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return cluster.ask("red:rob", method, path, sent)[0]

    assert decide({"IpAddress": {"aws:SourceIp": "192.0.2.0/24"}}) == 200
    assert decide({"IpAddress": {"aws:SourceIp": "198.51.100.0/24"}}) == 403
    assert decide({"Bool": {"aws:SecureTransport": "true"}}) == 403
    assert decide({"StringEquals": {"aws:username": "rob"}}) == 200
    assert decide({"StringEquals": {"aws:PrincipalAccount": "AUTH_red"}}) == 200
    assert decide({"StringLike": {"aws:Referer": "http://a/*"}}, referer="http://a/b") == 200
    assert decide({"StringLike": {"aws:Referer": "http://a/*"}}) == 403
    assert decide({"StringEquals": {"s3:signatureversion": "AWS4-HMAC-SHA256"}}) == 200
    assert decide({"StringEquals": {"s3:authType": "REST-QUERY-STRING"}}) == 403
    assert decide({"StringEquals": {"s3:prefix": "a"}}, "/box?prefix=a") == 200
    assert decide({"StringEquals": {"s3:prefix": "a"}}, "/box?prefix=b") == 403
    assert decide({"NumericLessThanEquals": {"s3:max-keys": 5}}, "/box?max-keys=5") == 200
    assert decide({"NumericLessThanEquals": {"s3:max-keys": 5}}, "/box?max-keys=6") == 403
    assert decide({"StringEquals": {"s3:ExistingObjectTag/team": "x"}}) == 200
    assert decide({"StringEquals": {"s3:ExistingObjectTag/team": "y"}}) == 403
    wanted = {"StringEquals": {"s3:RequestObjectTag/team": "x"}}
    assert decide(wanted, method="PUT", x_amz_tagging="team=x") == 200
    assert decide(wanted, method="PUT", x_amz_tagging="team=y") == 403
    assert decide({"Null": {"s3:x-amz-acl": "false"}}, method="PUT") == 403


def test_the_tags_in_a_body_count() -> None:
    body = b"<Tagging><TagSet><Tag><Key>team</Key><Value>x</Value></Tag></TagSet></Tagging>"
    for value, status in (("x", 200), ("y", 403)):
        condition = {"StringEquals": {"s3:RequestObjectTag/team": value}}
        cluster = Cluster(allow("PutObjectTagging", Condition=condition))
        assert cluster.ask("red:rob", "PUT", "/box/k?tagging", {}, body)[0] == status


def test_what_cannot_be_known_is_refused() -> None:
    cluster = Cluster(allow("*"))
    cluster.sysmeta["s3api-setting-policy"] = "1:damaged"
    assert cluster.ask("red:rob", "GET", "/box/k")[0] == 503
    assert cluster.ask("blue:ann", "GET", "/box/k")[0] == 503
    assert cluster.ask("blue:ann", "DELETE", "/box?policy")[0] == 204
    for info in cluster.storage.infos.values():
        info["status"] = 503
    assert cluster.swift("blue:ann", "GET", "box/k") == 503


def test_each_account_has_its_buckets_and_policies_hold_there_too() -> None:
    cluster = Cluster(deny("PutObject"), allow("GetObject"), namespace="account")
    assert cluster.ask("blue:ann", "PUT", "/box/k") == REFUSED
    assert cluster.ask("blue:bob", "GET", "/box/k")[0] == 200
    cluster.ask("red:rob", "GET", "/box/k")
    assert cluster.storage.calls[-1] == "GET /v1/AUTH_red/box/k"


@pytest.mark.parametrize("body", [b"", b"{}", b'{"Statement": 1}', b"{" + b" " * 30000])
def test_bad_policies_are_not_stored(body: bytes) -> None:
    cluster = Cluster()
    status, code = cluster.ask("blue:ann", "PUT", "/box?policy", body=body)
    assert status == 400
    assert code in ("MalformedPolicy", "MissingRequestBodyError", "MaxMessageLengthExceeded")
    assert not [call for call in cluster.storage.calls if call.startswith("POST")]


def test_there_may_be_no_policy() -> None:
    cluster = Cluster()
    assert cluster.ask("blue:ann", "GET", "/box?policy") == (404, "NoSuchBucketPolicy")
    assert cluster.ask("blue:ann", "GET", "/box?policyStatus") == (404, "NoSuchBucketPolicy")
    assert cluster.ask("blue:ann", "DELETE", "/box?policy")[0] == 204

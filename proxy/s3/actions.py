# SPDX-License-Identifier: Apache-2.0
"""The actions of S3 operations, as policies name them, and the facts of S3 requests."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from martlet.conf.options import is_true
from proxy.s3.call import Call
from proxy.s3.copy_object import source_of
from proxy.s3.policies.acts import Access, Act, wsgi_to_text
from proxy.s3.wire.acl import has_grants
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.policy_conditions import REQUEST_TAG
from proxy.s3.wire.tags import tags_of_header

#: Sub-resource of a bucket -> the end of the names of its actions, if Get… and Put… begin them.
_SETTINGS: Mapping[str, str] = {
    "accelerate": "AccelerateConfiguration",
    "acl": "BucketAcl",
    "cors": "BucketCORS",
    "encryption": "EncryptionConfiguration",
    "lifecycle": "LifecycleConfiguration",
    "location": "BucketLocation",
    "logging": "BucketLogging",
    "notification": "BucketNotification",
    "object-lock": "BucketObjectLockConfiguration",
    "ownershipControls": "BucketOwnershipControls",
    "policy": "BucketPolicy",
    "policyStatus": "BucketPolicyStatus",
    "publicAccessBlock": "BucketPublicAccessBlock",
    "replication": "ReplicationConfiguration",
    "requestPayment": "BucketRequestPayment",
    "tagging": "BucketTagging",
    "versioning": "BucketVersioning",
    "website": "BucketWebsite",
}
_BUCKET: Mapping[tuple[str, str], str] = {
    ("GET", ""): "ListBucket",
    ("HEAD", ""): "ListBucket",
    ("DELETE", ""): "DeleteBucket",
    ("GET", "uploads"): "ListBucketMultipartUploads",
    ("GET", "versions"): "ListBucketVersions",
    ("DELETE", "policy"): "DeleteBucketPolicy",
    ("DELETE", "website"): "DeleteBucketWebsite",
}
#: What is done to an object; ``Version`` follows ``Object`` if the request names a version.
_OBJECT: Mapping[tuple[str, str], str] = {
    ("GET", ""): "GetObject",
    ("HEAD", ""): "GetObject",
    ("DELETE", ""): "DeleteObject",
    ("GET", "acl"): "GetObjectAcl",
    ("PUT", "acl"): "PutObjectAcl",
    ("GET", "attributes"): "GetObject GetObjectAttributes",
    ("GET", "tagging"): "GetObjectTagging",
    ("PUT", "tagging"): "PutObjectTagging",
    ("DELETE", "tagging"): "DeleteObjectTagging",
}
_OF_ANY_VERSION: Mapping[tuple[str, str], str] = {
    ("GET", "retention"): "GetObjectRetention",
    ("PUT", "retention"): "PutObjectRetention",
    ("GET", "legal-hold"): "GetObjectLegalHold",
    ("PUT", "legal-hold"): "PutObjectLegalHold",
    ("GET", "uploadId"): "ListMultipartUploadParts",
    ("DELETE", "uploadId"): "AbortMultipartUpload",
    ("POST", "restore"): "RestoreObject",
}
#: What a write asks for beside the object -> the action.
_WITH_HEADERS: Mapping[str, str] = {
    "x-amz-tagging": "PutObjectTagging",
    "x-amz-object-lock-mode": "PutObjectRetention",
    "x-amz-object-lock-legal-hold": "PutObjectLegalHold",
}
#: The requests that the header x-amz-copy-source makes copies. It has no meaning in others.
_COPIES = frozenset([("PUT", ""), ("PUT", "uploadId")])
_LISTINGS = ("prefix", "delimiter", "max-keys")


def access_of(call: Call, name: str) -> Access | None:
    """The access that a request asks for; None if no policy can say anything about it.

    :param name: its sub-resource.
    """
    if not call.bucket or (call.method == "PUT" and not call.key and not name):
        return None
    facts = Facts(call)
    version = call.params.get("versionId", "")
    actions = _object_actions(call, name) if call.key else _bucket_actions(call, name)
    main = Act(actions, call.bucket, call.key, facts.of, version)
    source = None
    if (call.method, name) in _COPIES and call.key and "x-amz-copy-source" in call.headers:
        found = source_of(call)
        action = "s3:getobjectversion" if found.version else "s3:getobject"
        source = Act((action,), found.bucket, found.key, facts.of_source, found.version)
    return Access(main, source, deletes_keys=not call.key and name == "delete")


def _bucket_actions(call: Call, name: str) -> tuple[str, ...]:
    if name == "delete":
        return _named(_bypass(call))  # beside the deletion of each key
    action = _BUCKET.get((call.method, name))
    if action is None and name in _SETTINGS:
        action = f"{'Get' if call.method == 'GET' else 'Put'}{_SETTINGS[name]}"
    return _named(action or "")


def _object_actions(call: Call, name: str) -> tuple[str, ...]:
    request = (call.method, name)
    words = _OBJECT.get(request)
    if words is not None and "versionId" in call.params:
        words = words.replace("Object", "ObjectVersion")
    words = words or _OF_ANY_VERSION.get(request) or "PutObject"
    if words == "PutObject":
        more = [action for header, action in _WITH_HEADERS.items() if header in call.headers]
        if has_grants(call.headers):
            more.append("PutObjectAcl")
        words = " ".join([words, *more])
    return _named(f"{words} {_bypass(call)}")


def _bypass(call: Call) -> str:
    is_wanted = is_true(call.headers.get("x-amz-bypass-governance-retention"))
    return "BypassGovernanceRetention" if is_wanted else ""


@lru_cache(256)
def _named(words: str) -> tuple[str, ...]:
    return tuple(f"s3:{word.lower()}" for word in words.split())


class Facts:
    """The values of condition keys that an S3 request states."""

    def __init__(self, call: Call) -> None:
        self._call = call
        #: As the client names it: later the null version has another id in the parameters.
        self._version = self._parameter("versionId")

    def of(self, key: str) -> tuple[str, ...]:
        """The values of a condition key for what the request does."""
        call = self._call
        name = key.removeprefix("s3:")
        if key.startswith(REQUEST_TAG):
            value = self._tags().get(key.removeprefix(REQUEST_TAG))
            return () if value is None else (value,)
        if name == "requestobjecttagkeys":
            return tuple(self._tags())
        if name in _LISTINGS:
            return self._parameter(name)
        if name == "versionid":
            return self._version
        if name == "authtype":
            return () if call.claim.is_anonymous else (_auth_type(call),)
        if name == "signatureversion":
            return () if call.claim.is_anonymous else (_signature_version(call),)
        if name.startswith("object-lock-"):
            name = f"x-amz-{name}"
        value = call.headers.get(name) if key.startswith("s3:") else None
        return () if value is None else (wsgi_to_text(value),)

    def of_source(self, key: str) -> tuple[str, ...]:
        """The values of a condition key for the source of a copy."""
        if key == "s3:versionid":
            version = source_of(self._call).version
            return (version,) if version else ()
        return self.of(key) if key in ("s3:authtype", "s3:signatureversion") else ()

    def _parameter(self, name: str) -> tuple[str, ...]:
        value = self._call.params.get(name)
        return () if value is None else (value,)

    def _tags(self) -> Mapping[str, str]:
        if "x-amz-tagging" not in self._call.headers:
            return {} if self._call.access is None else self._call.access.tags
        try:
            return dict(tags_of_header(self._call.headers["x-amz-tagging"]))
        except S3Error:
            return {}  # the request is refused anyway


def _auth_type(call: Call) -> str:
    if call.is_form:
        return "POST"
    return "REST-QUERY-STRING" if call.claim.is_presigned else "REST-HEADER"


def _signature_version(call: Call) -> str:
    return "AWS" if call.claim.signing_key is None else "AWS4-HMAC-SHA256"

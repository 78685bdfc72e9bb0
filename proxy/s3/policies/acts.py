# SPDX-License-Identifier: Apache-2.0
"""Requests in the words of policies: their actions, their resources and their facts.

An S3 request becomes several requests to the pipeline. They all carry its `Access`, so each of them
is judged as the operation that the client asked for. A request of Swift's API has none, and its
method says what it does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from martlet.http.environ import Environ
from martlet.http.request import Request
from proxy.s3.wire.acl import Grants, permits
from proxy.s3.wire.policy import BUCKET_ARN, Client

SEGMENTS = "+segments"
_READS = ("GET", "HEAD")
#: Condition key -> the parameter of a request of Swift's API.
_SWIFT_PARAMETERS = {
    "s3:prefix": "prefix",
    "s3:delimiter": "delimiter",
    "s3:max-keys": "limit",
    "s3:versionid": "version-id",
}
ACL_HEADERS = (
    "HTTP_X_CONTAINER_READ",
    "HTTP_X_CONTAINER_WRITE",
    "HTTP_X_REMOVE_CONTAINER_READ",
    "HTTP_X_REMOVE_CONTAINER_WRITE",
)
#: The beginnings of the headers that change a container.
_CHANGES = ("HTTP_X_CONTAINER_", "HTTP_X_REMOVE_", "HTTP_X_VERSIONS_", "HTTP_X_HISTORY_")
LISTS = ("s3:listbucket",)
#: The names of parts tell the ids of uploads, also of those that made old versions.
LISTS_PARTS = (*LISTS, "s3:listbucketmultipartuploads")
#: The actions of a request of Swift's API that has one of `ACL_HEADERS`.
SETS_ACL = ("s3:putbucketacl",)

#: Permissions of a bucket's ACL -> the actions that they allow.
BUCKET_PERMISSIONS: Mapping[str, frozenset[str]] = {
    "READ": frozenset(["s3:listbucket", "s3:listbucketversions", "s3:listbucketmultipartuploads"]),
    "WRITE": frozenset(["s3:putobject", "s3:deleteobject"]),
    "READ_ACP": frozenset(["s3:getbucketacl"]),
    "WRITE_ACP": frozenset(["s3:putbucketacl"]),
}
#: The same of an object's.
OBJECT_PERMISSIONS: Mapping[str, frozenset[str]] = {
    "READ": frozenset(["s3:getobject", "s3:getobjectversion"]),
    "READ_ACP": frozenset(["s3:getobjectacl", "s3:getobjectversionacl"]),
    "WRITE_ACP": frozenset(["s3:putobjectacl", "s3:putobjectversionacl"]),
}

FactsOf = Callable[[str], tuple[str, ...]]


def _no_facts(key: str) -> tuple[str, ...]:
    return ()


class Act(NamedTuple):
    """Something that is done to a bucket or an object; text.

    :param actions: in lower case; all must be allowed.
    :param facts: condition key -> its values.
    :param changes_parts: it changes parts otherwise than S3 does, and so perhaps an old version.
    """

    actions: tuple[str, ...]
    bucket: str
    key: str = ""
    facts: FactsOf = _no_facts
    version: str = ""
    changes_parts: bool = False

    @property
    def name(self) -> tuple[tuple[str, ...], str, str]:
        """The actions, the resource and the version."""
        return self.actions, self.resource, self.version

    @property
    def resource(self) -> str:
        """The ARN."""
        return f"{BUCKET_ARN}{self.bucket}/{self.key}" if self.key else BUCKET_ARN + self.bucket


@dataclass
class Access:
    """The acts of an S3 request, and what was learned about its client.

    :param source: what it reads, if it is a copy.
    :param deletes_keys: it deletes many keys, each of which has an Access of its own.
    """

    main: Act
    source: Act | None = None
    deletes_keys: bool = False
    #: Tags in the body, once that was read.
    tags: Mapping[str, str] = field(default_factory=dict)
    #: The client, once the auth filter knows it.
    client: Client | None = None
    #: A policy has denied the request, so that no ACL can allow it.
    is_denied: bool = False
    #: The policy allows to bypass governance, which else the owner of the account may.
    may_bypass: bool = False
    #: What the client may not do by the rights of its account and the container.
    refused: Act | None = None
    #: The same for what the ACL of an object allows nevertheless, by `Act.name`.
    lent: set[tuple[tuple[str, ...], str, str]] = field(default_factory=set)

    def for_key(self, key: str, version: str) -> Access:
        """That of one deletion, for a request that deletes many keys.

        :param version: as the client names it.
        """
        actions = (delete_action(version), *self.main.actions)
        stated = self.main.facts

        def facts(name: str) -> tuple[str, ...]:
            if name != "s3:versionid":
                return stated(name)
            return (version,) if version else ()

        main = self.main._replace(actions=actions, key=key, version=version, facts=facts)
        return Access(main, client=self.client)

    def know_null(self, bucket: str, key: str, version: str) -> None:
        """Have tags and ACLs looked up under the id by which the pipeline knows a null version.

        The facts keep the id that the client names.
        """
        if _is_null_of(self.main, bucket, key):
            self.main = self.main._replace(version=version)
        if self.source is not None and _is_null_of(self.source, bucket, key):
            self.source = self.source._replace(version=version)

    def act_of(self, method: str, container: str, key: str) -> Act | None:
        """The act of a request to the pipeline; None if it is about something else."""
        source, main = self.source, self.main
        if source is not None and method in _READS and _is_about(source, container, key):
            return source
        if self.deletes_keys:
            return None
        is_bucket = container.removesuffix(SEGMENTS) == main.bucket
        if _is_about(main, container, key) or (is_bucket and not (key and main.key)):
            return main
        return None


def _is_null_of(act: Act, bucket: str, key: str) -> bool:
    return (act.bucket, act.key, act.version) == (bucket, key, "null")


def _is_about(act: Act, container: str, key: str) -> bool:
    """Whether the names are those of the object, or of one of its parts."""
    if container == act.bucket:
        return key == act.key
    if container != act.bucket + SEGMENTS or not key.startswith(f"{act.key}/"):
        return False
    upload_id, slash, number = key[len(act.key) + 1 :].partition("/")
    return bool(upload_id) and (number.isdecimal() or not slash)


def delete_action(version: str) -> str:
    """The action of a DELETE of an object."""
    return "s3:deleteobjectversion" if version else "s3:deleteobject"


def act_of_swift(request: Request, container: str, key: str) -> Act | None:
    """The act of a request of Swift's API; None for what policies say nothing about."""
    method = request.method
    bucket = container.removesuffix(SEGMENTS)
    if bucket != container and key:
        key = _key_of_part(key)
    actions = _object_actions(request) if key else _container_actions(request)
    if bucket != container and actions == LISTS:
        actions = LISTS_PARTS
    if not actions:
        return None
    version = "" if method == "PUT" else version_of(request)
    changes_parts = bucket != container and method not in _READS
    return Act(actions, bucket, key, _facts_of_swift(request), version, changes_parts)


def version_of(request: Request) -> str:
    """The version that the query names, empty without one."""
    return request.params.get("version-id", "") if request.environ.get("QUERY_STRING") else ""


def _key_of_part(name: str) -> str:
    """The key for the name of a part, or of the object that began its upload."""
    key, _, last = name.rpartition("/")
    if last.isdecimal():
        key = key.rpartition("/")[0]
    return key or name


def _object_actions(request: Request) -> tuple[str, ...]:
    method = request.method
    if method in _READS:
        return ("s3:getobjectversion" if version_of(request) else "s3:getobject",)
    if method == "DELETE":
        return (delete_action(version_of(request)),)
    return ("s3:putobject",) if method in ("PUT", "POST") else ()


def _container_actions(request: Request) -> tuple[str, ...]:
    environ, method = request.environ, request.method
    if method in _READS:
        is_of_versions = bool(environ.get("QUERY_STRING")) and "versions" in request.params
        return ("s3:listbucketversions",) if is_of_versions else LISTS
    if method == "DELETE":
        return ("s3:deletebucket",)
    if method in ("PUT", "POST") and any(name in environ for name in ACL_HEADERS):
        return SETS_ACL
    return ()


def sets_acl_only(environ: Environ) -> bool:
    """Whether a request of Swift's API changes nothing of a container but its ACLs."""
    return all(name in ACL_HEADERS for name in environ if name.startswith(_CHANGES))


def _facts_of_swift(request: Request) -> FactsOf:
    def facts(key: str) -> tuple[str, ...]:
        name = _SWIFT_PARAMETERS.get(key)
        if name is not None:
            value = request.params.get(name)
            return () if value is None else (value,)
        if key == "s3:x-amz-copy-source":
            source = request.environ.get("HTTP_X_COPY_FROM")
            return (source,) if source else ()
        return ()

    return facts


def _header(key: str) -> Callable[[Environ, Client], str | None]:
    def fact(environ: Environ, client: Client) -> str | None:
        value = environ.get(key)
        return None if value is None else wsgi_to_text(value)

    return fact


def _kind_of(environ: Environ, client: Client) -> str:
    return "Anonymous" if not client.account else "User" if client.user else "Account"


#: Condition key -> its value for any request; None or empty if it is unknown.
COMMON_FACTS: Mapping[str, Callable[[Environ, Client], str | None]] = {
    "aws:currenttime": lambda environ, client: datetime.now(UTC).isoformat(),
    "aws:epochtime": lambda environ, client: str(int(time.time())),
    "aws:sourceip": _header("REMOTE_ADDR"),
    "aws:securetransport": lambda environ, client: (
        "true" if environ.get("wsgi.url_scheme") == "https" else "false"
    ),
    "aws:useragent": _header("HTTP_USER_AGENT"),
    "aws:referer": _header("HTTP_REFERER"),
    "aws:principaltype": _kind_of,
    "aws:principalarn": lambda environ, client: client.arn,
    "aws:principalaccount": lambda environ, client: client.account,
    "aws:userid": lambda environ, client: client.grantee,
    "aws:username": lambda environ, client: client.name,
}


def wsgi_to_text(value: str) -> str:
    """The text of a WSGI string; bytes that are not UTF-8 become U+FFFD."""
    return value.encode("latin-1", "replace").decode("utf-8", "replace")


def is_granted(
    act: Act, grants: Grants, client: Client, permissions: Mapping[str, frozenset[str]]
) -> bool:
    """Whether the grants of an ACL allow all actions."""
    given = [actions for name, actions in permissions.items() if permits(grants, client, name)]
    return bool(act.actions) and all(any(a in found for found in given) for a in act.actions)

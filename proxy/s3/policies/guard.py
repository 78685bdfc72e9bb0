# SPDX-License-Identifier: Apache-2.0
"""The check of an auth filter, with the policy of the bucket before it.

Both APIs use the same check (``swift.authorize``), so a policy counts for both. A bucket without a
policy costs one look-up in facts that are cached anyway. doc/s3-access.md has the rules.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple

from martlet.http.environ import CONTAINER_INFO, OWNER, S3_ACCESS, Environ, WSGIApp
from martlet.http.request import Request
from martlet.http.response import Response, error_response
from martlet.log import fields, get_logger
from martlet.words.names import BadNameError, wsgi_to_str
from proxy.lookup.info import Info
from proxy.middleware.subrequest import ask_app, get_container_info, sub_environ
from proxy.s3.policies.acts import (
    ACL_HEADERS,
    BUCKET_PERMISSIONS,
    COMMON_FACTS,
    SEGMENTS,
    SETS_ACL,
    Access,
    Act,
    act_of_swift,
    is_granted,
    sets_acl_only,
)
from proxy.s3.wire.acl import Grants, grants_of_stored, without_public
from proxy.s3.wire.errors import S3Error
from proxy.s3.wire.policy import Client, Decision, Policy, combine, evaluate
from proxy.s3.wire.policy_conditions import EXISTING_TAG
from proxy.s3.wire.policy_text import PolicyError, parse_policy
from proxy.s3.wire.public_access import PublicAccessBlock, parse_block
from proxy.s3.wire.stored_documents import document_of
from proxy.s3.wire.tags import OBJECT_TAGS, tags_of_stored

log = get_logger("proxy.s3")

POLICY, PUBLIC_ACCESS_BLOCK, ACL = "Policy", "PublicAccessBlock", "Acl"
#: What the owner of a bucket may do, whatever a policy says, so that none locks the owner out.
OWNERS_ACTIONS = frozenset(["s3:getbucketpolicy", "s3:putbucketpolicy", "s3:deletebucketpolicy"])
BYPASS = "s3:bypassgovernanceretention"
_FIRST_PIECES = frozenset(
    f"s3api-setting-{name}".lower() for name in (POLICY, PUBLIC_ACCESS_BLOCK, ACL)
)
_PREFIXES = tuple(_FIRST_PIECES)
_SOURCE = "S3"
#: What stands before the colon in those elements of an ACL that let in clients without a user.
_PUBLIC = frozenset([".r", ".ref", ".referer", ".referrer", ".rlistings"])

Check = Callable[[Request], Response | None]


class _Rules(NamedTuple):
    """The settings of a bucket that decide about access."""

    policy: Policy | None = None
    block: PublicAccessBlock = PublicAccessBlock()
    grants: Grants = ()


class _Asked(NamedTuple):
    """A request, who makes it, and the bucket's account."""

    request: Request
    client: Client
    account: str


class DamagedError(Exception):
    """The settings of a bucket cannot be read, so no client but the owner has any rights."""


def guarded(app: WSGIApp, check: Check, client: Client) -> Check:
    """The check, with policies.

    :param app: the app right of the auth filter.
    """
    return functools.partial(_check, app, check, client)


def _check(app: WSGIApp, check: Check, client: Client, request: Request) -> Response | None:
    environ = request.environ
    access: Access | None = environ.get(S3_ACCESS)
    if access is not None:
        access.client = client
    path: str = environ["PATH_INFO"]
    try:
        parts = (path if path.isascii() else wsgi_to_str(path)).split("/", 4)
        if len(parts) < 4 or not parts[3]:
            return check(request)
        account, container, key = parts[2], parts[3], parts[4] if len(parts) > 4 else ""
        is_put = access is None and request.method == "PUT" and not key
        if is_put and act_of_swift(request, container, key) is None:
            return check(request)  # a new container, most often
        bucket = container.removesuffix(SEGMENTS)
        info = _info(app, request, account, bucket)
        is_free = info["status"] < 500 and not has_rules(info)
        denial = check(request) if is_free else None
        if is_free and (denial is None or access is None):
            return denial
    except BadNameError:
        return check(request)  # the app refuses it
    try:
        act = _act_of(access, request, container, key)
    except BadNameError:
        return error_response(400, "The query is not UTF-8.")  # not all of the app looks at it
    if is_free:
        return denial if act is None else _unless_lent(access, act, denial)
    if act is None:
        return check(request)
    if info["status"] >= 500:
        return error_response(503)  # there may be a policy that denies this
    return _judge(app, check, _Asked(request, client, account), act, info, access)


def _unless_lent(access: Access | None, act: Act, denial: Response | None) -> Response | None:
    """The denial, unless the ACL of the object allows the act."""
    if access is None or denial is None:
        return denial
    if act.name in access.lent:
        return None
    access.refused = act
    return denial


def _info(app: WSGIApp, request: Request, account: str, bucket: str) -> Info:
    of_app: Callable[[Request, str, str], Info] | None = request.environ.get(CONTAINER_INFO)
    if of_app is not None:
        return of_app(request, account, bucket)
    return get_container_info(request.environ, app, account, bucket, _SOURCE)


def has_rules(info: Info) -> bool:
    """Whether something is set for a bucket that this filter looks at."""
    return not _FIRST_PIECES.isdisjoint(info.get("sysmeta") or ())


def _act_of(access: Access | None, request: Request, container: str, key: str) -> Act | None:
    if access is not None:
        act = access.act_of(request.method, container, key)
        if act is not None or (access.deletes_keys and not key):
            return act
    return act_of_swift(request, container, key)


def _judge(
    app: WSGIApp, check: Check, asked: _Asked, act: Act, info: Info, access: Access | None
) -> Response | None:
    environ = asked.request.environ
    try:
        rules = _rules_of(act.bucket, info["sysmeta"])
        problem = None
    except DamagedError as error:
        rules, problem = _Rules(), error
    if rules.block.ignore_public_acls:
        asked.request.acl = _without_public(asked.request.acl)
    denial = check(asked.request)
    if denial is None and environ.get(OWNER) and OWNERS_ACTIONS.issuperset(act.actions):
        return None
    try:
        if problem is not None:
            raise problem
        decision = _decision(app, asked, act, rules.policy)
    except DamagedError as error:
        log.error("access to a bucket cannot be judged %s", fields(bucket=act.bucket, error=error))
        return error_response(503)
    if decision is Decision.DENY:
        if access is not None:
            access.is_denied = True
        return error_response(403, "A policy denies this.")
    if access is not None and BYPASS in act.actions and _may_be_lent(asked, act, rules):
        alone = act._replace(actions=(BYPASS,))
        access.may_bypass = _decision(app, asked, alone, rules.policy) is Decision.ALLOW
    if rules.block.block_public_acls and _sets_public_acl(environ):
        return error_response(403, "The public-access block of the bucket forbids this ACL.")
    if denial is not None and _is_allowed(asked, act, rules, decision):
        if not act.key and (access is not None or act.actions == SETS_ACL):
            environ[OWNER] = True  # the app shows and sets ACLs only with it, and keys too
        return None
    return _unless_lent(access, act, denial)


def _is_allowed(asked: _Asked, act: Act, rules: _Rules, decision: Decision) -> bool:
    """Whether the policy or the ACL of the bucket allows what the check refuses."""
    if act.changes_parts:
        return False
    is_of_swift = S3_ACCESS not in asked.request.environ
    if is_of_swift and act.actions == SETS_ACL and not sets_acl_only(asked.request.environ):
        return False
    if decision is Decision.ALLOW and _may_be_lent(asked, act, rules):
        return True
    return is_granted(act, rules.grants, asked.client, BUCKET_PERMISSIONS)


def _may_be_lent(asked: _Asked, act: Act, rules: _Rules) -> bool:
    """Whether the policy can allow it to a client of another account."""
    if asked.client.account == asked.account:
        return True
    if rules.block.restrict_public_buckets and rules.policy is not None and rules.policy.is_public:
        return False
    return OWNERS_ACTIONS.isdisjoint(act.actions)


def _without_public(acl: str | None) -> str | None:
    """The ACL of a container without referrers."""
    if not acl:
        return acl
    return ",".join(item for item in acl.split(",") if not _is_public(item))


def _is_public(item: str) -> bool:
    return item.partition(":")[0].strip() in _PUBLIC


def _sets_public_acl(environ: Environ) -> bool:
    given = (environ.get(name, "") for name in ACL_HEADERS)
    return any(_is_public(item) for text in given for item in text.split(","))


def _decision(app: WSGIApp, asked: _Asked, act: Act, policy: Policy | None) -> Decision:
    if policy is None:
        return Decision.NONE
    facts = _facts(app, asked, act, policy.keys)
    return combine(
        evaluate(policy, asked.client, action, act.resource, facts) for action in act.actions
    )


def _facts(
    app: WSGIApp, asked: _Asked, act: Act, keys: frozenset[str]
) -> Mapping[str, tuple[str, ...]]:
    """The values of those condition keys that a policy looks at."""
    found: dict[str, tuple[str, ...]] = {}
    if act.key and any(key.startswith(EXISTING_TAG) for key in keys):
        tags = _existing_tags(app, asked, act)
        found = {f"{EXISTING_TAG}{name}": (value,) for name, value in tags.items()}
    for key in keys:
        if key in COMMON_FACTS:
            value = COMMON_FACTS[key](asked.request.environ, asked.client)
            found[key] = (value,) if value else ()
        elif key == "s3:resourceaccount":
            found[key] = (asked.account,)
        elif key not in found:
            found[key] = act.facts(key)
    return found


def _existing_tags(app: WSGIApp, asked: _Asked, act: Act) -> dict[str, str]:
    """The tags of the object; none if it is about to be written.

    :raises DamagedError: they are unknown.
    """
    if "s3:putobject" in act.actions:
        return {}
    query = f"version-id={act.version}" if act.version else ""
    path = f"/v1/{asked.account}/{act.bucket}/{act.key}".encode().decode("latin-1")
    environ = sub_environ(
        asked.request.environ, "HEAD", path, _SOURCE, query=query, pre_authorized=True
    )
    answer = ask_app(app, environ)
    if answer.status >= 500:
        raise DamagedError("the tags of the object are unknown")
    return dict(tags_of_stored(answer.headers.get(OBJECT_TAGS)))


def _rules_of(bucket: str, sysmeta: Mapping[str, str]) -> _Rules:
    pieces = tuple((name, value) for name, value in sysmeta.items() if name.startswith(_PREFIXES))
    return _parse(bucket, pieces)


@functools.lru_cache(maxsize=256)
def _parse(bucket: str, pieces: tuple[tuple[str, str], ...]) -> _Rules:
    """:raises DamagedError: a document cannot be read."""
    try:
        text = document_of(dict(pieces), POLICY)
        block = document_of(dict(pieces), PUBLIC_ACCESS_BLOCK)
        acl = document_of(dict(pieces), ACL)
        rules = _Rules(
            parse_policy(text, bucket) if text else None,
            parse_block(block) if block else PublicAccessBlock(),
            grants_of_stored(acl.decode("ascii")) if acl else (),
        )
    except (S3Error, PolicyError, UnicodeDecodeError) as error:
        raise DamagedError(str(error)) from None
    if rules.block.ignore_public_acls:
        rules = rules._replace(grants=without_public(rules.grants))
    return rules

# SPDX-License-Identifier: Apache-2.0
"""The current usage of a container or an account: a question to all its replicas.

The information of ``proxy.lookup.info`` may be as old as its cache allows. Quotas need the state
after the last acknowledged write, so they use this module. Every acknowledged object is in the
database of at least one replica that answers, if the container servers were reachable when it was
written. If replicas differ, the largest usage counts.

A container with shards learns of their usage with the same delay. So each shard is asked as well.

An account gets the usage of its containers with a delay (the container servers'
``report_interval``). So the container's own answer replaces the account's row of that container.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from martlet.http.request import Request
from martlet.words.names import quote_path, str_to_wsgi
from proxy.headers import base_headers
from proxy.replicas.core import Core
from proxy.replicas.quorum import Answer
from proxy.wire_headers import WireHeaders

_STATE = "x-backend-sharding-state"
_UNSHARDED = "unsharded"


class Usage(NamedTuple):
    """The number of stored objects, and of their bytes."""

    bytes: int
    object_count: int


class AccountUsage(NamedTuple):
    """The usage of a whole account, and of its containers with the given storage policy."""

    all: Usage
    in_policy: Usage


def container_usage(
    core: Core,
    req: Request,
    account: str,
    container: str,
    beside: frozenset[str] = frozenset(),
) -> Usage | None:
    """The usage of a container; None if no replica answers.

    :param beside: of a shard: the names of its neighbours.
    """
    nodes = core.nodes(core.rings.container, account, container)
    path = quote_path(f"/{account}/{container}")
    request = core.request(req, "Container", nodes.partition, path, method="HEAD")
    sent = [WireHeaders(base_headers(req))] * nodes.primary_count
    answers = [o.answer for o in core.ask(request, nodes, sent) if o.answer.status // 100 == 2]
    if any(answer.headers.get(_STATE, _UNSHARDED) != _UNSHARDED for answer in answers):
        return _sharded_usage(core, req, (account, container), beside)
    found = [_usage(answer.headers, "x-container-") for answer in answers]
    return _fullest(found) if found else None


def _sharded_usage(
    core: Core, req: Request, names: tuple[str, str], beside: frozenset[str]
) -> Usage | None:
    """The usage of a container with shards: what it has itself, and the usage of each shard.

    What shards have reported to it is older than their own answers. But a shard that shrinks into
    its neighbour knows itself how much it gave: the neighbour counts its own rows only.
    """
    own = "/".join(names)
    nodes = core.nodes(core.rings.container, *names)
    path = quote_path(f"/{own}") + "?format=json&states=listing"
    request = core.request(req, "Container", nodes.partition, path, method="GET")
    headers = WireHeaders({**base_headers(req), "X-Backend-Record-Type": "shard"})
    shards: dict[str, Usage] = {}
    found = []
    for outcome in core.ask(request, nodes, [headers] * nodes.primary_count):
        if outcome.answer.status // 100 != 2:
            continue
        whole = _usage(outcome.answer.headers, "x-container-")
        # A shard may be listed twice, if a newer range lies in its middle.
        items = {item["name"]: item for item in json.loads(outcome.answer.body or b"[]")}
        items = {name: item for name, item in items.items() if name not in {own, *beside}}
        for name, item in items.items():
            reported = Usage(item["bytes_used"], item["object_count"])
            if name not in shards:
                owner, _, shard = name.partition("/")
                others = beside | items.keys()
                shards[name] = container_usage(core, req, owner, shard, others) or reported
            whole = _corrected(whole, reported, shards[name])
        found.append(whole)
    return _fullest(found) if found else None


def account_usage(
    core: Core, req: Request, account: str, container: str, policy_index: int
) -> AccountUsage | None:
    """The usage of an account, with the current one of ``container``; None if no replica answers.

    :param policy_index: the storage policy of the container.
    """
    policy = core.cluster.policy_by_index(policy_index)
    name = policy.name if policy is not None else ""
    now = container_usage(core, req, account, container)
    nodes = core.nodes(core.rings.account, account)
    # If the account has a row of the container, it is the first one with this prefix.
    query = f"?format=json&limit=1&prefix={quote_path(container, safe='')}"
    path = quote_path(f"/{account}") + query
    request = core.request(req, "Account", nodes.partition, path, method="GET")
    sent = [WireHeaders(base_headers(req))] * nodes.primary_count
    found = []
    for outcome in core.ask(request, nodes, sent):
        if outcome.answer.status // 100 == 2:
            found.append(_account_usage(outcome.answer, container, name, now))
    if not found:
        return None
    return AccountUsage(_fullest([u.all for u in found]), _fullest([u.in_policy for u in found]))


def _account_usage(
    answer: Answer, container: str, policy_name: str, now: Usage | None
) -> AccountUsage:
    policy_prefix = f"x-account-storage-policy-{str_to_wsgi(policy_name).lower()}-"
    known = AccountUsage(
        _usage(answer.headers, "x-account-"), _usage(answer.headers, policy_prefix)
    )
    if now is None:
        return known
    reported = _row_of(answer.body, container)
    return AccountUsage(*(_corrected(usage, reported, now) for usage in known))


def _corrected(usage: Usage, reported: Usage, now: Usage) -> Usage:
    return Usage(
        max(0, usage.bytes - reported.bytes + now.bytes),
        max(0, usage.object_count - reported.object_count + now.object_count),
    )


def _row_of(listing: bytes, container: str) -> Usage:
    rows: list[dict[str, Any]] = json.loads(listing) if listing else []
    for row in rows:
        if row.get("name") == container:
            return Usage(row.get("bytes", 0), row.get("count", 0))
    return Usage(0, 0)


def _usage(headers: Mapping[str, str], prefix: str) -> Usage:
    return Usage(
        _number(headers.get(f"{prefix}bytes-used")), _number(headers.get(f"{prefix}object-count"))
    )


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() else 0


def _fullest(found: list[Usage]) -> Usage:
    return Usage(max(u.bytes for u in found), max(u.object_count for u in found))

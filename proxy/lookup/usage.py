# SPDX-License-Identifier: Apache-2.0
"""The current usage of a container or an account: a question to all its replicas.

The information of ``proxy.lookup.info`` may be as old as its cache allows. Quotas need the state
after the last acknowledged write, so they use this module. Every acknowledged object is in the
database of at least one replica that answers, if the container servers were reachable when it was
written. If replicas differ, the largest usage counts.

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


class Usage(NamedTuple):
    """The number of stored objects, and of their bytes."""

    bytes: int
    object_count: int


class AccountUsage(NamedTuple):
    """The usage of a whole account, and of its containers with the given storage policy."""

    all: Usage
    in_policy: Usage


def container_usage(core: Core, req: Request, account: str, container: str) -> Usage | None:
    """The usage of a container; None if no replica answers."""
    nodes = core.nodes(core.rings.container, account, container)
    path = quote_path(f"/{account}/{container}")
    request = core.request(req, "Container", nodes.partition, path, method="HEAD")
    sent = [WireHeaders(base_headers(req))] * nodes.primary_count
    found = [
        _usage(outcome.answer.headers, "x-container-")
        for outcome in core.ask(request, nodes, sent)
        if outcome.answer.status // 100 == 2
    ]
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

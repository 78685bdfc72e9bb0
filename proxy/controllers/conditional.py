# SPDX-License-Identifier: Apache-2.0
"""Writes that depend on what is stored: ``If-None-Match: *`` and ``X-Backend-If-Timestamp``.

Two such writes at once must not both succeed. So the first primary of the object decides. It
compares and writes under a lock. The other replicas get the write after it has accepted. A majority
must agree before that, since the first primary may have missed a write. Without the first primary,
or without a majority, the answer is 503.

Writes without a condition do not ask the first primary. One that comes at the same time may be
overwritten.
"""

from __future__ import annotations

from collections.abc import Sequence

from martlet.http.environ import Environ
from martlet.http.response import http_error
from martlet.words.timestamp import Timestamp
from proxy.controllers.object_write import Write
from proxy.headers import IF_TIMESTAMP
from proxy.replicas.core import Core
from proxy.replicas.engine import Outcome
from proxy.replicas.grid_fanout import ask_all
from proxy.replicas.quorum import UNAVAILABLE, Answer, have_quorum
from proxy.replicas.versions import VERSION_ID
from proxy.wire_headers import WireHeaders
from ring.ring import Node

_KEYS = ("HTTP_IF_NONE_MATCH", "HTTP_X_BACKEND_IF_TIMESTAMP")


def is_conditional_put(environ: Environ) -> bool:
    """Whether a PUT depends on what is stored."""
    return any(key in environ for key in _KEYS)


def may_outvote(environ: Environ, refusals: Sequence[Outcome], first: Node) -> bool:
    """Whether a majority decides against the replicas that refused a PUT, without the first.

    One with another timestamp may have missed a write. One that has an object where there should be
    none may be the only one with a write that came just before.
    """
    said_first = any(outcome.node["id"] == first["id"] for outcome in refusals)
    return "HTTP_X_BACKEND_IF_TIMESTAMP" in environ and not said_first


def majority(replicas: int) -> int:
    """More than half. Every two majorities have a replica in common."""
    return replicas // 2 + 1


def after_the_first(write: Write, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes at the other replicas, once the first primary has accepted.

    One that refuses has another state, because a write without a condition came between. It has
    missed this write, as if it had been unavailable. So it is with a later write (409) if this one
    adds a version: that is not replaced.
    """
    is_version = VERSION_ID in write.headers
    own = write.headers["X-Timestamp"]

    def has_missed(answer: Answer) -> bool:
        is_late = answer.status == 409 and answer.headers.get("x-backend-timestamp") != own
        return answer.status == 412 or (is_version and is_late)

    return [Outcome(o.index, o.node, UNAVAILABLE) if has_missed(o.answer) else o for o in outcomes]


def delete_in_order(core: Core, write: Write, headers: list[WireHeaders]) -> list[Outcome]:
    """DELETE at the first primary, then at the others; the outcomes.

    :raises HTTPException: (412) the condition does not hold; (409) a newer object exists; (503).
    """
    _check_majority(core, write)
    node = next(write.nodes, None)
    if node is None or node["id"] != write.nodes.first_primary["id"]:
        raise http_error(503)
    patience = core.options.post_quorum_timeout
    first = ask_all(
        core.backends, write.request, iter([node]), headers[:1], lambda said: bool(said), patience
    )
    if not first or first[0].answer.status not in (204, 404, 409):
        raise http_error(first[0].answer.status if first else 503)
    if first[0].answer.status == 409 and not first[0].answer.was_resent:
        raise http_error(409)
    replicas = write.nodes.primary_count
    rest = ask_all(
        core.backends,
        write.request,
        write.nodes,
        headers[1:],
        lambda said: have_quorum([first[0].answer.status, *said], replicas),
        patience,
    )
    for outcome in rest:
        outcome.index += 1
    return first + after_the_first(write, rest)


def _check_majority(core: Core, write: Write) -> None:
    """Ask all primaries for the object of this timestamp.

    :raises HTTPException: (412) one has a later write; (503) too few have this one.
    """
    wanted = Timestamp(write.headers[IF_TIMESTAMP])
    request = write.request._replace(method="HEAD")
    asked = {
        name: value
        for name, value in write.headers.items()
        if name in ("X-Timestamp", "X-Trans-Id", "X-Backend-Storage-Policy-Index")
    }
    primaries = write.nodes.primaries
    outcomes = ask_all(
        core.backends,
        request,
        iter(primaries),
        [WireHeaders(asked)] * len(primaries),
        lambda said: len(said) == len(primaries),
        core.options.post_quorum_timeout,
    )
    agreeing = 0
    for outcome in outcomes:
        headers = outcome.answer.headers
        name = "x-backend-data-timestamp" if outcome.answer.status == 200 else "x-backend-timestamp"
        found = Timestamp(headers.get(name) or 0)
        if found > wanted:
            raise http_error(412)
        agreeing += outcome.answer.status == 200 and found == wanted
    if agreeing < majority(len(primaries)):
        raise http_error(503)

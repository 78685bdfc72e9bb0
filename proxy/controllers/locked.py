# SPDX-License-Identifier: Apache-2.0
"""Questions about the lock of a version: before a removal, and after a lock that was refused.

Each object server refuses to remove a version that it knows to be locked. One that missed the lock
would remove it, with its row in the container. Replication brings the version back, but not the
row. So no removal is sent while a replica says that the version is locked.

Two requests may lock a version at once, each until a time of its own. Each replica refuses what
would make its lock shorter. For a request that wants a lock at least, it has one then.
"""

from __future__ import annotations

from collections.abc import Sequence

from martlet.conf.options import is_true
from martlet.http.response import http_error
from martlet.words.timestamp import Timestamp
from proxy.controllers.conditional import majority
from proxy.controllers.object_write import Write
from proxy.replicas.core import Core
from proxy.replicas.engine import Outcome
from proxy.replicas.grid_fanout import ask_all
from proxy.replicas.locks import LOCK_BYPASS, is_at_least, is_locked, locked_error
from proxy.replicas.quorum import UNAVAILABLE, Answer
from proxy.replicas.versions import VERSION_ID
from proxy.wire_headers import WireHeaders
from ring.ring import Node

_ASKED = ("X-Timestamp", "X-Trans-Id", "X-Backend-Storage-Policy-Index", VERSION_ID)


def check_unlocked(core: Core, write: Write) -> None:
    """Ask all primaries for the lock of the version that a DELETE is about.

    :raises HTTPException: (403) one says that it is locked; (503) too few know.
    """
    primaries = write.nodes.primaries
    outcomes = _heads(core, write, primaries)
    now = float(Timestamp(write.headers["X-Timestamp"]))
    bypass = is_true(write.headers.get(LOCK_BYPASS))
    if any(is_locked(o.answer.headers, now, bypass=bypass) for o in outcomes):
        raise locked_error()
    knowing = sum(1 for o in outcomes if o.answer.status in (200, 404))
    if knowing < majority(len(primaries)):
        raise http_error(503, "Too few storage servers know whether the object is locked.")


def with_locks(core: Core, write: Write, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes of a POST that locks, with 202 of each replica that has such a lock already.

    A replica that refuses the POST with 403 or 409 is asked for the lock that it has.
    """
    refused = [o.node for o in outcomes if o.answer.status in (403, 409)]
    if not refused:
        return list(outcomes)
    found = {o.node["id"]: o.answer for o in _heads(core, write, refused)}

    def has_it(outcome: Outcome) -> bool:
        head = found.get(outcome.node["id"], UNAVAILABLE)
        is_known = outcome.answer.status in (403, 409) and head.status == 200
        return is_known and is_at_least(head.headers, write.headers)

    return [Outcome(o.index, o.node, Answer(202)) if has_it(o) else o for o in outcomes]


def _heads(core: Core, write: Write, nodes: Sequence[Node]) -> list[Outcome]:
    """HEAD of the version that a write is about, at each of the devices."""
    asked = {name: write.headers[name] for name in _ASKED if name in write.headers}
    asked["X-Backend-Open-Expired"] = "true"
    return ask_all(
        core.backends,
        write.request._replace(method="HEAD"),
        iter(nodes),
        [WireHeaders(asked)] * len(nodes),
        lambda said: len(said) == len(nodes),
        core.options.post_quorum_timeout,
    )

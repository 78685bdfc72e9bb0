# SPDX-License-Identifier: Apache-2.0
"""The question whether a version is locked, which all replicas get before it is removed.

Each object server refuses to remove a version that it knows to be locked. One that missed the lock
would remove it, with its row in the container. Replication brings the version back, but not the
row. So no removal is sent while a replica says that the version is locked.
"""

from __future__ import annotations

from martlet.conf.options import is_true
from martlet.http.response import http_error
from martlet.words.timestamp import Timestamp
from proxy.controllers.conditional import majority
from proxy.controllers.object_write import Write
from proxy.replicas.core import Core
from proxy.replicas.grid_fanout import ask_all
from proxy.replicas.locks import LOCK_BYPASS, is_locked, locked_error
from proxy.replicas.versions import VERSION_ID
from proxy.wire_headers import WireHeaders

_ASKED = ("X-Timestamp", "X-Trans-Id", "X-Backend-Storage-Policy-Index", VERSION_ID)


def check_unlocked(core: Core, write: Write) -> None:
    """Ask all primaries for the lock of the version that a DELETE is about.

    :raises HTTPException: (403) one says that it is locked; (503) too few know.
    """
    asked = {name: write.headers[name] for name in _ASKED if name in write.headers}
    asked["X-Backend-Open-Expired"] = "true"
    primaries = write.nodes.primaries
    outcomes = ask_all(
        core.backends,
        write.request._replace(method="HEAD"),
        iter(primaries),
        [WireHeaders(asked)] * len(primaries),
        lambda said: len(said) == len(primaries),
        core.options.post_quorum_timeout,
    )
    now = float(Timestamp(write.headers["X-Timestamp"]))
    bypass = is_true(write.headers.get(LOCK_BYPASS))
    if any(is_locked(o.answer.headers, now, bypass=bypass) for o in outcomes):
        raise locked_error()
    knowing = sum(1 for o in outcomes if o.answer.status in (200, 404))
    if knowing < majority(len(primaries)):
        raise http_error(503, "Too few storage servers know whether the object is locked.")

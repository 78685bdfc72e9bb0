# SPDX-License-Identifier: Apache-2.0
"""The replication of a whole cluster in one line, for ``martlet status``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from cluster.recon import cells
from cluster.recon.ask import Which, clients_of, servers_of
from cluster.recon.questions import replication_moment
from cluster.swift_dir import KINDS, ClusterFiles
from martlet.recon.ask import Reply, ask_all

_SECONDS = 2.0


def replication_of(files: ClusterFiles) -> dict[str, Any]:
    """The figures of all servers of each kind together.

    ``last`` is the end of the pass that ended first of the last passes of all servers: None if a
    server has not finished one. The counts are sums over the servers that answer.

    :raises ClusterError: the certificates of the authorities cannot be used.
    """
    servers = servers_of(files, Which(KINDS))
    replies = ask_all(servers, lambda kind: [_path(kind)], clients_of(files, _SECONDS))
    return {kind: _together([r for r in replies if r.server.kind == kind]) for kind in KINDS}


def _path(kind: str) -> str:
    return f"replication/{kind}"


def _together(replies: Sequence[Reply]) -> dict[str, Any]:
    values = [reply.value(_path(reply.server.kind)) for reply in replies if not reply.error]
    moments = [cells.number_in(replication_moment(value)) for value in values]
    last = min((moment for moment in moments if moment), default=None)
    return {
        "servers": len(replies),
        "answered": len(values),
        "last": last if all(moments) else None,
        "attempted": _sum(values, "attempted"),
        "in_sync": _sum(values, "in_sync"),
        "handoffs": _sum(values, "handoffs"),
        "failures": _sum(values, "failure"),
    }


def _sum(values: Sequence[Any], name: str) -> int:
    stats = [value.get("replication_stats") for value in values if isinstance(value, dict)]
    numbers = [cells.number_in(one.get(name)) for one in stats if isinstance(one, dict)]
    return int(sum(number for number in numbers if number is not None))


def as_line(replication: dict[str, Any], now: float | None = None) -> str:
    """The line for people; kinds that no replicator works on are left out."""
    moment = time.time() if now is None else now
    parts = []
    for kind, found in replication.items():
        if found["last"] is None and not found["attempted"]:
            continue
        things = "partitions" if kind == "object" else "databases"
        since = cells.age(found["last"], moment).text
        text = (
            f"{kind}s {since}, {found['in_sync']} of {found['attempted']} {things} in sync, "
            f"{found['handoffs']} hand-offs left"
        )
        if found["failures"]:
            text += f", {found['failures']} FAILURES"
        if found["answered"] < found["servers"]:
            silent = found["servers"] - found["answered"]
            text += f" ({silent} of {found['servers']} servers silent)"
        parts.append(text)
    return "replication  " + ("; ".join(parts) or "no pass has ended yet")

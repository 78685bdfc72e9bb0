# SPDX-License-Identifier: Apache-2.0
"""The shard that gets the row of a write, if the proxy knows it.

The ranges of a sharded container are cached in this process for a limited time. Outdated ones do no
harm: a shard that was divided or joined redirects the rows that still come to it. Without knowledge
rows go to the container itself, which redirects them, too.
"""

from __future__ import annotations

import json
import time

from martlet.http.request import Request
from martlet.words.names import quote_path
from proxy.headers import base_headers
from proxy.lookup.info import container_info
from proxy.replicas.core import Core
from proxy.replicas.fetch import Search
from proxy.replicas.shard_ranges import Names, ShardRanges
from proxy.wire_headers import WireHeaders

#: Most containers whose ranges are cached.
_CACHED_MAX = 1000


def row_target(core: Core, req: Request, account: str, container: str, obj: str) -> Names:
    """The account and the container that get the row of an object."""
    own = account, container
    seconds = core.options.recheck_updating_shard_ranges
    if not seconds:
        return own
    if container_info(core, req, account, container)["sharding_state"] != "sharded":
        return own
    known = core.shard_ranges.get(own)
    if known is None or known.until < time.monotonic():
        known = _read(core, req, own, time.monotonic() + seconds)
        if len(core.shard_ranges) >= _CACHED_MAX:
            core.shard_ranges.clear()
        core.shard_ranges[own] = known
    return known.target_of(obj)


def _read(core: Core, req: Request, own: Names, until: float) -> ShardRanges:
    """The ranges as the container knows them; if it does not answer, all names are its own."""
    nodes = core.nodes(core.rings.container, *own, is_read=True)
    path = quote_path("/" + "/".join(own)) + "?format=json&states=updating"
    request = core.request(req, "Container", nodes.partition, path, method="GET")
    headers = WireHeaders({**base_headers(req), "X-Backend-Record-Type": "shard"})
    found = Search(core, request, nodes).find_whole(headers)
    items = json.loads(found.body or b"[]") if found is not None else []
    return ShardRanges.of(items, own, until)

# SPDX-License-Identifier: Apache-2.0
"""Deletions that are left to the expirer: tasks in its queue, one for each object.

They have the form of OpenStack Swift's asynchronous deletions, so its expirer does them, too. All
tasks of a call are in one container of the queue, and go to each of its replicas in one request.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from martlet.words.expiring import ASYNC_DELETE_TYPE, EXPIRER_ACCOUNT, precise_task_name
from martlet.words.timestamp import Timestamp
from proxy.replicas.backends import BackendRequest
from proxy.replicas.core import Core
from proxy.replicas.grid_fanout import ask_all
from proxy.replicas.quorum import have_quorum
from proxy.replicas.updates import expirer_target
from proxy.wire_headers import WireHeaders

_ETAG = "d41d8cd98f00b204e9800998ecf8427e"  # of no bytes


def queue_deletions(
    core: Core,
    trans_id: str,
    container: tuple[str, str],
    names: Sequence[str],
    due: Timestamp,
    *,
    withdraws: bool = False,
) -> bool:
    """Have objects of one container deleted at the time ``due``. Later writes of them stay.

    :param container: account and container, text.
    :param names: of the objects, text; not empty.
    :param withdraws: take the tasks out of the queue again, which an earlier call has added.
    :returns: whether a container server has taken the tasks; replication brings them to the rest.
    """
    target = expirer_target(core.rings, int(due), *container, names[0])
    now = Timestamp.now().internal
    rows = [
        {
            "name": precise_task_name(due, *container, name),
            "created_at": now,
            "size": 0,
            "content_type": "application/deleted" if withdraws else ASYNC_DELETE_TYPE,
            "etag": _ETAG,
            "deleted": int(withdraws),
            "storage_policy_index": 0,
        }
        for name in names
    ]
    request = BackendRequest(
        "Container",
        "UPDATE",
        target.partition,
        f"/{EXPIRER_ACCOUNT}/{target.container}",
        trans_id,
        core.options.node_timeout,
        json.dumps(rows).encode("ascii"),
    )
    headers = WireHeaders(
        {
            "X-Timestamp": now,
            "X-Backend-Storage-Policy-Index": "0",
            "Content-Type": "application/json",
        }
    )
    replicas = len(target.nodes)
    outcomes = ask_all(
        core.backends,
        request,
        iter(target.nodes),
        [headers] * replicas,
        lambda statuses: have_quorum(statuses, replicas),
        core.options.post_quorum_timeout,
    )
    return any(outcome.answer.status // 100 == 2 for outcome in outcomes)

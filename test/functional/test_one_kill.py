"""One crash of one object server under load costs a second, and no outdated reads after it."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from collections.abc import Callable

from running_cluster import RunningCluster, await_true
from swift_api import Account
from uploader import Uploader

WRITERS = 32
OBJECTS = 50


def test_reads_are_right_after_one_kill(new_cluster: Callable[..., RunningCluster]) -> None:
    cluster = new_cluster("--nodes", "4").start()
    account = Account(cluster.port)
    assert account.call("PUT", "c").status == 201
    for number in range(OBJECTS):
        assert account.call("PUT", "c", f"o{number}", body=b"old").status == 201
    server = "object-server-node1"
    with Uploader(cluster.port, "c", threads=WRITERS).running() as uploader:
        uploader.await_more(200)
        killed = cluster.pid_of(server)
        os.kill(killed, signal.SIGKILL)
        for number in range(OBJECTS):  # while it is down, and while it restarts
            wanted = b"" if number % 2 else b"new"
            method = "DELETE" if number % 2 else "PUT"
            assert account.call(method, "c", f"o{number}", body=wanted).status in (201, 204)
        await_true(lambda: cluster.pid_of(server) != killed, "a new process")
        uploader.await_more(200)
    assert uploader.failures == []
    served = Counter[str]()
    for number in list(range(OBJECTS)) * 9:
        answer = account.call("GET", "c", f"o{number}")
        is_right = answer.status == 404 if number % 2 else answer.body == b"new"
        served["right" if is_right else "outdated"] += 1
    assert served == {"right": 9 * OBJECTS}
    later: set[str] = set()
    await_true(
        lambda: is_written_again(cluster, account, later), "writes at the server that was killed"
    )


def is_written_again(cluster: RunningCluster, account: Account, later: set[str]) -> bool:
    """Whether one of the objects of the transactions ``later``, of which this writes one more, has
    a replica on the device of the first node.

    A client's answer waits for a quorum, so the line in the log may follow it.
    """
    answer = account.call("PUT", "c", f"later-{len(later)}", body=b"x")
    assert answer.status == 201
    later.add(answer.headers["x-trans-id"])
    log = (cluster.home / "logs" / "object-server-node1.log").read_text()
    return not later.isdisjoint(re.findall(r" method=PUT .* status=201 .*txn=(\S+)", log))

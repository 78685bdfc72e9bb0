"""An object server that is killed or stalls under load, and its connections of the grid."""

from __future__ import annotations

import http.client
import json
import random
import time
from collections.abc import Callable

import pytest
from frozen import frozen
from running_cluster import RunningCluster, await_true
from swift_api import Account
from uploader import Uploader, assert_nothing_is_lost, content_of

from cluster.ports import HOST

MANY, FEW = 16, 2
#: A write waits for a late server no longer than a connection and post_quorum_timeout; a read no
#: longer than node_timeout. The rest is for a busy machine.
SLOWEST_SECONDS = 30.0
#: A stall after which the proxy takes the connection for dead is longer than 15 s.
LONG_STALL_SECONDS = 17.0


class Reader(Uploader):
    """Reads an object after each upload, and notes the slowest pair of both."""

    slowest = 0.0

    def _put(self, account: Account, name: str) -> None:
        began = time.monotonic()
        super()._put(account, name)
        self._note(began)

    def _between_uploads(self, account: Account) -> None:
        if not self.acknowledged:
            return
        name = random.choice(self.acknowledged[-200:])
        began = time.monotonic()
        try:
            answer = account.call("GET", self.container, name)
        except (OSError, http.client.HTTPException) as error:
            self.failures.append(repr(error))
            return
        self._note(began)
        if answer.status != 200 or answer.body != content_of(name):
            self.failures.append(f"{name} is {answer.status} {answer.body[:100]!r}")

    def _note(self, began: float) -> None:
        self.slowest = max(self.slowest, time.monotonic() - began)


def served(cluster: RunningCluster, node: int) -> int:
    """The requests over the grid that a node's object server has answered."""
    connection = http.client.HTTPConnection(HOST, cluster.storage_port("object", node), timeout=60)
    connection.request("GET", "/recon/grid")
    answer = connection.getresponse()
    assert answer.status == 200
    figures = json.loads(answer.read())
    connection.close()
    assert figures["protocol_errors"] == 0
    return int(figures["served"])


def kill(cluster: RunningCluster, uploader: Uploader) -> None:
    cluster.kill_and_await_restart("object-server-node1")


def stall(seconds: float) -> Callable[[RunningCluster, Uploader], None]:
    def stop_and_continue(cluster: RunningCluster, uploader: Uploader) -> None:
        pid = cluster.pid_of("object-server-node1")
        with frozen(pid):
            end_at = time.monotonic() + seconds
            while time.monotonic() < end_at:
                uploader.await_more(10)

    return stop_and_continue


@pytest.mark.parametrize(
    ("fault", "times", "threads"),
    [
        pytest.param(kill, 2, MANY, id="killed"),
        pytest.param(stall(2.0), 2, MANY, id="stalled"),
        # Few threads: all that they write in this time is read again.
        pytest.param(stall(LONG_STALL_SECONDS), 1, FEW, id="dead"),
    ],
)
def test_a_fault_of_one_server_delays_and_mixes_up_no_request(
    four_nodes: RunningCluster,
    fault: Callable[[RunningCluster, Uploader], None],
    times: int,
    threads: int,
    request: pytest.FixtureRequest,
) -> None:
    account = Account(four_nodes.port)
    container = f"grid-{request.node.callspec.id}"
    assert account.call("PUT", container).status == 201
    uploader = Reader(four_nodes.port, container, threads)
    with uploader.running():
        uploader.await_more(100)
        assert served(four_nodes, 1) > 0
        for _ in range(times):
            fault(four_nodes, uploader)
            uploader.await_more(100)
        before = served(four_nodes, 1)
        await_true(lambda: served(four_nodes, 1) > before, "requests at the server with the fault")
    assert uploader.failures == []
    assert uploader.slowest < SLOWEST_SECONDS
    assert_nothing_is_lost(account, uploader)

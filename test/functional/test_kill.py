"""`kill -9` of any one server during an upload loses no acknowledged object."""

from __future__ import annotations

import os
import signal

import pytest
from running_cluster import RunningCluster, await_true, descendants
from swift_api import Account
from uploader import Uploader, assert_nothing_is_lost

UPLOADS_BEFORE = 120
UPLOADS_AFTER = 120


def kill_proxy_worker(cluster: RunningCluster) -> None:
    """Kill one worker of the proxy; its parent must replace it."""
    proxy = cluster.pid_of("proxy-server")
    before = descendants(proxy)
    victim = min(before)
    os.kill(victim, signal.SIGKILL)
    await_true(
        lambda: len(descendants(proxy) - {victim}) == len(before), "a new worker of the proxy"
    )
    assert cluster.pid_of("proxy-server") == proxy


@pytest.mark.parametrize("kind", ["object", "container", "account"])
def test_one_of_four_servers(four_nodes: RunningCluster, kind: str) -> None:
    account = Account(four_nodes.port)
    container = f"kill-{kind}"
    assert account.call("PUT", container).status == 201
    with Uploader(four_nodes.port, container).running() as uploader:
        uploader.await_more(UPLOADS_BEFORE)
        four_nodes.kill_and_await_restart(f"{kind}-server-node2")
        uploader.await_more(UPLOADS_AFTER)
    assert_nothing_is_lost(account, uploader)


@pytest.mark.parametrize("kind", ["object", "container", "account"])
def test_the_only_server(cluster: RunningCluster, kind: str) -> None:
    account = Account(cluster.port)
    container = f"kill-{kind}"
    assert account.call("PUT", container).status == 201
    with Uploader(cluster.port, container).running() as uploader:
        uploader.await_more(UPLOADS_BEFORE)
        cluster.kill_and_await_restart(f"{kind}-server")
        uploader.await_more(UPLOADS_AFTER)
    assert_nothing_is_lost(account, uploader)


def test_a_proxy_worker(cluster: RunningCluster) -> None:
    account = Account(cluster.port)
    assert account.call("PUT", "kill-worker").status == 201
    with Uploader(cluster.port, "kill-worker").running() as uploader:
        uploader.await_more(UPLOADS_BEFORE)
        kill_proxy_worker(cluster)
        uploader.await_more(UPLOADS_AFTER)
    account.close()  # it may be connected to the dead worker
    assert_nothing_is_lost(account, uploader)


def test_the_whole_proxy(cluster: RunningCluster) -> None:
    account = Account(cluster.port)
    assert account.call("PUT", "kill-proxy").status == 201
    with Uploader(cluster.port, "kill-proxy").running() as uploader:
        uploader.await_more(UPLOADS_BEFORE)
        cluster.kill_and_await_restart("proxy-server")
        uploader.await_more(UPLOADS_AFTER)
    account.close()
    assert_nothing_is_lost(account, uploader)

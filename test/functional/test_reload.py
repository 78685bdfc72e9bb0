# SPDX-License-Identifier: Apache-2.0
"""SIGHUP to every service of a cluster under load: no request fails, nothing is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial

from running_cluster import RunningCluster, await_true
from swift_api import Account
from uploader import Uploader, assert_nothing_is_lost

PYTHON_SERVICES = ("proxy-server", "account-server", "container-server")


def starts(cluster: RunningCluster, name: str) -> int:
    """Return how often a service has logged that it listens."""
    return (cluster.home / "logs" / f"{name}.log").read_text().count(" listening ip=")


def has_started(cluster: RunningCluster, name: str, before: int) -> bool:
    return starts(cluster, name) > before


def test_every_service_is_told_to_reload(new_cluster: Callable[..., RunningCluster]) -> None:
    cluster = new_cluster().start().await_writes()
    account = Account(cluster.port)
    assert account.call("PUT", "c").status == 201
    pids = {name: cluster.pid_of(name) for name in (*PYTHON_SERVICES, "object-server")}
    with Uploader(cluster.port, "c").running() as uploader:
        uploader.await_more(100)
        for name, pid in pids.items():
            started = starts(cluster, name)
            os.kill(pid, signal.SIGHUP)
            if name in PYTHON_SERVICES:
                await_true(partial(has_started, cluster, name, started), f"{name} reloads")
            uploader.await_more(200)
    assert not uploader.failures
    assert {name: cluster.pid_of(name) for name in pids} == pids
    assert_nothing_is_lost(account, uploader)
    log = (cluster.home / "logs" / "object-server.log").read_text()
    assert "every other option needs a restart" in log

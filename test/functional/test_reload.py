# SPDX-License-Identifier: Apache-2.0
"""SIGHUP to every service of a cluster under load: no request fails, nothing is lost."""

from __future__ import annotations

import os
import signal
from functools import partial

from running_cluster import RunningCluster, await_true
from swift_api import Account
from uploader import Uploader, assert_nothing_is_lost

PYTHON_SERVICES = ("proxy-server", "account-server", "container-server")


class Log:
    """The lines that a service logs from now on."""

    def __init__(self, cluster: RunningCluster, name: str) -> None:
        self._path = cluster.home / "logs" / f"{name}.log"
        self._begin = self._path.stat().st_size

    def has(self, words: str) -> bool:
        with self._path.open() as lines:
            lines.seek(self._begin)
            return words in lines.read()


def test_every_service_is_told_to_reload(cluster: RunningCluster) -> None:
    account = Account(cluster.port)
    assert account.call("PUT", "reload").status == 201
    pids = {name: cluster.pid_of(name) for name in (*PYTHON_SERVICES, "object-server")}
    logs = {name: Log(cluster, name) for name in pids}
    with Uploader(cluster.port, "reload").running() as uploader:
        uploader.await_more(100)
        for name, pid in pids.items():
            is_python = name in PYTHON_SERVICES
            done = " listening ip=" if is_python else "every other option needs a restart"
            os.kill(pid, signal.SIGHUP)
            await_true(partial(logs[name].has, done), f"{name} reloads")
            uploader.await_more(50)
    assert not uploader.failures
    assert {name: cluster.pid_of(name) for name in pids} == pids
    assert_nothing_is_lost(account, uploader)

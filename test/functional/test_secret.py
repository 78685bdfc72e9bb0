# SPDX-License-Identifier: Apache-2.0
"""The secret of a cluster: what it keeps out, and its change while a client writes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from running_cluster import RunningCluster, await_true
from swift_api import Account
from uploader import Uploader, assert_nothing_is_lost

from cluster.layout import KINDS
from cluster.ports import HOST
from martlet.conf.cluster import ClusterConf
from martlet.grid.connecting import connect
from martlet.grid.http_login import Logins
from martlet.grid.options import Options
from martlet.grid.plain_http import PlainHttp
from martlet.grid.secrets import Secrets
from martlet.http.backend_client import BackendClient, BackendError, ConnectError

REFUSED = 0
JOBS = ("account.replicator", "container.replicator", "container.sharder", "object.expirer")
NEW = "the-new-secret-of-this-cluster-0123456789"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A cluster whose secret the tests change."""
    running = RunningCluster(tmp_path_factory.mktemp("secret"), background=True)
    running.start().await_writes()
    yield running
    assert running.stop() == 0, "".join(running.output)


@pytest.fixture
def conf(cluster: RunningCluster) -> Path:
    return cluster.home / "etc" / "martlet.conf"


def clients(secrets: Secrets) -> Iterator[BackendClient]:
    client = BackendClient(30, 30, start_login=Logins(secrets, PlainHttp()))
    yield client
    client.close()


def status_at(port: int, secrets: Secrets, method: str = "HEAD") -> int:
    """The status of a request over a new connection; REFUSED without a login."""
    for client in clients(secrets):
        try:
            answer = client.request((HOST, port), method, "/d1/0/.none/none", {"X-Timestamp": "1"})
            answer.close()
        except ConnectError:
            return REFUSED
        return answer.status
    raise AssertionError


def knows(port: int, secret: str) -> bool:
    try:
        return status_at(port, Secrets.parse(secret)) != REFUSED
    except BackendError:
        return False  # it is about to start


def secret_of(conf: Path) -> str:
    (key,) = ClusterConf.load(conf.parent).grid.secrets.keys
    return key.decode()


def write_grid(conf: Path, options: str) -> None:
    """Replace the section of the grid."""
    text = re.sub(r"(?ms)^\[grid\]\n.*?(?=^\[|\Z)", f"[grid]\n{options}\n", conf.read_text())
    conf.write_text(text)


def accounts(cluster: RunningCluster) -> set[Path]:
    """All that is there of accounts on the devices."""
    return set(cluster.home.glob("devices/*/accounts/**/*"))


def test_the_storage_servers_serve_nobody_without_the_secret(
    cluster: RunningCluster, conf: Path
) -> None:
    secret = secret_of(conf)
    other = secret[::-1]
    before = accounts(cluster)
    for kind in KINDS:
        port = cluster.storage_port(kind)
        for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
            for client in clients(Secrets()):
                with pytest.raises(ConnectError, match="demands a proof"):
                    client.request((HOST, port), method, "/d1/0/.none/none", {"X-Timestamp": "1"})
        assert status_at(port, Secrets.parse(other)) == REFUSED, kind
        assert knows(port, secret), kind
        assert status_at(port, Secrets(), "OPTIONS") == 200, kind
    assert accounts(cluster) == before


def test_a_proxy_with_another_secret_stores_nothing(cluster: RunningCluster, conf: Path) -> None:
    account = Account(cluster.port)
    assert account.call("PUT", "c").status == 201
    secret = secret_of(conf)
    write_grid(conf, f"grid_secret = {NEW}")
    cluster.kill_and_await_restart("proxy-server")
    account = Account(cluster.port)
    assert account.call("PUT", "c", "o", body=b"x").status == 503
    log = (cluster.home / "logs" / "proxy-server.log").read_text()
    reasons = "no login: its grid_secret is another one|the sides have no secret in common"
    assert re.search(reasons, log)  # over HTTP or the grid
    assert secret not in log
    assert NEW not in log
    write_grid(conf, f"grid_secret = {secret}")
    cluster.kill_and_await_restart("proxy-server")
    account = Account(cluster.port)
    assert account.call("PUT", "c", "o", body=b"x").status == 201


def test_the_secret_changes_while_a_client_writes(cluster: RunningCluster, conf: Path) -> None:
    account = Account(cluster.port)
    assert account.call("PUT", "changes").status == 201
    old = secret_of(conf)
    ports = {f"{kind}-server": cluster.storage_port(kind) for kind in KINDS}

    def reload_each(secret: str, is_known: bool, uploader: Uploader) -> None:
        for name in (*ports, "proxy-server"):
            os.kill(cluster.pid_of(name), signal.SIGHUP)
            if name in ports:
                await_true(partial(is_as, ports[name], secret, is_known), f"{name} reloads")
            uploader.await_more(50)

    def is_as(port: int, secret: str, is_known: bool) -> bool:
        return knows(port, secret) == is_known

    with Uploader(cluster.port, "changes").running() as uploader:
        uploader.await_more(100)
        write_grid(conf, f"grid_secret = {NEW}\ngrid_secret_previous = {old}")
        reload_each(NEW, True, uploader)
        write_grid(conf, f"grid_secret = {NEW}")
        reload_each(old, False, uploader)
    assert not uploader.failures
    assert_nothing_is_lost(account, uploader)
    assert_jobs_take_it_up(cluster)
    for port in ports.values():
        assert knows(port, NEW)
        assert not knows(port, old)


def assert_jobs_take_it_up(cluster: RunningCluster) -> None:
    """Reload the background jobs: their next passes reach all servers."""
    log = cluster.home / "logs" / "background.log"
    before = log.stat().st_size
    os.kill(cluster.pid_of("background"), signal.SIGHUP)

    def has_passed(job: str) -> bool:
        rest = log.read_bytes()[before:].decode()
        lines = re.split(r"(?m)martlet\.background\[\d+\] reload$", rest)[-1].splitlines()
        passes = [line for line in lines if f" martlet.{job}[" in line and " pass done " in line]
        return any(not re.search(r" (failures|failed|unread)=[1-9]", line) for line in passes)

    for job in JOBS:
        await_true(partial(has_passed, job), f"a pass of {job}")


def test_the_reconciler_takes_up_the_secret(cluster: RunningCluster, tmp_path: Path) -> None:
    # In a copy: a server of the cluster that starts anew must not read the wrong secret.
    etc = tmp_path / "etc"
    shutil.copytree(cluster.home / "etc", etc)
    for path in etc.glob("*.conf"):
        path.write_text(path.read_text().replace(str(cluster.home / "etc"), str(etc)))
    conf, log = etc / "martlet.conf", tmp_path / "log"
    own_conf = str(etc / "container-reconciler.conf")
    command = [sys.executable, "-m", "container.reconciler_daemon", own_conf]
    good = conf.read_text()
    write_grid(conf, f"grid_secret = {NEW[::-1]}")
    with log.open("wb") as output, subprocess.Popen(command, stderr=output) as process:
        try:
            await_true(lambda: "no secret in common" in log.read_text(), "a pass that fails")
            conf.write_text(good)
            process.send_signal(signal.SIGHUP)
            await_true(lambda: " pass done " in log.read_text(), "a pass with the secret")
        finally:
            process.terminate()
    assert process.returncode == 0, log.read_text()


def asks_for_checksums(port: int, secret: str) -> bool:
    """Whether the server wants them on a new connection of the grid."""
    found = connect((HOST, port), Secrets.parse(secret), Options(), 30, 30)
    found.sock.close()
    return found.peer.checksum


def test_checksums_begin_and_end_with_a_reload(cluster: RunningCluster, conf: Path) -> None:
    account = Account(cluster.port)
    assert account.call("PUT", "sums").status in (201, 202)
    secret = secret_of(conf)
    ports = {f"{kind}-server": cluster.storage_port(kind) for kind in KINDS}

    def is_reloaded(name: str, are_wanted: bool) -> bool:
        try:
            return asks_for_checksums(ports[name], secret) == are_wanted
        except BackendError:
            return False  # an old worker that is about to end

    assert not any(asks_for_checksums(port, secret) for port in ports.values())
    for are_wanted in (True, False):
        write_grid(conf, f"grid_secret = {secret}\ngrid_checksum = {are_wanted}")
        for name in ports:
            os.kill(cluster.pid_of(name), signal.SIGHUP)
            await_true(partial(is_reloaded, name, are_wanted), f"{name} reloads")
        # The proxy's connections to the object servers are those from before.
        assert account.call("PUT", "sums", str(are_wanted), body=b"x").status == 201
        assert account.call("GET", "sums", str(are_wanted)).body == b"x"

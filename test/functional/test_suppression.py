"""Devices that failed too often are skipped, unless a request then has too few devices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from frozen import frozen
from running_cluster import RunningCluster
from swift_api import Account

from ring.ring import load_rings

OPTIONS = "error_suppression_limit = 0\nnode_timeout = 6\n"


@contextmanager
def hanging(cluster: RunningCluster, devices: list[str]) -> Iterator[None]:
    """Stop the object servers of these devices within the block."""
    with frozen(*(cluster.pid_of(f"object-server-node{device[1:]}") for device in devices)):
        yield


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """Four nodes, and a proxy of one process that suppresses a device at its first failure."""
    running = RunningCluster(tmp_path_factory.mktemp("suppression"), "--nodes", "4").start()
    conf = running.home / "etc" / "proxy-server.conf"
    text = re.sub("workers = .*", "workers = 1", conf.read_text())  # each has its own count
    conf.write_text(text.replace("account_autocreate", f"{OPTIONS}account_autocreate"))
    yield running
    assert running.stop() == 0, "".join(running.output)


@pytest.mark.parametrize("size", [10, 200_000], ids=["small", "large"])
def test_a_hanging_device_beside_suppressed_ones(cluster: RunningCluster, size: int) -> None:
    cluster.kill_and_await_restart("proxy-server")  # it has suppressed none yet
    account, container = Account(cluster.port), f"of-{size}"
    assert account.call("PUT", container).status == 201
    names = (account.path.rpartition("/")[2], container, "o")
    _, primaries = load_rings(cluster.home / "etc").object_ring(0).get_nodes(*names)
    first, second, third = (node["device"] for node in primaries)
    body = b"b" * size
    with hanging(cluster, [first, second]):  # the third one and a hand-off are a quorum
        assert account.call("PUT", container, "o", body=body).status == 201
    with hanging(cluster, [third]):  # the hand-off alone is not: the others are needed again
        assert account.call("PUT", container, "o", body=body).status == 201
        assert account.call("POST", container, "o", headers={"X-Object-Meta-A": "b"}).status == 202
        assert account.call("GET", container, "o").body == body
        assert account.call("DELETE", container, "o").status == 204
    account.close()

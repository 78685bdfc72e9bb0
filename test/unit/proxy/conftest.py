"""A proxy application in front of devices in memory."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from fake_cluster import FakeCluster, MakeCluster
from fake_devices import FakeDevice, FakeRing

from martlet.conf.cluster import ClusterConf, HashOptions, StoragePolicy
from martlet.conf.constraints import Constraints
from proxy.app import Application
from proxy.config import ProxyOptions
from proxy.info_registry import clear_info
from ring.hashing import HashPath
from ring.ring import RingSet


@pytest.fixture
def has_grid() -> bool:
    """Whether the servers speak the grid; OpenStack Swift's do not."""
    return True


@pytest.fixture
def make_cluster(has_grid: bool) -> Iterator[MakeCluster]:
    made: list[FakeDevice] = []

    def make(
        devices: int = 4,
        replicas: int = 3,
        constraints: Constraints | None = None,
        policies: tuple[StoragePolicy, ...] = (StoragePolicy(0, "gold", is_default=True),),
        **options: Any,
    ) -> FakeCluster:
        fakes = [FakeDevice(number) for number in range(devices)]
        made.extend(fakes)
        if not has_grid:
            for fake in fakes:
                fake.grid = None
        ring: Any = FakeRing(fakes, replicas)
        rings = RingSet(ring, ring, {p.index: ring for p in policies}, HashPath(b"", b"salt"))
        settings = {
            "account_autocreate": True,
            "conn_timeout": 20.0,
            "node_timeout": 20.0,
            "post_quorum_timeout": 10.0,
            **options,
        }
        cluster = ClusterConf(HashOptions("", "salt"), constraints or Constraints(), policies)
        app = Application(ProxyOptions(**settings), cluster, rings, logging.getLogger("test.proxy"))
        # As `conn_timeout`: a handshake that a busy machine delays is no failure of its device.
        app.core.backends.grid.client.handshake_timeout = 20.0
        return FakeCluster(fakes, app)

    yield make
    clear_info()
    for device in made:
        device.stop()


@pytest.fixture
def cluster(make_cluster: MakeCluster) -> FakeCluster:
    """Three primaries, one hand-off, an account and a container /v1/a/c."""
    cluster = make_cluster()
    cluster.make_container()
    return cluster

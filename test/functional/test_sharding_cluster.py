"""A cluster of four nodes shards by itself, with its own jobs beside, while clients go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from frozen import frozen
from running_cluster import RunningCluster, await_true, descendants
from sharding_clusters import (
    OPTIONS,
    has_totals,
    is_settled,
    ranges_of,
    set_options,
)
from sharding_load import Load
from swift_api import Account

NODES = ("node1", "node2", "node3", "node4")


@pytest.fixture
def four_nodes(new_cluster: Callable[..., RunningCluster]) -> RunningCluster:
    running = new_cluster("--nodes", "4", background=True).start()
    set_options(running, **OPTIONS, interval=1)
    running.kill_and_await_restart(*(f"background-{node}" for node in NODES))
    return running


def owner_of(account: Account) -> str:
    return account.path.rpartition("/")[2]


def await_shards(cluster: RunningCluster, names: tuple[str, str], least: int) -> None:
    await_true(
        lambda: is_settled(cluster, names) and len(ranges_of(cluster, names)[0]) >= least,
        f"{least} active shards",
        240,
    )


def test_it_shards_and_joins_by_itself(four_nodes: RunningCluster) -> None:
    """No request fails, and listings and totals are those of a plain container."""
    account = Account(four_nodes.port)
    names = owner_of(account), "photos"
    assert account.call("PUT", "photos").status == 201
    load = Load(account, "photos", is_strict=False)
    load.fill([f"a/{number:05d}" for number in range(500)])
    load.settle()  # a busy machine may not have all connections at once
    load.start([f"{'ab'[n % 2]}/{n:05d}" for n in range(0, 900, 3)], writers=2, listers=1)
    try:
        # Names of their own: of two writes of one name at the same time, one may be answered 202.
        load.fill([f"a/{number:05d}-later" for number in range(500, 700)])
        await_shards(four_nodes, names, 3)
    finally:
        load.stop()
    assert load.faults == []
    await_true(lambda: account.call("GET", "photos").lines == load.expected, "the listing")
    await_true(lambda: has_totals(account, load), "the totals of the container")
    await_true(lambda: account_totals(account) == totals_of(load), "the account's")
    again = Load(account, "photos", 2, load.names, is_strict=False)
    again.start([f"a/{n:05d}" for n in range(0, 60, 3)], writers=1, listers=1)
    try:
        again.delete([name for name in load.expected if name > "a/00060"])
        await_true(lambda: len(ranges_of(four_nodes, names)[0]) == 1, "one shard is left", 240)
    finally:
        again.stop()
    assert again.faults == []
    await_true(lambda: is_settled(four_nodes, names), "all replicas know it")
    await_true(lambda: account.call("GET", "photos").lines == again.expected, "the listing")
    await_true(lambda: has_totals(account, again), "the totals of the container")


def totals_of(load: Load) -> tuple[int, int]:
    return len(load.expected), load.expected_bytes


def account_totals(account: Account) -> tuple[int, int]:
    head = account.call("HEAD").headers
    return int(head["x-account-object-count"]), int(head["x-account-bytes-used"])


@contextmanager
def hanging(cluster: RunningCluster, service: str) -> Iterator[None]:
    """A service that stops for a while, with open connections."""
    pid = cluster.pid_of(service)
    with frozen(pid, *descendants(pid)):
        yield


def test_a_server_that_hangs_only_delays(four_nodes: RunningCluster) -> None:
    account = Account(four_nodes.port)
    names = owner_of(account), "photos"
    assert account.call("PUT", "photos").status == 201
    load = Load(account, "photos")
    load.fill([f"{number:05d}" for number in range(700)])
    load.settle()
    load.start([f"{n:05d}" for n in range(0, 900, 3)], writers=2, listers=0)
    try:
        for node in NODES:
            with hanging(four_nodes, f"container-server-{node}"):
                time.sleep(5)
        await_shards(four_nodes, names, 3)
    finally:
        load.stop()
    assert load.faults == []
    await_true(lambda: account.call("GET", "photos").lines == load.expected, "the listing")
    await_true(lambda: has_totals(account, load), "the totals of the container")

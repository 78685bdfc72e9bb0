"""Containers are split into shards, and small shards are joined, while clients use them."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from forked_passes import Pass, total_figures
from object_replicas import await_no_object
from running_cluster import RunningCluster, await_true
from sharding_clusters import (
    OPTIONS,
    confs,
    has_totals,
    is_settled,
    ranges_of,
    run_pass,
    set_options,
    start_pass,
)
from sharding_load import Load
from swift_api import Account


@pytest.fixture
def one_node(new_cluster: Callable[..., RunningCluster]) -> RunningCluster:
    running = new_cluster().start()
    conf = running.home / "etc" / "proxy-server.conf"
    app = "[app:proxy-server]\n"
    # The proxy soon learns of shards, and names them to the object servers.
    caches = "recheck_container_existence = 1\nrecheck_updating_shard_ranges = 1\n"
    more = f"{app}{caches}allow_account_management = true\n"
    conf.write_text(conf.read_text().replace(app, more))
    set_options(running, **OPTIONS)
    return running.await_writes()


def test_a_container_shards_under_load(one_node: RunningCluster) -> None:
    """No request fails, and every listing is right: before, meanwhile and afterwards."""
    account = Account(one_node.port)
    owner = account.path.rpartition("/")[2]
    assert account.call("PUT", "photos").status == 201
    load = Load(account, "photos")
    load.fill([f"a/{number:05d}" for number in range(700)])
    assert load.faults == []
    load.start([f"{'ab'[n % 2]}/{n:05d}" for n in range(0, 900, 3)], writers=3, listers=2)
    try:
        await_true(
            lambda: run_pass(one_node) and is_settled(one_node, (owner, "photos")), "all sharded"
        )
        for _ in range(2):
            run_pass(one_node)
        await_true(lambda: load.listings > 2, "listings")
    finally:
        load.stop()
    assert load.faults == []
    assert len(ranges_of(one_node, (owner, "photos"))[0]) >= 3
    assert account.call("GET", "photos").lines == load.expected
    await_true(lambda: has_totals(account, load), "the totals of the container")


def test_a_shard_that_grows_is_divided_in_turn(one_node: RunningCluster) -> None:
    """Its shards take its place in the container, so that no chain of shards grows."""
    account = Account(one_node.port)
    owner = account.path.rpartition("/")[2]
    assert account.call("PUT", "photos").status == 201
    load = Load(account, "photos")
    load.fill([f"{number:05d}" for number in range(610)])
    await_true(
        lambda: run_pass(one_node) and is_settled(one_node, (owner, "photos")), "all sharded"
    )
    first = {item["name"] for item in ranges_of(one_node, (owner, "photos"))[0]}
    load.fill([f"{number:05d}" for number in range(610, 1100)])
    load.start([f"{n:05d}" for n in range(300, 1200, 7)], writers=2, listers=2)

    def is_divided() -> bool:
        run_pass(one_node)
        found = ranges_of(one_node, (owner, "photos"))
        names = [{item["name"] for item in replica} for replica in found]
        return is_settled(one_node, (owner, "photos")) and all(len(n - first) >= 2 for n in names)

    try:
        await_true(is_divided, "the last shard is divided")
        for _ in range(2):
            run_pass(one_node)
    finally:
        load.stop()
    assert load.faults == []
    (ranges, *_) = ranges_of(one_node, (owner, "photos"))
    assert all(one["upper"] == other["lower"] for one, other in itertools.pairwise(ranges))
    assert account.call("GET", "photos").lines == load.expected
    await_true(lambda: has_totals(account, load), "the totals of the container")


def test_small_shards_are_joined_under_load(one_node: RunningCluster) -> None:
    account = Account(one_node.port)
    owner = account.path.rpartition("/")[2]
    assert account.call("PUT", "photos").status == 201
    load = Load(account, "photos")
    names = [f"{number:05d}" for number in range(640)]
    load.fill(names)
    await_true(
        lambda: run_pass(one_node) and is_settled(one_node, (owner, "photos")), "all sharded"
    )
    before = len(ranges_of(one_node, (owner, "photos"))[0])
    assert before >= 3
    load.delete(names[100:])
    assert load.faults == []
    set_options(one_node, shrink_threshold=100, expansion_limit=300)
    load.start(names[::7], writers=2, listers=2)
    try:
        await_true(
            lambda: run_pass(one_node) and len(ranges_of(one_node, (owner, "photos"))[0]) == 1,
            "one shard is left",
        )
        run_pass(one_node)
    finally:
        load.stop()
    assert load.faults == []
    assert account.call("GET", "photos").lines == load.expected
    await_true(lambda: has_totals(account, load), "the totals of the container")


def test_kills_only_delay(new_cluster: Callable[..., RunningCluster]) -> None:
    """Of the sharder at any moment, and of container servers: no acknowledged row is lost."""
    cluster = new_cluster("--nodes", "3").start()
    set_options(cluster, **OPTIONS)
    account = Account(cluster.port)
    owner = account.path.rpartition("/")[2]
    assert account.call("PUT", "photos").status == 201
    load = Load(account, "photos")
    load.fill([f"{number:05d}" for number in range(700)])
    assert load.faults == []
    load.start([f"{n:05d}" for n in range(0, 900, 3)], writers=2, listers=0)
    chance, killed = random.Random(5), 0
    try:
        for attempt in range(18):
            running = start_pass(confs(cluster)[attempt % 3])
            killed += running.kill_after(chance.uniform(0.02, 0.5))
            if attempt % 6 == 5:
                cluster.kill_and_await_restart(f"container-server-node{attempt % 3 + 1}")
    finally:
        load.stop()
    assert killed, "the passes were faster than the test"
    assert [fault for fault in load.faults if not fault.endswith(": 503")] == []

    def is_done() -> bool:
        run_pass(cluster, must_succeed=False)
        return is_settled(cluster, (owner, "photos"))

    await_true(is_done, "all sharded")
    load.settle()
    await_true(lambda: account.call("GET", "photos").lines == load.expected, "the listing")
    await_true(lambda: has_totals(account, load), "the totals of the container")


def names_and_versions(account: Account, container: str, **query: str | int) -> list[Any]:
    wanted: dict[str, str | int] = {"format": "json", "versions": "true", **query}
    entries = account.send("GET", account.url(container, **wanted)).json
    return [(e["name"], e["version_id"], e["is_latest"], e["bytes"], e["hash"]) for e in entries]


def put_versions(account: Account) -> None:
    headers = {
        "X-Versions-Enabled": "true",
        "X-Container-Read": ".r:*",
        "X-Container-Meta-Quota-Count": "75",
    }
    assert account.call("PUT", "photos", headers=headers).status == 201
    for number in range(70):
        name = f"{'ab'[number % 2]}/ö{number:02d}"
        assert account.call("PUT", "photos", name, body=b"1").status == 201
        if number % 3 == 0:
            assert account.call("PUT", "photos", name, body=b"22").status == 201
        if number % 10 == 0:
            assert account.call("DELETE", "photos", name).status == 204


def test_all_that_a_container_can_stays_right(one_node: RunningCluster) -> None:
    """Versions, formats, ACLs, quotas and the deletion; and a start by hand."""
    account = Account(one_node.port)
    owner = account.path.rpartition("/")[2]
    put_versions(account)
    queries: list[dict[str, str | int]] = [
        {"format": "json"},
        {"format": "xml", "delimiter": "/"},
        {"format": "json", "delimiter": "/", "reverse": "true"},
        {"prefix": "a/", "limit": 7, "marker": "a/ö20"},
        {"prefix": "b/", "end_marker": "b/ö41", "reverse": "on"},
        {"format": "json", "versions": "true", "limit": 50},
        {"path": "a"},
    ]

    def answers() -> list[bytes]:
        return [account.send("GET", account.url("photos", **query)).body for query in queries]

    before, versions = answers(), names_and_versions(account, "photos")
    totals = account.call("HEAD", "photos").headers
    set_options(one_node, shard_container_threshold=1000, rows_per_shard=20, minimum_shard_size=5)
    run_pass(one_node)
    assert ranges_of(one_node, (owner, "photos")) == [[], [], []]
    assert one_node.command("shards", owner, "photos", "--start").returncode == 0
    rounds = 0
    while not is_settled(one_node, (owner, "photos")):
        run_pass(one_node)
        assert answers() == before
        assert names_and_versions(account, "photos") == versions
        rounds += 1
        assert rounds < 20
    now = account.call("HEAD", "photos").headers
    for name in ("x-container-object-count", "x-container-bytes-used", "x-container-read"):
        assert now[name] == totals[name]
    shown = json.loads(one_node.command("shards", owner, "photos", "--json").stdout)
    assert len(shown["ranges"]) == 3
    assert {item["state"] for item in shown["ranges"]} == {"active"}
    assert [replica["state"] for replica in shown["replicas"]] == ["sharded"] * 3
    assert "active" in one_node.command("shards", owner, "photos").stdout
    for path in (f"{owner}/photos", f"{owner}/photos/a/ö02"):
        audit = one_node.command("audit-account", path)
        assert audit.returncode == 0, audit.stdout
    assert (
        f"{int(totals['x-container-object-count'])} objects: no"
        in one_node.command("audit-account", owner).stdout
    )

    anyone = Account.with_token(one_node.port, "", account.path)
    assert anyone.call("GET", "photos", "a/ö02").body == b"1"
    # Pages of versions: the marker may lie in the middle of a name's.
    paged: list[Any] = []
    while len(paged) < len(versions):
        marker = {"marker": paged[-1][0], "version_marker": paged[-1][1]} if paged else {}
        paged += names_and_versions(account, "photos", limit=3, **marker)
    assert paged == versions
    count = int(totals["x-container-object-count"])

    for number in range(75 - count):
        assert account.call("PUT", "photos", f"c/{number}", body=b"1").status == 201
    assert account.call("PUT", "photos", "c/more", body=b"1").status == 413
    assert account.call("DELETE", "photos").status == 409
    for name, version, *_ in names_and_versions(account, "photos"):
        path = account.url("photos", name) + f"?version-id={version}"
        assert account.send("DELETE", path).status == 204
    assert names_and_versions(account, "photos") == []
    assert account.call("DELETE", "photos").status == 204
    assert account.call("GET", "photos").status == 404
    assert account.call("PUT", "photos").status == 201
    assert account.call("PUT", "photos", "new", body=b"1").status == 201
    assert account.call("GET", "photos").lines == ["new"]


def test_a_deleted_account_with_shards_is_reaped(one_node: RunningCluster) -> None:
    """Also if the container is divided only in part when the account is deleted."""
    account = Account(one_node.port)
    owner = account.path.rpartition("/")[2]
    put_versions(account)
    set_options(one_node, rows_per_shard=20, minimum_shard_size=5)
    assert one_node.command("shards", owner, "photos", "--start").returncode == 0
    assert run_pass(one_node)["given"] > 0
    assert not is_settled(one_node, (owner, "photos"))
    entries = names_and_versions(account, "photos")
    admin = Account(one_node.port, "admin:admin", "admin")
    assert admin.send("DELETE", account.path).status == 204

    def is_reaped() -> bool:
        run_pass(one_node)
        return run_reaper(one_node)["accounts"] == 0

    await_true(is_reaped, "an empty account")
    await_no_object(one_node, [(owner, "photos", name) for name, *_ in entries])


def run_reaper(cluster: RunningCluster) -> dict[str, float]:
    (conf,) = (cluster.home / "etc").rglob("account-server.conf")
    once = Pass("replicator.account_reaper", str(conf), "--once", "--json")
    return total_figures([once], must_succeed=False)

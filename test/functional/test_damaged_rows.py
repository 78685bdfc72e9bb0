"""Damage in the files of pending container rows, on the devices of running object servers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cluster_databases import listed, ring_of
from frozen import frozen
from running_cluster import RunningCluster, await_true, descendants
from swift_api import Account

NAMES = [f"o{number:02}" for number in range(20)]


def test_rows_that_damage_has_taken_are_made_again(
    new_cluster: Callable[..., RunningCluster],
) -> None:
    cluster = new_cluster("--nodes", "3", "--no-background").start()
    account = Account(cluster.port)
    owner = account.path.rpartition("/")[2]
    assert account.call("PUT", "damaged-rows").status == 201
    ring = ring_of(cluster, "container")
    server = cluster.pid_of(min(n for n in cluster.services() if "container-s" in n))
    with frozen(server, *descendants(server)):
        for name in NAMES:
            assert account.call("PUT", "damaged-rows", name, body=name.encode()).status == 201
        await_true(lambda: pending(cluster, ".pending"), "rows wait for the server")
        for file in pending(cluster, ".pending"):
            flip_a_bit_of_each_kilobyte(file)
    everywhere = [NAMES] * 3
    await_true(lambda: listed(cluster, ring, owner, "damaged-rows") == everywhere, "all rows")
    await_true(lambda: pending(cluster, ".pending") == [], "nothing waits")
    assert pending(cluster, ".damaged"), "no file is kept"


def pending(cluster: RunningCluster, suffix: str) -> list[Path]:
    """The files of pending rows of all devices that have this suffix."""
    return sorted(cluster.home.rglob(f"async_pending*/*{suffix}"))


def flip_a_bit_of_each_kilobyte(file: Path) -> None:
    """Change a file in place, as a disk does."""
    with file.open("r+b") as opened:
        content = opened.read()
        for at in range(20, len(content), 1024):
            opened.seek(at)
            opened.write(bytes([content[at] ^ 1]))
